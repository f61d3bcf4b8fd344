//! Sleeping and waking: background threads wait for work, throttled writers for space.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::options::RuntimeOptions;
use crate::policy::pace::Pace;
use crate::policy::watermarks::Watermarks;
use crate::sync::{AtomicBool, Ordering};

#[derive(Default)]
struct State {
    stopping: bool,
    work_notices: u64,
    space_notices: u64,
}

/// Two condition variables with a memory, so that no wakeup is lost.
pub(crate) struct Wakeup {
    state: Mutex<State>,
    work: Condvar,
    space: Condvar,
    /// A committer asked for reclaim, which has not begun since.
    is_reclaim_asked: AtomicBool,
    /// How fast writers may go.
    pub(crate) pace: Pace,
    pub(crate) watermarks: Watermarks,
}

impl Wakeup {
    /// The wakeup of a pool of `slots` slots.
    pub(crate) fn new(slots: u64, block_bytes: u64, options: &RuntimeOptions) -> Wakeup {
        let kept_free = slots * u64::from(options.free_low_per_mille) / 1000;
        Wakeup {
            state: Mutex::default(),
            work: Condvar::new(),
            space: Condvar::new(),
            is_reclaim_asked: AtomicBool::new(false),
            pace: Pace::new(slots.saturating_sub(kept_free), block_bytes),
            watermarks: Watermarks::new(options),
        }
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The number of dirty blocks rose to `now`, by the calling thread. Cheap up to the low mark.
    #[inline]
    pub(crate) fn dirty_rose(&self, now: u64) {
        if now > self.pace.low() {
            self.dirty_rose_above_low(now);
        }
    }
    #[cold]
    fn dirty_rose_above_low(&self, now: u64) {
        self.pace.charge();
        if now == self.pace.low() + 1 {
            self.notify_work();
        }
    }
    /// Wakes the background threads.
    pub(crate) fn notify_work(&self) {
        self.state().work_notices += 1;
        self.work.notify_all();
    }
    /// Wakes the background threads, once until reclaim has begun: committers that find no slot ask at each commit.
    pub(crate) fn ask_for_reclaim(&self) {
        // A committer that asks in vain took its slots before, and the reclaimer looks after it has cleared this.
        if !self.is_reclaim_asked.swap(true, Ordering::AcqRel) {
            self.notify_work();
        }
    }
    /// Reclaim is about to look how much is free.
    pub(crate) fn begin_reclaim(&self) {
        self.is_reclaim_asked.swap(false, Ordering::AcqRel);
    }
    /// Wakes throttled writers.
    pub(crate) fn notify_space(&self) {
        self.state().space_notices += 1;
        self.space.notify_all();
    }
    /// Tells the background threads to end.
    pub(crate) fn stop(&self) {
        self.state().stopping = true;
        self.work.notify_all();
        self.space.notify_all();
    }
    pub(crate) fn is_stopping(&self) -> bool {
        self.state().stopping
    }
    /// Waits for a wakeup after the `seen`-th; returns the number of wakeups and whether to stop.
    pub(crate) fn wait_work(&self, seen: u64, at_most: Duration) -> (u64, bool) {
        let state = self.state();
        let (state, _) = self
            .work
            .wait_timeout_while(state, at_most, |s| !s.stopping && s.work_notices == seen)
            .unwrap_or_else(|e| e.into_inner());
        (state.work_notices, state.stopping)
    }
    /// Sleeps, unless the pool is being closed.
    pub(crate) fn pause(&self, at_most: Duration) {
        let state = self.state();
        drop(
            self.work
                .wait_timeout_while(state, at_most, |s| !s.stopping),
        );
    }
    /// The number of wakeups for space so far; take it before looking for space.
    pub(crate) fn space_notices(&self) -> u64 {
        self.state().space_notices
    }
    /// Waits for space to be announced after the `seen`-th wakeup.
    pub(crate) fn wait_space(&self, seen: u64, at_most: Duration) {
        let state = self.state();
        drop(
            self.space
                .wait_timeout_while(state, at_most, |s| !s.stopping && s.space_notices == seen),
        );
    }
}
