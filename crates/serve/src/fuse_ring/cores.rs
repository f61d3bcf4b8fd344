//! The machine's cores as the kernel's FUSE counts them: a queue for each that is possible, also for those that are
//! not there now.

use std::io;
use std::ops::Range;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Threads of a queue at the start. One whose core is not there needs a single one.
const THREADS_AT_FIRST: usize = 8;

/// And at most, as many as requests that wait for the backing by `/dev/fuse`.
pub const THREADS_MAX: usize = 64;

/// Which cores there may be, and which there are.
#[derive(Debug, PartialEq, Eq)]
pub struct Cores {
    possible: usize,
    online: Vec<usize>,
}

impl Cores {
    /// # Errors
    /// The kernel does not tell.
    pub fn of_this_machine() -> io::Result<Cores> {
        let listed = |name: &str| {
            let path = format!("/sys/devices/system/cpu/{name}");
            let text = std::fs::read_to_string(&path)?;
            let unreadable = || io::Error::other(format!("{path} says {text:?}"));
            parse(&text).ok_or_else(unreadable)
        };
        Ok(Cores {
            possible: listed("possible")?.len(),
            online: listed("online")?,
        })
    }

    /// One for each core there may be.
    pub fn queues(&self) -> Range<usize> {
        0..self.possible
    }

    pub fn is_online(&self, core: usize) -> bool {
        self.online.contains(&core)
    }

    /// How many threads the queue of this core begins with.
    pub fn threads_of(&self, core: usize) -> usize {
        match self.is_online(core) {
            true => THREADS_AT_FIRST,
            false => 1,
        }
    }
}

/// The numbers of a list such as `0-3,8`.
fn parse(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // A queue's number has 16 bits.
        if first > last || last > usize::from(u16::MAX) {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

/// Keeps this thread on the core, if that is one of those that it was given; elsewhere it is right as well, and slower.
pub fn pin(core: usize) {
    let is_given =
        sched_getaffinity(None).is_ok_and(|given| core < CpuSet::MAX_CPU && given.is_set(core));
    if is_given {
        let mut only = CpuSet::new();
        only.set(core);
        if let Err(error) = sched_setaffinity(None, &only) {
            tracing::debug!(%error, core, "a thread of the rings is not pinned");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse("0"), Some(vec![0]));
        for damaged in ["", "3-1", "0-", "a", "0-99999999999"] {
            assert_eq!(parse(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn each_queue_has_a_thread_and_those_of_this_machine_s_cores_several() {
        let cores = |possible, online: usize| Cores {
            possible,
            online: (0..online).collect(),
        };
        let threads = |cores: &Cores| -> Vec<usize> {
            let queues = cores.queues();
            queues.map(|core| cores.threads_of(core)).collect()
        };
        assert_eq!(threads(&cores(4, 1)), [8, 1, 1, 1]);
        assert_eq!(threads(&cores(64, 64)), [8; 64]);
        let here = Cores::of_this_machine().unwrap();
        assert!(here.queues().len() >= here.online.len());
    }
}
