//! A thread that sleeps until there is something to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Wakes one thread, once for however many calls come while it is awake.
#[derive(Debug, Default)]
pub(super) struct Wakeup {
    is_asked: AtomicBool,
    sleep: Mutex<()>,
    asked: Condvar,
}

impl Wakeup {
    /// Has the thread run once more. A load is all that it costs while that is asked for already.
    pub(super) fn wake(&self) {
        if self.is_asked.load(Ordering::Acquire) || self.is_asked.swap(true, Ordering::AcqRel) {
            return;
        }
        // Under the lock: the thread has looked, or sleeps and hears it.
        drop(self.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        self.asked.notify_one();
    }

    /// Sleeps until it is asked for.
    pub(super) fn wait(&self) {
        let mut slept = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_asked.swap(false, Ordering::AcqRel) {
            slept = self
                .asked
                .wait(slept)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
