//! How the cleaner's threads are woken, and told to end.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
struct Notices {
    asked: u64,
    is_stopping: bool,
}

/// A condition variable with a memory, so that no wakeup is lost.
#[derive(Default)]
pub(crate) struct Wakeup {
    /// Set by a client that asks, and cleared by a thread that begins to look: a client that finds it set need not take
    /// the mutex.
    is_asked: AtomicBool,
    notices: Mutex<Notices>,
    changed: Condvar,
}

impl Wakeup {
    fn notices(&self) -> MutexGuard<'_, Notices> {
        // Two plain values, right whatever a panicking holder did.
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads, if there are any.
    pub(super) fn ask(&self) {
        if !self.is_asked.swap(true, Ordering::AcqRel) {
            self.notices().asked += 1;
            self.changed.notify_all();
        }
    }

    /// A thread looks for work: what is asked from now on is for the next look.
    pub(super) fn begin_look(&self) {
        self.is_asked.store(false, Ordering::Release);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.notices().is_stopping
    }

    pub(super) fn stop(&self) {
        self.notices().is_stopping = true;
        self.changed.notify_all();
    }

    /// Waits for a wakeup after the `seen`-th, for so long at most; returns how many there were, unless it is time
    /// to stop.
    pub(super) fn wait(&self, seen: u64, pause: Duration) -> ControlFlow<(), u64> {
        let waited = self
            .changed
            .wait_timeout_while(self.notices(), pause, |now| {
                !now.is_stopping && now.asked == seen
            });
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match now.is_stopping {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(now.asked),
        }
    }
}
