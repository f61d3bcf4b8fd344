//! When a file was modified, while the backing cannot tell: write-back comes long after the write.
//!
//! While the pool has a file, its times are kept here, moved by every change, and put back after
//! write-back has moved the backing's own. They are as exact as a crash leaves them: recovery's own
//! write-back is seen as a modification.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

/// The backing's own time stands.
const BACKINGS_OWN: i64 = i64::MIN;

const NANOSECONDS: i64 = 1_000_000_000;

/// See the module. Nanoseconds since the epoch.
#[derive(Debug)]
pub(crate) struct Times {
    modified_ns: AtomicI64,
    written_ns: AtomicI64,
}

impl Times {
    pub(crate) fn new() -> Times {
        Times {
            modified_ns: AtomicI64::new(BACKINGS_OWN),
            written_ns: AtomicI64::new(BACKINGS_OWN),
        }
    }

    /// The pool has the file from now on.
    pub(crate) fn begin(&self, file: &File) -> io::Result<()> {
        if self.modified_ns.load(Ordering::Acquire) == BACKINGS_OWN {
            let modified_ns = modified_of(&rustix::fs::fstat(file)?);
            self.modified_ns.store(modified_ns, Ordering::Release);
        }
        Ok(())
    }

    /// The content was changed.
    #[inline]
    pub(crate) fn written(&self) {
        if self.modified_ns.load(Ordering::Relaxed) != BACKINGS_OWN {
            // Not the coarse clock: it may lag behind what the kernel gave the file.
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            let now_ns = now.tv_sec * NANOSECONDS + now.tv_nsec;
            self.modified_ns.store(now_ns, Ordering::Release);
            self.written_ns.store(now_ns, Ordering::Release);
        }
    }

    /// A caller chooses the time, which the backing has not yet; changes are excluded. Returns what
    /// stands if it refuses: see [`Times::not_chosen`].
    pub(crate) fn choose(&self, chosen: &Timespec) -> i64 {
        let before = self.modified_ns.load(Ordering::Acquire);
        if before != BACKINGS_OWN {
            let chosen = match chosen.tv_nsec {
                UTIME_NOW => rustix::time::clock_gettime(rustix::time::ClockId::Realtime),
                _ => *chosen,
            };
            let modified_ns = ns_of(chosen.tv_sec, chosen.tv_nsec);
            self.modified_ns.store(modified_ns, Ordering::Release);
        }
        before
    }

    /// The backing has the chosen time. Of "now" it says when that was.
    pub(crate) fn chosen_now(&self, chosen: &Timespec, file: &File) -> io::Result<()> {
        if chosen.tv_nsec == UTIME_NOW && self.modified_ns.load(Ordering::Acquire) != BACKINGS_OWN {
            let modified_ns = modified_of(&rustix::fs::fstat(file)?);
            self.modified_ns.store(modified_ns, Ordering::Release);
        }
        Ok(())
    }

    /// The backing has refused the time: what was before stands, there too if write-back came in between.
    pub(crate) fn not_chosen(&self, before: i64, file: &File) {
        if before != BACKINGS_OWN {
            self.modified_ns.store(before, Ordering::Release);
            // As in [`Times::end`].
            let _ = self.restore(file);
        }
    }

    /// Puts the time of modification back that write-back has moved. What is written meanwhile is put
    /// there too.
    pub(crate) fn restore(&self, file: &File) -> io::Result<()> {
        let mut modified_ns = self.modified_ns.load(Ordering::Acquire);
        while modified_ns != BACKINGS_OWN {
            let omitted = Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            };
            let times = Timestamps {
                last_access: omitted,
                last_modification: Timespec {
                    tv_sec: modified_ns.div_euclid(NANOSECONDS),
                    tv_nsec: modified_ns.rem_euclid(NANOSECONDS),
                },
            };
            rustix::fs::futimens(file, &times)?;
            let found = self.modified_ns.load(Ordering::Acquire);
            if found == modified_ns {
                return Ok(());
            }
            modified_ns = found;
        }
        Ok(())
    }

    /// The pool has nothing of the file any more: the backing's own times stand again.
    pub(crate) fn end(&self, file: &File) {
        // Without the right to set it, the time of the last write-back stands.
        let _ = self.restore(file);
        self.modified_ns.store(BACKINGS_OWN, Ordering::Release);
        self.written_ns.store(BACKINGS_OWN, Ordering::Release);
    }

    /// The time of modification, and that of the last write, where the backing does not tell.
    pub(crate) fn told(&self) -> (Option<SystemTime>, Option<SystemTime>) {
        let told = |at: &AtomicI64| match at.load(Ordering::Acquire) {
            BACKINGS_OWN => None,
            ns => Some(system_time(ns)),
        };
        (told(&self.modified_ns), told(&self.written_ns))
    }
}

/// Gives the file the time of modification that it had.
///
/// # Errors
/// It is not ours to set.
pub(crate) fn set_modified(file: &File, had: &Stat) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: had.st_mtime,
            tv_nsec: had.st_mtime_nsec as i64,
        },
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

fn modified_of(stat: &Stat) -> i64 {
    ns_of(stat.st_mtime, stat.st_mtime_nsec as i64)
}

fn ns_of(seconds: i64, nanoseconds: i64) -> i64 {
    let ns = seconds.saturating_mul(NANOSECONDS);
    // The last nanosecond before the mark is as good as the mark.
    ns.saturating_add(nanoseconds).max(BACKINGS_OWN + 1)
}

fn system_time(ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    match ns < 0 {
        true => UNIX_EPOCH - distance,
        false => UNIX_EPOCH + distance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_back_puts_a_time_back_that_is_being_chosen_unless_that_was_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        let modified = || file.metadata().unwrap().modified().unwrap();
        let times = Times::new();
        times.begin(&file).unwrap();
        let first = modified();
        let chosen = Timespec {
            tv_sec: 7,
            tv_nsec: 8,
        };
        let before = times.choose(&chosen);
        file.set_modified(UNIX_EPOCH).unwrap();
        times.restore(&file).unwrap();
        let asked = UNIX_EPOCH + Duration::new(7, 8);
        assert_eq!((modified(), times.told().0), (asked, Some(asked)));
        times.not_chosen(before, &file);
        assert_eq!((modified(), times.told().0), (first, Some(first)));
    }

    #[test]
    fn write_back_leaves_no_trace_in_the_times() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        let modified = || file.metadata().unwrap().modified().unwrap();
        let times = Times::new();
        times.written();
        assert_eq!(times.told(), (None, None), "the backing knows it");
        times.begin(&file).unwrap();
        let before = modified();
        assert_eq!(times.told(), (Some(before), None));
        let old = UNIX_EPOCH - Duration::new(5, 1);
        let chosen = Timespec {
            tv_sec: -6,
            tv_nsec: 999_999_999,
        };
        times.choose(&chosen);
        file.set_modified(old).unwrap();
        times.chosen_now(&chosen, &file).unwrap();
        file.set_len(7).unwrap();
        assert!(modified() > old, "as after write-back");
        times.restore(&file).unwrap();
        assert_eq!(modified(), old);
        times.written();
        let (told, written) = times.told();
        assert!(told.unwrap() >= before && told == written);
        times.end(&file);
        assert_eq!(modified(), told.unwrap());
        assert_eq!(times.told(), (None, None));
    }
}
