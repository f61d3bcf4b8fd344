//! Where it was measured: a sentence for the page.

/// Processor, kernel and how busy the machine is.
pub fn told() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.and_then(|rest| rest.split_once(':'));
    let model = model.map_or("an unnamed processor", |(_, name)| name.trim());
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split_whitespace().nth(2).unwrap_or("unknown");
    format!(
        "Measured on {processors} processors of {model}, Linux {}; the machine's load over the last quarter of an hour, our \
         own included, was {load}.",
        kernel.trim()
    )
}
