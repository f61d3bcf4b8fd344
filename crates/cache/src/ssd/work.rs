//! What wakes the pool's thread, and those who wait for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A writer looks so often whether its deadline has passed, or the pool is closed; it is woken when there is room.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Counts {
    /// How often there was work for the thread.
    wanted: u64,
    /// How often it made room.
    made: u64,
    has_thread: bool,
    is_stopping: bool,
    /// Nobody waits for room any more.
    ends_soon: bool,
    waiting_writers: u64,
    has_changed: bool,
}

/// What wakes the pool's thread, and those who wait for it.
#[derive(Default)]
pub(crate) struct Work {
    counts: Mutex<Counts>,
    wanted: Condvar,
    made: Condvar,
}

impl Work {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to do.
    pub(super) fn wake(&self) {
        self.lock().wanted += 1;
        self.wanted.notify_one();
    }

    /// A volume has got its backing, or is being given up: what failed may be tried at once.
    pub(super) fn note_change(&self) {
        self.lock().has_changed = true;
        self.wake();
    }

    /// Whether one has since the last time.
    pub(super) fn take_change(&self) -> bool {
        std::mem::take(&mut self.lock().has_changed)
    }

    /// There is room.
    pub(super) fn note_made(&self) {
        self.lock().made += 1;
        self.made.notify_all();
    }

    /// How often there was room until now: taken before it is found that there is none, so that none is missed.
    pub(super) fn made(&self) -> u64 {
        self.lock().made
    }

    pub(super) fn waiting_writers(&self) -> u64 {
        self.lock().waiting_writers
    }

    pub(super) fn begin_thread(&self) {
        self.lock().has_thread = true;
    }

    /// Nobody waits for room any more, though the thread goes on.
    pub(super) fn end_waits(&self) {
        self.lock().ends_soon = true;
        self.made.notify_all();
    }

    /// Whether a writer that finds no room is to be refused at once.
    pub(super) fn refuses_waits(&self) -> bool {
        let counts = self.lock();
        counts.is_stopping || counts.ends_soon
    }

    /// The thread is to end, and nobody waits for it any more.
    pub(super) fn end_thread(&self) {
        let mut counts = self.lock();
        counts.has_thread = false;
        counts.is_stopping = true;
        self.wanted.notify_all();
        self.made.notify_all();
    }

    /// The thread has ended; callers work for themselves from now on.
    pub(super) fn go_on_without(&self) {
        self.lock().is_stopping = false;
    }

    /// Waits until there is more to do than was `seen`, or for so long at most; what is seen now, or none if it is to end.
    pub(super) fn wait_wanted(&self, seen: u64, at_most: Option<Duration>) -> Option<u64> {
        let counts = self.lock();
        let is_idle = |counts: &mut Counts| counts.wanted == seen && !counts.is_stopping;
        let counts = match at_most {
            None => self
                .wanted
                .wait_while(counts, is_idle)
                .unwrap_or_else(PoisonError::into_inner),
            Some(at_most) => {
                let waited = self.wanted.wait_timeout_while(counts, at_most, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        (!counts.is_stopping).then_some(counts.wanted)
    }

    /// Waits until there was room more often than `seen`, for a moment at most.
    pub(super) fn wait_made(&self, seen: u64) {
        let mut counts = self.lock();
        counts.waiting_writers += 1;
        let is_waiting =
            |counts: &mut Counts| counts.made == seen && counts.has_thread && !counts.ends_soon;
        let waited = self.made.wait_timeout_while(counts, LOOK, is_waiting);
        waited
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .waiting_writers -= 1;
    }

    pub(super) fn has_thread(&self) -> bool {
        self.lock().has_thread
    }
}
