//! Our own descriptors: kept at high numbers, out of the way of programs that rely on low ones, and
//! tracked, so that a program that closes everything does not close the pool.

#![allow(unsafe_code, reason = "descriptors of the process are moved by number")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Our descriptors have this number or a higher one, where the hard limit allows.
///
/// `select` takes numbers below 1024 only, and the program's descriptors may get the numbers after
/// ours.
const FIRST_WANTED: u64 = 600;
/// Room for ours.
const ROOM: u64 = 400;
/// Higher ones are not tracked.
const NUMBERS_MAX: usize = 1 << 16;

/// One bit for each descriptor that is ours.
static OURS: [AtomicU64; NUMBERS_MAX / 64] = [const { AtomicU64::new(0) }; NUMBERS_MAX / 64];

/// Whether the descriptor is ours.
#[inline]
pub fn is_ours(fd: RawFd) -> bool {
    let number = fd as usize;
    number < NUMBERS_MAX && OURS[number / 64].load(Ordering::Relaxed) & (1 << (number % 64)) != 0
}

/// All of ours below [`NUMBERS_MAX`].
pub fn ours() -> impl Iterator<Item = RawFd> {
    let words = OURS.iter().enumerate();
    let words = words.filter(|(_, word)| word.load(Ordering::Relaxed) != 0);
    words.flat_map(|(index, _)| {
        let first = index as RawFd * 64;
        (first..first + 64).filter(|fd| is_ours(*fd))
    })
}

fn set_ours(fd: RawFd) {
    if let Some(word) = OURS.get(fd as usize / 64) {
        word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
    }
}

/// One of ours is closed.
pub fn forget_ours(fd: RawFd) {
    if let Some(word) = OURS.get(fd as usize / 64) {
        word.fetch_and(!(1 << (fd % 64)), Ordering::Relaxed);
    }
}

/// Held while the soft limit is raised: the thread that raised it restores what the program had.
static LIMIT: Mutex<()> = Mutex::new(());

/// No thread has the limit raised, or raises it, while this is held: a child of `fork` begins with
/// the program's limit, and with the lock free.
pub struct LimitAsIs(#[expect(dead_code, reason = "held, not used")] MutexGuard<'static, ()>);

/// Waits until the soft limit is the program's.
pub fn keep_limit() -> LimitAsIs {
    LimitAsIs(LIMIT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The soft limit of descriptors, raised until this is dropped.
struct RaisedLimit {
    before: libc::rlimit,
    first: RawFd,
    _alone: LimitAsIs,
}

impl RaisedLimit {
    fn new() -> RaisedLimit {
        let alone = keep_limit();
        let mut before = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: it fills the variable, which outlives the call.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) };
        let wanted = before
            .rlim_cur
            .max(FIRST_WANTED + ROOM)
            .min(before.rlim_max);
        if wanted > before.rlim_cur {
            let raised = libc::rlimit {
                rlim_cur: wanted,
                rlim_max: before.rlim_max,
            };
            // SAFETY: it reads the variable, which outlives the call. Where it is refused, the soft
            // limit stays and is kept to.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) };
        }
        RaisedLimit {
            before,
            first: FIRST_WANTED.min(wanted / 2) as RawFd,
            _alone: alone,
        }
    }
}

impl Drop for RaisedLimit {
    fn drop(&mut self) {
        // SAFETY: it reads the variable, which outlives the call; descriptors above the limit stay
        // open.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &self.before) };
    }
}

/// A duplicate at a high number.
pub fn duplicate_high(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let limit = RaisedLimit::new();
    let high = rustix::io::fcntl_dupfd_cloexec(fd, limit.first)?;
    set_ours(high.as_raw_fd());
    Ok(high)
}

/// Moves a descriptor to a high number.
pub fn move_high(fd: OwnedFd) -> io::Result<OwnedFd> {
    let high = duplicate_high(rustix::fd::AsFd::as_fd(&fd))?;
    drop(fd);
    Ok(high)
}

/// Runs `opening` in such a way that the descriptors which it leaves open are high; those of `paths` are
/// known as ours afterwards. What other threads open meanwhile is high too, but theirs.
pub fn opening_high<T>(paths: &[PathBuf], opening: impl FnOnce() -> T) -> T {
    let limit = RaisedLimit::new();
    // Not while the low numbers are taken: the kernel makes an inode for each descriptor that it lists.
    let before = open_from(limit.first);
    let fillers = take_below(limit.first);
    let result = opening();
    drop(fillers);
    for fd in open_from(limit.first) {
        let path = std::fs::read_link(format!("/proc/self/fd/{fd}"));
        if !before.contains(&fd) && path.is_ok_and(|path| paths.contains(&path)) {
            set_ours(fd);
        }
    }
    result
}

/// Takes every free number below this one.
fn take_below(first: RawFd) -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    if let Ok(null) = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    ) {
        while let Ok(filler) = rustix::io::fcntl_dupfd_cloexec(&null, 0) {
            if filler.as_raw_fd() >= first {
                break;
            }
            taken.push(filler);
        }
        taken.push(null);
    }
    taken
}

/// The open descriptors from `first` on.
pub fn open_from(first: RawFd) -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let open: Vec<RawFd> = numbers.filter(|fd| *fd >= first).collect();
    // One of them was the listing itself.
    open.into_iter().filter(|fd| is_open(*fd)).collect()
}

fn is_open(fd: RawFd) -> bool {
    // SAFETY: it takes numbers and changes nothing; any number may be asked for.
    unsafe { libc::fcntl(fd, libc::F_GETFD) != -1 }
}

/// Closes every descriptor of ours but `kept`: in a child of `fork`, which must not use them.
pub fn close_ours(kept: Option<RawFd>) {
    for fd in ours().filter(|fd| Some(*fd) != kept) {
        forget_ours(fd);
        // SAFETY: it is ours, and the copies of its owners in this child are never used.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_opening_leaves_is_high_and_known_and_the_low_numbers_are_free_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().canonicalize().unwrap();
        let open = || OwnedFd::from(std::fs::File::open(&path).unwrap());
        let mut listed = 0;
        let opened = opening_high(std::slice::from_ref(&path), || {
            listed = open_from(0).len();
            open()
        });
        let first = RaisedLimit::new().first;
        assert!(opened.as_raw_fd() >= first);
        assert!(is_ours(opened.as_raw_fd()));
        assert!(listed >= first as usize, "all low numbers were taken");
        let low = open();
        assert!(low.as_raw_fd() < first && !is_ours(low.as_raw_fd()));
        forget_ours(opened.as_raw_fd());
    }
}
