//! Slow requests, queued for a front end's workers.
//!
//! Bounded in number and in bytes where room is reserved first: a client that asks for more waits
//! until some are answered.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Requests of one connection that are with its workers.
const JOBS_MAX: usize = 64;

/// Bytes of their data, what was sent and what is to be read. One request may always be there.
const JOB_BYTES_MAX: u64 = 64 << 20;

/// The queue between the threads that receive and those that work.
pub(crate) struct Jobs<J> {
    state: Mutex<State<J>>,
    /// Something is to be done, or nothing will be any more.
    work: Condvar,
    /// Something was done.
    room: Condvar,
}

struct State<J> {
    waiting: VecDeque<J>,
    /// Reserved, waiting or being worked at.
    count: usize,
    bytes: u64,
    workers: usize,
    idle: usize,
    is_closed: bool,
}

impl<J> Default for Jobs<J> {
    fn default() -> Jobs<J> {
        Jobs {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                count: 0,
                bytes: 0,
                workers: 0,
                idle: 0,
                is_closed: false,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
        }
    }
}

impl<J> Jobs<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for a job of so many bytes, and takes it; the bytes of all jobs
    /// then.
    pub(crate) fn reserve(&self, bytes: u32, in_flight: &AtomicU64) -> u64 {
        let bytes = u64::from(bytes);
        let mut state = self.lock();
        while state.count > 0 && (state.count >= JOBS_MAX || state.bytes + bytes > JOB_BYTES_MAX) {
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.count += 1;
        state.bytes += bytes;
        in_flight.fetch_add(1, Ordering::Relaxed);
        state.bytes
    }

    /// Gives back what was reserved.
    pub(crate) fn release(&self, bytes: u32, in_flight: &AtomicU64) {
        let mut state = self.lock();
        state.count -= 1;
        state.bytes -= u64::from(bytes);
        in_flight.fetch_sub(1, Ordering::Relaxed);
        drop(state);
        self.room.notify_one();
    }

    /// Queues a job; true if another worker is to be started for it.
    pub(crate) fn push(&self, job: J, workers_max: usize) -> bool {
        let mut state = self.lock();
        state.waiting.push_back(job);
        let is_short = state.idle < state.waiting.len() && state.workers < workers_max;
        if is_short {
            state.workers += 1;
        }
        drop(state);
        self.work.notify_one();
        is_short
    }

    /// A requested worker could not be started; true if there is no other.
    pub(crate) fn worker_failed(&self) -> bool {
        let mut state = self.lock();
        state.workers -= 1;
        state.workers == 0
    }

    /// The next job; `None` when no more will come.
    pub(crate) fn next(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.idle += 1;
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// A job that waits, if there is one.
    pub(crate) fn try_next(&self) -> Option<J> {
        self.lock().waiting.pop_front()
    }

    /// No more jobs will come; workers end when those that wait are done.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_all();
    }
}
