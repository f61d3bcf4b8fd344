//! The time of a machine with one processor that skips waits: what the threads of this process compute takes as long as it takes, and
//! a wait for a device during which no thread has anything to compute takes no time of the host's.
//!
//! A device that is emulated by waiting makes its callers sleep or spin. Sleepers wake some tens of microseconds late, which is as
//! long as an SSD takes; spinners take the processors from each other. With more callers than processors either measures the host.
//! Here time is what this process has had of processors, all its threads together, and what was skipped. So it passes as on one
//! processor that is never idle while there is work, however many the host has and whatever else it does; locks that are held
//! across a wait keep others waiting as they would.
//!
//! A thread, the *keeper*, looks again and again. A caller whose wait has passed goes on. Where no thread can run (each
//! waits for the device, for a lock, or to be woken) the keeper skips to the end of the first wait. What the keeper itself takes
//! of processors is not counted.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Between two looks of the keeper, at least.
const LOOK_EACH: Duration = Duration::from_micros(20);

/// The time, from zero on.
#[derive(Debug, Default)]
pub struct VirtualClock {
    state: Mutex<State>,
    /// Threads that ask for the time or want to wait, and may wait for the keeper to have looked.
    at_the_door: AtomicUsize,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    skipped: Duration,
    /// What the keeper has had of processors, and what the process had before.
    uncounted: Duration,
    waits: Vec<Wait>,
}

#[derive(Debug)]
struct Wait {
    until: Duration,
    thread: Thread,
    is_over: Arc<AtomicBool>,
}

/// Ends the keeper.
#[derive(Debug)]
pub struct Keeper {
    clock: Arc<VirtualClock>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.clock.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, the waits would have hung before.
            let _ = thread.join();
        }
    }
}

impl VirtualClock {
    /// A clock, and its keeper. Waits end while there is one.
    #[must_use]
    pub fn start() -> (Arc<VirtualClock>, Keeper) {
        let clock = Arc::new(VirtualClock::default());
        clock.lock().uncounted = process_time();
        let kept = Arc::clone(&clock);
        let thread = std::thread::spawn(move || kept.keep());
        let keeper = Keeper {
            clock: Arc::clone(&clock),
            thread: Some(thread),
        };
        (clock, keeper)
    }

    /// What time it is.
    pub fn now(&self) -> Duration {
        self.at_the_door.fetch_add(1, Ordering::SeqCst);
        let now = self.lock().now();
        self.at_the_door.fetch_sub(1, Ordering::SeqCst);
        now
    }

    /// Returns when it is `until` or later.
    pub fn wait_until(&self, until: Duration) {
        let is_over = Arc::new(AtomicBool::new(false));
        let wait = Wait {
            until,
            thread: std::thread::current(),
            is_over: Arc::clone(&is_over),
        };
        self.at_the_door.fetch_add(1, Ordering::SeqCst);
        self.lock().waits.push(wait);
        self.at_the_door.fetch_sub(1, Ordering::SeqCst);
        while !is_over.load(Ordering::Acquire) {
            std::thread::park();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No invariant spans what a panicking holder could have left undone.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self) {
        let mut counted = thread_time();
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EACH);
            let mut state = self.lock();
            // Its own part is left out before it looks, and again after.
            let mut leave_out = |state: &mut State| {
                let had = thread_time();
                state.uncounted += had.saturating_sub(counted);
                counted = had;
            };
            leave_out(&mut state);
            let now = state.now();
            state.end_waits(now);
            if !state.waits.is_empty() && self.is_idle() {
                let first = state.waits.iter().map(|wait| wait.until).min();
                let skip = first.map_or(Duration::ZERO, |first| first.saturating_sub(now));
                state.skipped += skip;
                state.end_waits(now + skip);
            }
            leave_out(&mut state);
        }
        // No keeper is left that could end them.
        let mut state = self.lock();
        state.end_waits(Duration::MAX);
    }

    /// Whether no thread of this process but the keeper, which asks, can run before a wait ends.
    ///
    /// Each thread is looked at by itself, so that one which was asleep when it was looked at might be woken by another one before that is
    /// looked at. That one had to run for it; so nothing may have been computed from before the first look to after the last.
    fn is_idle(&self) -> bool {
        let computed = || process_time().saturating_sub(thread_time());
        let before = computed();
        let are_asleep = others_are_asleep();
        // What the keeper has between the two clocks is its own; another thread that ran at all had more.
        const BETWEEN_CLOCKS: Duration = Duration::from_micros(2);
        are_asleep
            && self.at_the_door.load(Ordering::SeqCst) == 0
            && computed() < before + BETWEEN_CLOCKS
    }
}

impl State {
    /// What time it is. What the keeper has had since it last looked, some microseconds, is in it until it looks again; so it may go
    /// back by as much.
    fn now(&self) -> Duration {
        process_time().saturating_sub(self.uncounted) + self.skipped
    }

    fn end_waits(&mut self, now: Duration) {
        for wait in self.waits.extract_if(.., |wait| wait.until <= now) {
            wait.is_over.store(true, Ordering::Release);
            wait.thread.unpark();
        }
    }
}

/// Has the calling thread run on one processor alone, always the same, so that threads share it as on a machine that has no other.
pub fn keep_to_one_processor() {
    // Where that is not allowed the threads run where they may, and their sum is the same.
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    if let Some(last) = last {
        let mut one = CpuSet::new();
        one.set(last);
        let _ = sched_setaffinity(None, &one);
    }
}

/// Whether the kernel has every thread of this process but the calling one as sleeping.
fn others_are_asleep() -> bool {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return false;
    };
    let mut tasks = tasks.flatten();
    tasks.all(|task| {
        let name = task.file_name();
        name.to_str() == Some(own.as_str()) || {
            let stat = std::fs::read_to_string(task.path().join("stat"));
            // One that has just ended is not there any more.
            stat.map_or(true, |stat| is_asleep(&stat))
        }
    })
}

/// The state stands behind the name, which may hold anything (proc(5)).
fn is_asleep(stat: &str) -> bool {
    let state = stat.rsplit(')').next().unwrap_or("").trim_start();
    state.starts_with('S')
}

fn process_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

fn thread_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_stands_behind_the_name() {
        assert!(is_asleep("7 (a) R (b) S 1 2"));
        assert!(!is_asleep("7 (S) R 1 2"));
        assert!(!is_asleep(""));
    }
}
