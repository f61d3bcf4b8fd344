//! How much of the processors processes have used, in their own code and in the kernel's.

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

/// With fewer ticks than that the share of a short time says nothing.
const TICKS_MIN: u64 = 10;

/// What this process had used at a moment.
#[derive(Clone, Copy, Debug)]
pub struct OwnTime {
    /// All of its threads, those that have ended too; exact.
    all_ns: u64,
    /// In which hundredths of a second it was met in its own code, and in the kernel.
    ticks: Ticks,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    user: u64,
    kernel: u64,
}

impl OwnTime {
    /// Until now.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn now() -> Result<OwnTime> {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let ticks = ticks(&stat).ok_or_else(|| format!("no times in {stat:?}"))?;
        Ok(OwnTime {
            all_ns: time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
            ticks,
        })
    }

    /// What was used since `before`, in programs and libraries, then in the kernel on their behalf, in
    /// nanoseconds. The sum is exact; the parts are as large as the ticks were, of the whole process where the time
    /// was short.
    pub fn since(self, before: OwnTime) -> (f64, f64) {
        let ticks = Ticks {
            user: self.ticks.user - before.ticks.user,
            kernel: self.ticks.kernel - before.ticks.kernel,
        };
        let told = match ticks.user + ticks.kernel {
            few if few < TICKS_MIN => self.ticks,
            _ => ticks,
        };
        let all_ns = (self.all_ns - before.all_ns) as f64;
        let user_ns = all_ns * told.user as f64 / (told.user + told.kernel).max(1) as f64;
        (user_ns, all_ns - user_ns)
    }
}

/// The 14th and the 15th field; the second is a name in brackets and may hold anything.
fn ticks(stat: &str) -> Option<Ticks> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse().ok();
    Some(Ticks {
        user: next()?,
        kernel: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_a_name_of_any_kind() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0 20";
        let wanted = Ticks {
            user: 250,
            kernel: 30,
        };
        assert_eq!(ticks(stat), Some(wanted));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn time_is_parted_as_the_ticks_were_and_where_they_were_few_as_all_were() {
        let at = |all_ns, user, kernel| OwnTime {
            all_ns,
            ticks: Ticks { user, kernel },
        };
        let (before, after) = (at(1000, 10, 10), at(2000, 40, 20));
        assert_eq!(after.since(before), (750.0, 250.0));
        let soon = at(1400, 11, 33);
        assert_eq!(soon.since(at(1000, 10, 30)), (100.0, 300.0));
    }

    #[test]
    fn the_time_of_a_process_that_runs_is_told() {
        let before = OwnTime::now().expect("ours");
        let (user_ns, kernel_ns) = OwnTime::now().expect("ours").since(before);
        assert!(user_ns + kernel_ns > 0.0);
        let all = crate::processor_time(std::process::id()).expect("we run");
        assert!(!all.is_zero());
    }
}
