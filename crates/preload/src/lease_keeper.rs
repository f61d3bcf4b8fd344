//! The thread that handles broken leases, brings closed files back, and closes the pool when the process ends.

#![allow(unsafe_code, reason = "signals have no safe interface")]

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::thread::futex::{self, Timespec};

use crate::leases::{LeaseThread, is_broken, signal};
use crate::locking::lock;
use crate::{buffering, process};

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

/// Makes it write everything back and close the pool, and waits for that as long as it makes
/// progress. Takes no lock and no memory.
pub fn close_buffer(thread: &LeaseThread) {
    if !thread.is_running() {
        return;
    }
    CLOSING.store(ASKED, Ordering::Release);
    thread.wake();
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

/// What the thread of the leases does for as long as the process lasts.
pub fn keep() {
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
                    buffering::close_buffer(process);
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
    let work = lock(work).take();
    if let Some(work) = work {
        work();
    }
}
