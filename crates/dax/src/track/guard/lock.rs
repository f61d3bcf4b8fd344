//! A lock that a signal handler may take, and the futex below it.
#![allow(
    unsafe_code,
    reason = "futexes and signal masks are the system's own interface"
)]

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and a thread may wait for it.
const CONTENDED: u32 = 2;

/// Waits until the word is not `value`, or for no reason.
pub(super) fn wait_while(word: &AtomicU32, value: u32) {
    // SAFETY: the word lives across the call; a futex wait touches nothing else.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        );
    }
}

/// Wakes up to `threads` of those that wait for the word to change.
pub(super) fn wake(word: &AtomicU32, threads: i32) {
    // SAFETY: as in `wait_while`.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            threads,
        );
    }
}

/// A lock of one word: nothing is allocated, no thread-local is touched. A thread takes it only with its signals
/// blocked, so that no handler waits for the thread that it interrupted.
#[derive(Debug, Default)]
pub(super) struct SignalLock(AtomicU32);

impl SignalLock {
    /// Runs `work` with the lock taken. `work` must not panic; nothing that it does can.
    pub(super) fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        // Acquire: what the last one did with it taken is seen.
        let is_free = self
            .0
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if is_free.is_err() {
            while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
                wait_while(&self.0, CONTENDED);
            }
        }
        let result = work();
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            wake(&self.0, 1);
        }
        result
    }

    /// In a child process: the thread that had it is not there.
    pub(super) fn reset(&self) {
        self.0.store(FREE, Ordering::Release);
    }
}

/// What signals a thread had blocked before the first of its `SignalsBlocked`, and how many of these there are.
struct Blocked {
    depth: usize,
    before: Option<libc::sigset_t>,
}

thread_local! {
    static BLOCKED: RefCell<Blocked> = const { RefCell::new(Blocked { depth: 0, before: None }) };
}

/// Signals that a thread's own access or instruction raises: blocked, they would end the process. A copy of a page may
/// meet a bad one of the medium (SIGBUS), and a thread may store to a page that is not held (SIGSEGV).
const SYNCHRONOUS: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];

/// All other signals to this thread are blocked until it, and any other of the thread, is dropped: in any order.
pub(crate) struct SignalsBlocked {
    /// Signals are given back to the thread that they were taken from.
    not_send: PhantomData<*const ()>,
}

impl SignalsBlocked {
    pub(crate) fn new() -> SignalsBlocked {
        BLOCKED.with_borrow_mut(|blocked| {
            if blocked.depth == 0 {
                // SAFETY: both sets are ours, and an all-zero set is one that can be filled.
                blocked.before = Some(unsafe {
                    let mut all: libc::sigset_t = std::mem::zeroed();
                    let mut before: libc::sigset_t = std::mem::zeroed();
                    libc::sigfillset(&mut all);
                    for signal in SYNCHRONOUS {
                        libc::sigdelset(&mut all, signal);
                    }
                    libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
                    before
                });
            }
            blocked.depth += 1;
        });
        SignalsBlocked {
            not_send: PhantomData,
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        BLOCKED.with_borrow_mut(|blocked| {
            blocked.depth -= 1;
            if blocked.depth > 0 {
                return;
            }
            if let Some(before) = blocked.before.take() {
                // SAFETY: the set is what this thread had before.
                unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
            }
        });
    }
}
