//! Keeping the session's threads free: a request that waits for the backing must not delay those
//! that need not wait.
//!
//! The session has few threads, since each more makes every request slower. They serve what they read
//! themselves while nothing waits, and hand it to helper threads while something does: from the moment
//! that a request has been under way for [`PATIENCE`], until [`LASTING`] after the last one that was.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A request that takes longer waits for something.
const PATIENCE_MS: u64 = 10;

/// How long after it others are expected to wait, too.
const LASTING_MS: u64 = 1000;

/// Helper threads at most; what comes then queues.
const HELPERS_MAX: usize = 64;

/// A helper that has nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(10);

/// No request is under way.
const NONE: u64 = 0;

type Request = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The place of this thread among the session's.
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// See the module.
#[derive(Debug)]
pub struct OverflowThreads {
    /// When the request began that each of the session's threads serves.
    began_ms: Box<[AtomicU64]>,
    places_given: AtomicUsize,
    expected_until_ms: AtomicU64,
    helpers: Arc<Helpers>,
}

#[derive(Default)]
struct Helpers {
    state: Mutex<HelpersState>,
    has_work: Condvar,
}

#[derive(Default)]
struct HelpersState {
    queue: VecDeque<Request>,
    threads: usize,
    idle: usize,
}

impl std::fmt::Debug for Helpers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        formatter
            .debug_struct("Helpers")
            .field("queued", &state.queue.len())
            .field("threads", &state.threads)
            .field("idle", &state.idle)
            .finish()
    }
}

/// A request that a thread of the session serves itself.
#[derive(Debug)]
pub struct Turn<'a> {
    overflow: &'a OverflowThreads,
    place: usize,
}

impl OverflowThreads {
    /// For a session of so many threads.
    pub fn new(threads: usize) -> OverflowThreads {
        OverflowThreads {
            began_ms: (0..threads.max(1)).map(|_| AtomicU64::new(NONE)).collect(),
            places_given: AtomicUsize::new(0),
            expected_until_ms: AtomicU64::new(0),
            helpers: Arc::default(),
        }
    }

    /// Whether the next request is to be handed over; if not, it is this thread's turn.
    pub fn turn(&self) -> Option<Turn<'_>> {
        let now = now_ms();
        let waits = |began: &AtomicU64| match began.load(Ordering::Relaxed) {
            NONE => false,
            began => now.saturating_sub(began) >= PATIENCE_MS,
        };
        if now < self.expected_until_ms.load(Ordering::Relaxed) || self.began_ms.iter().any(waits) {
            return None;
        }
        let place = self.place();
        self.began_ms[place].store(now, Ordering::Relaxed);
        Some(Turn {
            overflow: self,
            place,
        })
    }

    /// Has a helper serve a request.
    pub fn hand_over(&self, request: impl FnOnce() + Send + 'static) {
        let mut state = self.helpers.state();
        state.queue.push_back(Box::new(request));
        if state.idle >= state.queue.len() || state.threads == HELPERS_MAX {
            self.helpers.has_work.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let helpers = Arc::clone(&self.helpers);
        let spawned = std::thread::Builder::new()
            .name("mount-helper".into())
            .spawn(move || helpers.work());
        if spawned.is_err() {
            let next = {
                let mut state = self.helpers.state();
                state.threads -= 1;
                state.queue.pop_front()
            };
            // Then the session waits after all.
            if let Some(request) = next {
                request();
            }
        }
    }

    fn place(&self) -> usize {
        PLACE.with(|place| {
            let number = place.get().unwrap_or_else(|| {
                let number = self.places_given.fetch_add(1, Ordering::Relaxed);
                place.set(Some(number));
                number
            });
            number % self.began_ms.len()
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let began = self.overflow.began_ms[self.place].swap(NONE, Ordering::Relaxed);
        let now = now_ms();
        if now.saturating_sub(began) >= PATIENCE_MS {
            let until = &self.overflow.expected_until_ms;
            until.store(now + LASTING_MS, Ordering::Relaxed);
        }
    }
}

impl Helpers {
    fn state(&self) -> MutexGuard<'_, HelpersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(request) = state.queue.pop_front() {
                drop(state);
                request();
                state = self.state();
                continue;
            }
            state.idle += 1;
            let (woken, waited) = self
                .has_work
                .wait_timeout(state, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// A clock that is right to a few milliseconds and never 0.
pub fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn while_a_request_waits_others_are_handed_over() {
        let overflow = OverflowThreads::new(2);
        drop(overflow.turn().unwrap());
        let waiting = overflow.turn().unwrap();
        std::thread::sleep(Duration::from_millis(3 * PATIENCE_MS));
        assert!(overflow.turn().is_none());
        let (sender, done) = channel();
        // More than there are helpers, each waiting for the last one to come.
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for number in 0..HELPERS_MAX + 10 {
            let (sender, gate) = (sender.clone(), Arc::clone(&gate));
            overflow.hand_over(move || {
                if number < HELPERS_MAX {
                    let _ = gate.lock().unwrap().recv();
                }
                sender.send(number).unwrap();
            });
        }
        drop(release);
        let mut served: Vec<_> = done.iter().take(HELPERS_MAX + 10).collect();
        served.sort_unstable();
        assert_eq!(served, (0..HELPERS_MAX + 10).collect::<Vec<_>>());
        drop(waiting);
        assert!(overflow.turn().is_none(), "more of the kind is expected");
    }
}
