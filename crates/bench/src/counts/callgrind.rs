//! One run under callgrind, and what it counted of each function.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use forebay_harness::Result;
use forebay_pmem::{KERNEL_VARIABLE, Kernel};

use crate::scratch::Scratch;

/// The kernel that is counted.
pub(super) const KERNEL: Kernel = Kernel::Avx2Crc32;

/// Operations of the shorter of two runs.
pub(super) const FEW: u64 = 100;

/// What is run.
pub(super) struct Loop<'a> {
    pub(super) operation: &'a str,
    pub(super) times: u64,
    /// A pattern for the function outside of which nothing counts; without it everything does.
    pub(super) counted_function: Option<&'a str>,
}

/// What was counted, without what was called.
#[derive(Clone, Copy, Default)]
pub(super) struct Cost {
    pub(super) instructions: u64,
    /// Instructions that store, calls and locked ones with them. Only where a function was named.
    pub(super) stores: u64,
}

/// The cost of each function.
pub(super) struct Profile(BTreeMap<String, Cost>);

impl Profile {
    /// Instructions of all functions.
    pub(super) fn total(&self) -> u64 {
        self.0.values().map(|cost| cost.instructions).sum()
    }

    /// The cost of the functions whose names are wanted.
    pub(super) fn of(&self, is_wanted: impl Fn(&str) -> bool) -> Cost {
        let wanted = self.0.iter().filter(|(name, _)| is_wanted(name));
        wanted.fold(Cost::default(), |sum, (_, cost)| Cost {
            instructions: sum.instructions + cost.instructions,
            stores: sum.stores + cost.stores,
        })
    }
}

/// Runs this program's counted process under callgrind.
pub(super) fn run(scratch: &Scratch, asked: &Loop<'_>) -> Result<Profile> {
    let (pool, profile) = (scratch.file("pool"), scratch.file("callgrind.out"));
    let mut command = Command::new("valgrind");
    command
        .arg("--tool=callgrind")
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", profile.path().display()));
    if let Some(function) = asked.counted_function {
        command
            .arg("--cache-sim=yes")
            .arg(format!("--toggle-collect={function}"));
    }
    let output = command
        .arg(std::env::current_exe()?)
        .args(["count-loop", asked.operation, &asked.times.to_string()])
        .arg(pool.path())
        .env(KERNEL_VARIABLE, KERNEL.name())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} under valgrind failed: {said}", asked.operation).into());
    }
    let text = std::fs::read_to_string(profile.path())?;
    let read = parse(&text).filter(|profile| profile.total() > 0);
    read.ok_or_else(|| format!("{}: callgrind counted nothing", asked.operation).into())
}

/// Reads what callgrind wrote (the manual's "Callgrind Format Specification"): under the name of each
/// function lines of costs, and behind each call a line with the cost of what was called.
fn parse(text: &str) -> Option<Profile> {
    let events = text
        .lines()
        .find_map(|line| line.strip_prefix("events: "))?;
    let column = |name| events.split(' ').position(|event| event == name);
    let (instructions, stores) = (column("Ir")?, column("Dw"));
    let mut functions: BTreeMap<String, Cost> = BTreeMap::new();
    let (mut function, mut is_of_call) = (String::new(), false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            name.clone_into(&mut function);
        } else if line.starts_with("calls=") {
            is_of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit())
            && !std::mem::take(&mut is_of_call)
        {
            // The line's number, then the events; those that end the line may be left out if none.
            let counts: Vec<u64> = line.split(' ').skip(1).flat_map(str::parse).collect();
            let of = |column: usize| counts.get(column).copied().unwrap_or(0);
            let cost = functions.entry(function.clone()).or_default();
            cost.instructions += of(instructions);
            cost.stores += stores.map_or(0, of);
        }
    }
    Some(Profile(functions))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn costs_are_summed_by_function_and_those_of_calls_left_out() {
        let text = "version: 1\npositions: line\nevents: Ir Dr Dw\nsummary: 37 0 5\n\n\
                    fl=a.rs\nfn=one\n16 10 2 3\ncfi=b.rs\ncfn=two\ncalls=4 50\n17 20 0 1\n18 5\n\n\
                    fl=b.rs\nfn=two\n50 20 0 1\n\nfn=one\n19 2 0 1\n\ntotals: 37 0 5\n";
        let profile = parse(text).expect("it names its events");
        assert_eq!(profile.total(), 37);
        let one = profile.of(|name| name == "one");
        assert_eq!((one.instructions, one.stores), (17, 4));
        assert_eq!(profile.of(|name| name == "two").stores, 1);
    }
}
