//! A lock that a signal handler may take, and the futex below it.
#![allow(
    unsafe_code,
    reason = "futexes and signal masks are the system's own interface"
)]

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

/// All signals to this thread are blocked until it is dropped.
pub(super) struct SignalsBlocked {
    before: libc::sigset_t,
    not_send: PhantomData<*const ()>,
}

impl SignalsBlocked {
    pub(super) fn new() -> SignalsBlocked {
        // SAFETY: both sets are ours, and an all-zero set is one that can be filled.
        let before = unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            before
        };
        SignalsBlocked {
            before,
            not_send: PhantomData,
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set is what this thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
