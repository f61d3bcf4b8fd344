//! Programs that tests and measurements run: waited for with a deadline, called off by Ctrl-C, never left
//! behind.
//!
//! Each is the head of a process group of its own, so that Ctrl-C reaches only the program that runs
//! them. That one begins with [`catch_signals`]; a signal is then an error of whatever it waits for, and
//! unwinding ends the programs.

mod daemon;
mod group;
mod interrupt;
mod output;
mod own_time;

pub use daemon::Daemon;
pub use group::Group;
pub use interrupt::{catch_signals, check_interrupt, sleep, wait_for};
pub use output::{Output, output, run};
pub use own_time::OwnTime;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

/// How much of what a program printed is told.
const TAIL_LINES: usize = 30;

/// The last lines of a text.
#[must_use]
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// The last lines of a log, which may not be there.
#[must_use]
pub fn tail_of(log: &std::path::Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    tail(&String::from_utf8_lossy(&bytes))
}

/// Processor time that those threads of a process have used that have not ended, in its own code and in the kernel.
///
/// # Errors
/// There is no such process.
pub fn processor_time(process: u32) -> Result<Duration> {
    let path = format!("/proc/{process}/task");
    let tasks = std::fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?;
    let mut sum_ns = 0;
    for task in tasks {
        // A thread that has just ended has none.
        let told = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let first = told.split_whitespace().next();
        sum_ns += first.and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(sum_ns))
}

/// What the calling thread has had of processors so far.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
pub(crate) mod testing {
    use std::process::Command;
    use std::time::Duration;

    pub const MINUTE: Duration = Duration::from_secs(60);

    pub fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }
}
