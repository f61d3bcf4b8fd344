//! Exclusive leases: the kernel's promise that a file is open here only. Another open waits until the
//! thread here, which `lease_keeper` runs, has brought the file back and released the lease.

#![allow(
    unsafe_code,
    reason = "leases and their signals have no safe interface"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use crate::inside;

/// `F_SETSIG`, `F_SETOWN_EX` and `F_OWNER_TID`, which libc lacks for some targets.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const F_OWNER_TID: i32 = 0;

#[repr(C)]
struct OwnerEx {
    kind: i32,
    id: i32,
}

/// The thread that handles broken leases.
pub struct LeaseThread {
    id: i32,
    /// Whether files that were closed are being brought back.
    pub is_tidying: AtomicBool,
}

pub fn signal() -> i32 {
    libc::SIGRTMAX() - 3
}

fn checked(result: i32) -> io::Result<i32> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

impl LeaseThread {
    /// Starts it with what it does; the caller has blocked all signals.
    pub fn start(keep: fn()) -> LeaseThread {
        let (sender, receiver) = mpsc::channel();
        let started = std::thread::Builder::new()
            .name("forebay-leases".into())
            .stack_size(256 << 10)
            .spawn(move || {
                inside::stay_inside();
                // SAFETY: it takes nothing and cannot fail.
                let _ = sender.send(unsafe { libc::gettid() });
                keep();
            });
        let id = started.ok().and_then(|_| receiver.recv().ok());
        // Without it no lease is taken, and nothing is buffered.
        LeaseThread {
            id: id.unwrap_or(-1),
            is_tidying: AtomicBool::new(false),
        }
    }

    pub fn is_running(&self) -> bool {
        self.id >= 0
    }

    /// Takes the exclusive lease of the file behind `fd`.
    pub fn take(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if !self.is_running() {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let owner = OwnerEx {
            kind: F_OWNER_TID,
            id: self.id,
        };
        let fd = fd.as_raw_fd();
        // SAFETY: the descriptor is open, and the record outlives the call that reads it.
        unsafe {
            checked(libc::fcntl(fd, F_SETSIG, signal()))?;
            checked(libc::fcntl(fd, F_SETOWN_EX, &raw const owner))?;
            checked(libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK))?;
        }
        Ok(())
    }

    /// Makes it check all files now.
    pub fn wake(&self) {
        // SAFETY: it takes numbers; the thread has the signal blocked and waits for it.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.id, signal()) };
    }
}

/// Releases the lease; opens that wait for it go on.
pub fn let_go(fd: BorrowedFd<'_>) {
    // SAFETY: it takes numbers, and the descriptor is open. Where there is no lease it does
    // nothing.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Whether an open waits for the lease to be released.
pub fn is_broken(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: it takes numbers, and the descriptor is open.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETLEASE) != libc::F_WRLCK }
}
