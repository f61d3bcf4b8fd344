//! The lock that keeps a pool's file to one process.

#![allow(unsafe_code, reason = "the lock is a system call of libc")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How long a lock is asked for that another process has. One that has the pool keeps it for longer; those
/// that only look at it, and a child between its fork and its exec, which has every descriptor of its
/// parent, let go sooner.
const PASSING_MAX: Duration = Duration::from_millis(250);

const FIRST_PAUSE: Duration = Duration::from_micros(200);

/// Locks a file against every other process, until the last copy of its descriptor is closed.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if another process has it and keeps it; what the kernel says otherwise.
pub fn lock_exclusively(file: &File) -> io::Result<()> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match try_lock(file, libc::LOCK_EX) {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && began.elapsed() < PASSING_MAX =>
            {
                std::thread::sleep(pause);
                pause *= 2;
            }
            tried => return tried,
        }
    }
}

/// The same beside others that only read it; does not wait.
pub(crate) fn lock_shared(file: &File) -> io::Result<()> {
    try_lock(file, libc::LOCK_SH)
}

fn try_lock(file: &File, operation: i32) -> io::Result<()> {
    // SAFETY: a plain system call on a descriptor that the caller has open.
    match unsafe { libc::flock(file.as_raw_fd(), operation | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_let_go_soon_is_waited_for_and_one_that_is_kept_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let holder = File::create(&path).unwrap();
        lock_exclusively(&holder).unwrap();
        // As a child of fork has it.
        let inherited = holder.try_clone().unwrap();
        drop(holder);
        let other = File::open(&path).unwrap();
        let kept = lock_exclusively(&other).unwrap_err();
        assert_eq!(kept.kind(), io::ErrorKind::WouldBlock);
        let (asks, asked) = std::sync::mpsc::channel();
        let child = std::thread::spawn(move || {
            asked.recv().unwrap();
            std::thread::sleep(Duration::from_millis(1));
            drop(inherited);
        });
        asks.send(()).unwrap();
        lock_exclusively(&other).unwrap();
        child.join().unwrap();
    }
}
