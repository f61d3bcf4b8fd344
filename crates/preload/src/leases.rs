//! Exclusive leases: the kernel's promise that a file is open here only. Another open waits until the
//! thread here has brought the file back and released the lease.

#![allow(
    unsafe_code,
    reason = "leases and their signals have no safe interface"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustix::thread::futex::{self, Timespec};

use crate::{buffering, inside, process};

/// `F_SETSIG`, `F_SETOWN_EX` and `F_OWNER_TID`, which libc lacks for some targets.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const F_OWNER_TID: i32 = 0;

/// A signal may be lost when too many are queued: the leases are checked this often anyway.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Whether the process ends: the thread is asked to bring everything back, and reports when it has.
static CLOSING: AtomicU32 = AtomicU32::new(0);
const ASKED: u32 = 1;
const DONE: u32 = 2;
/// When no file is brought back for this time, the thread waits for a lock that it will never get:
/// one of libc's, held by the thread that a signal handler has interrupted. Long enough for a slow
/// disk.
const STUCK_AFTER_S: i64 = 10;

#[repr(C)]
struct OwnerEx {
    kind: i32,
    id: i32,
}

/// The thread that handles broken leases.
pub struct LeaseThread {
    id: i32,
    /// Whether files that were closed are being brought back.
    is_tidying: AtomicBool,
}

fn signal() -> i32 {
    libc::SIGRTMAX() - 3
}

fn checked(result: i32) -> io::Result<i32> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

impl LeaseThread {
    /// Starts it; the caller has blocked all signals.
    pub fn start() -> LeaseThread {
        let (sender, receiver) = mpsc::channel();
        let started = std::thread::Builder::new()
            .name("forebay-leases".into())
            .stack_size(256 << 10)
            .spawn(move || {
                inside::stay_inside();
                // SAFETY: it takes nothing and cannot fail.
                let _ = sender.send(unsafe { libc::gettid() });
                serve();
            });
        let id = started.ok().and_then(|_| receiver.recv().ok());
        // Without it no lease is taken, and nothing is buffered.
        LeaseThread {
            id: id.unwrap_or(-1),
            is_tidying: AtomicBool::new(false),
        }
    }

    /// Takes the exclusive lease of the file behind `fd`.
    pub fn take(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if self.id < 0 {
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

    /// Makes it write everything back and close the pool, and waits for that as long as it makes
    /// progress. Takes no lock and no memory.
    pub fn close_buffer(&self) {
        if self.id < 0 {
            return;
        }
        CLOSING.store(ASKED, Ordering::Release);
        self.wake();
        let mut progress = buffering::brought_back();
        while CLOSING.load(Ordering::Acquire) != DONE {
            let limit = Timespec {
                tv_sec: STUCK_AFTER_S,
                tv_nsec: 0,
            };
            let waited = futex::wait(&CLOSING, futex::Flags::PRIVATE, ASKED, Some(&limit));
            let now = buffering::brought_back();
            if waited == Err(rustix::io::Errno::TIMEDOUT) && now == progress {
                return;
            }
            progress = now;
        }
    }
}

/// Releases the lease; opens that wait for it go on.
pub fn let_go(fd: BorrowedFd<'_>) {
    // SAFETY: it takes numbers, and the descriptor is open. Where there is no lease it does
    // nothing.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Whether an open waits for the lease to be released.
fn is_broken(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: it takes numbers, and the descriptor is open.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETLEASE) != libc::F_WRLCK }
}

fn serve() {
    // SAFETY: the set is filled before it is used.
    let signals = unsafe {
        let mut signals = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, signal());
        // What the kernel sends when the queue is full.
        libc::sigaddset(&mut signals, libc::SIGIO);
        signals
    };
    let every = libc::timespec {
        tv_sec: LOOK_EVERY.as_secs() as i64,
        tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()),
    };
    loop {
        // SAFETY: the sets and times live across the call; the signals are blocked in this thread.
        unsafe { libc::sigtimedwait(&signals, std::ptr::null_mut(), &every) };
        if CLOSING.load(Ordering::Acquire) == ASKED {
            // The process ends: leases are no longer checked. After a panic the pool is left to recovery.
            let _ = std::panic::catch_unwind(|| {
                if let Some(process) = process::get() {
                    process.close_buffer();
                }
            });
            CLOSING.store(DONE, Ordering::Release);
            let _ = futex::wake(&CLOSING, futex::Flags::PRIVATE, u32::MAX);
        }
        look_over();
    }
}

fn look_over() {
    let Some(process) = process::get() else {
        return;
    };
    for file in process.all_tracked() {
        // The thread that has it locked is bringing it back, or is done in a moment.
        let Some(life) = file.try_read_life() else {
            continue;
        };
        let own = life.own.as_ref().filter(|_| life.is_buffered);
        let is_wanted = own.is_some_and(|own| is_broken(own.as_fd()));
        drop(life);
        if is_wanted {
            beside(move || buffering::give_way(process, file));
        }
    }
    let surplus = process.closed_too_many();
    if let Some(thread) = process.leases.get()
        && !surplus.is_empty()
        && !thread.is_tidying.swap(true, Ordering::AcqRel)
    {
        beside(move || {
            for file in surplus {
                buffering::give_way(process, file);
            }
            thread.is_tidying.store(false, Ordering::Release);
        });
    }
}

/// Does it on a thread of its own: a disk that does not answer does not hold up other files. Signals
/// are blocked here, and so there.
fn beside(work: impl FnOnce() + Send + 'static) {
    let work = Arc::new(Mutex::new(Some(work)));
    let theirs = work.clone();
    let started = std::thread::Builder::new()
        .name("forebay-return".into())
        .stack_size(256 << 10)
        .spawn(move || take(&theirs));
    if started.is_err() {
        take(&work);
    }
}

fn take(work: &Mutex<Option<impl FnOnce()>>) {
    let work = process::lock(work).take();
    if let Some(work) = work {
        work();
    }
}
