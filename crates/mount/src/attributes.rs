//! Attributes between the backing's form and the kernel's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

/// What the kernel is told of an inode.
pub fn of(stat: &Stat, number: INodeNo) -> FileAttr {
    FileAttr {
        ino: number,
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time_of(stat.st_atime, stat.st_atime_nsec),
        mtime: time_of(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time_of(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind_of(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

/// A type in the kernel's terms; one that the backing does not tell counts as a file.
pub fn kind_of(kind: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Backing;
    match kind {
        Backing::Directory => FileType::Directory,
        Backing::Symlink => FileType::Symlink,
        Backing::Fifo => FileType::NamedPipe,
        Backing::Socket => FileType::Socket,
        Backing::CharacterDevice => FileType::CharDevice,
        Backing::BlockDevice => FileType::BlockDevice,
        Backing::RegularFile | Backing::Unknown => FileType::RegularFile,
    }
}

/// What stands for nothing: the number 0 makes a lookup's answer "no such name, remember that".
pub fn nothing() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::Directory,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

fn time_of(seconds: i64, nanoseconds: impl TryInto<u32>) -> SystemTime {
    let fraction = Duration::from_nanos(u64::from(nanoseconds.try_into().unwrap_or(0)));
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 {
        UNIX_EPOCH - whole
    } else {
        UNIX_EPOCH + whole
    };
    base + fraction
}

/// What `utimensat` is to set.
pub fn timestamps(accessed: Option<TimeOrNow>, modified: Option<TimeOrNow>) -> Timestamps {
    Timestamps {
        last_access: timespec(accessed),
        last_modification: timespec(modified),
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(UTIME_OMIT),
        Some(TimeOrNow::Now) => special(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => timespec_of(time),
    }
}

/// A time that the kernel asks for, in the form that `fuser` gives it and [`timestamps`] undoes.
pub fn asked(seconds: i64, nanoseconds: u32) -> SystemTime {
    // More than a billionth is no time of the kernel's.
    let distance = Duration::new(seconds.unsigned_abs(), nanoseconds.min(999_999_999));
    let asked = match seconds < 0 {
        true => UNIX_EPOCH.checked_sub(distance),
        false => UNIX_EPOCH.checked_add(distance),
    };
    asked.unwrap_or(UNIX_EPOCH)
}

/// The time that the kernel asked for. What `fuser` makes of one before the epoch lies as far behind the
/// whole second as it should lie before the next: it takes the nanoseconds off as well.
fn timespec_of(time: SystemTime) -> Timespec {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timespec {
            tv_sec: since.as_secs() as i64,
            tv_nsec: i64::from(since.subsec_nanos()),
        },
        Err(before) => {
            let before = before.duration();
            Timespec {
                tv_sec: -(before.as_secs() as i64),
                tv_nsec: i64::from(before.subsec_nanos()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_nanoseconds_on_both_sides_of_the_epoch() {
        for (seconds, nanoseconds) in [(0, 0), (5, 999_999_999), (-1, 1), (-7, 0), (-7, 500)] {
            let set = timespec_of(asked(seconds, nanoseconds));
            let expected = (seconds, i64::from(nanoseconds));
            assert_eq!((set.tv_sec, set.tv_nsec), expected);
            // It tells the kernel rightly what we tell it.
            let shown = time_of(seconds, nanoseconds);
            let whole = Duration::from_secs(i64::unsigned_abs(seconds));
            let second = match seconds < 0 {
                true => UNIX_EPOCH - whole,
                false => UNIX_EPOCH + whole,
            };
            let fraction = shown.duration_since(second).unwrap();
            assert_eq!(fraction, Duration::from_nanos(u64::from(nanoseconds)));
        }
    }
}
