//! Which machine numbers are of, when they were made, and what else it did meanwhile.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::rows::commit_hash;

/// Seconds of a day.
const DAY_S: u64 = 86_400;
/// Ticks of `/proc/stat` in a second, whatever the kernel's own clock (proc(5): `USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// The machine, the tree and the day.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The processor in the kernel's words.
    pub processor: String,
    /// How many of them this process may use.
    pub cores: usize,
    /// The system's kernel.
    pub system: String,
    /// The tree that the numbers are of, with `-dirty` where it has changes.
    pub commit: String,
    /// When, in UTC, like `2019-08-23 14:05`.
    pub date: String,
    /// Processes that ran or wanted to in the last minute, on average, when this was asked.
    pub load_average: Option<f64>,
}

impl Machine {
    /// This one, now.
    #[must_use]
    pub fn here() -> Machine {
        let file = |path| std::fs::read_to_string(path).unwrap_or_default();
        let load = file("/proc/loadavg");
        Machine {
            processor: model_name(&file("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("Linux {}", file("/proc/sys/kernel/osrelease").trim()),
            commit: commit_hash(),
            date: date(SystemTime::now()),
            load_average: load.split(' ').next().and_then(|first| first.parse().ok()),
        }
    }

    /// As one object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "processor": self.processor,
            "cores": self.cores,
            "system": self.system,
            "commit_hash": self.commit,
            "date": self.date,
            "load_average_before": self.load_average,
        })
    }
}

fn model_name(text: &str) -> String {
    let model = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| "an unknown processor".into())
}

/// A moment in words, in UTC, like `2019-08-23 14:05`.
#[must_use]
pub fn date(time: SystemTime) -> String {
    let since_1970 = time.duration_since(UNIX_EPOCH);
    date_of(since_1970.unwrap_or_default().as_secs())
}

/// So many seconds after 1970 began, in words of the Gregorian calendar.
fn date_of(seconds: u64) -> String {
    let (mut days, time) = (seconds / DAY_S, seconds % DAY_S);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let days_of = |year| if is_leap(year) { 366 } else { 365 };
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    format!(
        "{year}-{:02}-{:02} {:02}:{:02}",
        month + 1,
        days + 1,
        time / 3600,
        time / 60 % 60
    )
}

/// How many of the machine's processors were taken by others than this process: by other programs, by the kernel for
/// them, and by the host of a virtual machine.
#[derive(Debug)]
pub struct OthersWatch {
    began: Instant,
    machine: Option<Duration>,
    own: Duration,
}

impl OthersWatch {
    /// Watches from now on.
    #[must_use]
    pub fn begin() -> OthersWatch {
        OthersWatch {
            machine: busy(&std::fs::read_to_string("/proc/stat").unwrap_or_default()),
            own: own_time(),
            began: Instant::now(),
        }
    }

    /// Processors taken by others since it began, on average: 0 on an idle machine, as many as there are at most. None where
    /// the kernel does not tell, or too little time has passed: it counts hundredths of seconds.
    #[must_use]
    pub fn processors(&self) -> Option<f64> {
        let elapsed = self.began.elapsed();
        if elapsed < Duration::from_millis(100) {
            return None;
        }
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let machine = busy(&text)?.checked_sub(self.machine?)?;
        let others = machine.as_secs_f64() - (own_time() - self.own).as_secs_f64();
        Some((others / elapsed.as_secs_f64()).max(0.0))
    }
}

/// What all processors did that was not idling or waiting for a disk: user, nice, system, interrupts, and what the host took.
fn busy(stat: &str) -> Option<Duration> {
    let all = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = all
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    const IDLE: usize = 3;
    const WAITING: usize = 4;
    // After what the host took comes what guests had, which is in the user's already.
    let busy = ticks.iter().take(8).enumerate();
    let busy = busy.filter(|(field, _)| ![IDLE, WAITING].contains(field));
    let ticks: u64 = busy.map(|(_, ticks)| ticks).sum();
    Some(Duration::from_secs_f64(ticks as f64 / TICKS_PER_S))
}

fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (1_566_569_100, "2019-08-23 14:05"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(date_of(seconds), date);
        }
    }

    #[test]
    fn the_processor_is_named_as_the_kernel_names_it() {
        let text = "processor\t: 0\nmodel name\t: An Example: 7 Cores\nflags\t: fpu\n";
        assert_eq!(model_name(text), "An Example: 7 Cores");
        assert_eq!(model_name(""), "an unknown processor");
    }

    #[test]
    fn idling_and_waiting_are_not_being_busy() {
        let stat = "cpu  100 200 300 9000 500 10 20 30 70 0\ncpu0 1 1 1 1\n";
        assert_eq!(busy(stat), Some(Duration::from_millis(6600)));
        assert_eq!(busy("intr 5"), None);
    }

    /// What this process does itself is nobody else's.
    #[test]
    fn others_take_no_less_than_nothing() {
        let watch = OthersWatch::begin();
        assert_eq!(watch.processors(), None, "too early to tell");
        let until = Instant::now() + Duration::from_millis(120);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        let others = watch.processors().expect("Linux tells");
        assert!(others >= 0.0 && others.is_finite());
    }
}
