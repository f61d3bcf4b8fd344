//! Jobs for threads that start as they are needed: the workers of an NBD connection, those of a
//! vhost-user client, the overflow threads of a mount.
//!
//! Guarantees: a job that was pushed is carried out, by the thread that pushed it where no other can be
//! started; there are no more threads than allowed.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Longer than any thread is idle.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The queue between the threads that receive jobs and those that carry them out.
pub struct JobQueue<J> {
    threads_max: usize,
    idle_max: Duration,
    state: Mutex<State<J>>,
    /// A job waits, or none will come any more.
    work: Condvar,
    /// A thread has ended.
    ended: Condvar,
}

struct State<J> {
    waiting: VecDeque<J>,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
    is_closed: bool,
}

/// Counts a thread out when it is dropped: one that panics, or that could not be started.
struct Gone<'q, J>(&'q JobQueue<J>);

impl<J> JobQueue<J> {
    /// A queue of at most `threads_max` threads. One that has been idle for `idle_max` ends; without it, none does before
    /// the queue is closed.
    pub fn new(threads_max: usize, idle_max: Option<Duration>) -> JobQueue<J> {
        JobQueue {
            threads_max,
            idle_max: idle_max.unwrap_or(FOREVER),
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                threads: 0,
                idle: 0,
                is_closed: false,
            }),
            work: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    /// How many threads there may be.
    pub fn threads_max(&self) -> usize {
        self.threads_max
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock()
    }

    /// Has a job carried out. Where no thread is free, `start` starts one more, which calls
    /// [`JobQueue::work`]; where it fails and there is no other, this thread does what waits by
    /// `carry_out`.
    pub fn push(
        &self,
        job: J,
        start: impl FnOnce() -> io::Result<()>,
        mut carry_out: impl FnMut(J),
    ) {
        let mut state = self.lock();
        state.waiting.push_back(job);
        let is_short = state.idle < state.waiting.len() && state.threads < self.threads_max;
        if is_short {
            state.threads += 1;
            drop(state);
            if start().is_ok() {
                return;
            }
            drop(Gone(self));
        } else if state.threads > 0 {
            drop(state);
            self.work.notify_one();
            return;
        } else {
            // There may be none.
            drop(state);
        }
        while let Some(job) = self.next_without_threads() {
            carry_out(job);
        }
    }

    fn next_without_threads(&self) -> Option<J> {
        let mut state = self.lock();
        let is_alone = state.threads == 0;
        is_alone.then(|| state.waiting.pop_front()).flatten()
    }

    /// What a thread that was started does: it carries out jobs until there are no more.
    pub fn work(&self, mut carry_out: impl FnMut(J)) {
        let panicked = Gone(self);
        while let Some(job) = self.next() {
            carry_out(job);
        }
        std::mem::forget(panicked);
    }

    /// The next job; `None` when the thread is to end. It is counted out under the same lock, so that
    /// no job is left to a thread that goes.
    fn next(&self) -> Option<J> {
        let mut state = self.lock();
        let mut is_over = false;
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            if is_over || state.is_closed {
                state.threads -= 1;
                self.ended.notify_all();
                return None;
            }
            state.idle += 1;
            let waited = self.work.wait_for(&mut state, self.idle_max);
            state.idle -= 1;
            is_over = waited.timed_out();
        }
    }

    /// No more jobs will come; threads end when those that wait are done.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_all();
    }

    /// Closes the queue and waits until its threads have ended.
    pub fn close_and_wait(&self) {
        self.close();
        let mut state = self.lock();
        while state.threads > 0 {
            self.ended.wait(&mut state);
        }
    }
}

impl<J> Drop for Gone<'_, J> {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
        self.0.ended.notify_all();
    }
}

impl<J> std::fmt::Debug for JobQueue<J> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        formatter
            .debug_struct("JobQueue")
            .field("waiting", &state.waiting.len())
            .field("threads", &state.threads)
            .field("idle", &state.idle)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    const THREADS_MAX: usize = 4;

    type Queue = Arc<JobQueue<Box<dyn FnOnce() + Send>>>;

    fn queue(idle_max: Option<Duration>) -> Queue {
        Arc::new(JobQueue::new(THREADS_MAX, idle_max))
    }

    fn push(queue: &Queue, started: &AtomicUsize, job: impl FnOnce() + Send + 'static) {
        let start = || {
            started.fetch_add(1, Ordering::SeqCst);
            let queue = Arc::clone(queue);
            std::thread::spawn(move || queue.work(|job| job()));
            Ok(())
        };
        queue.push(Box::new(job), start, |job| job());
    }

    #[test]
    fn threads_start_up_to_the_limit_and_all_is_done_before_they_end() {
        let (queue, started) = (queue(None), AtomicUsize::new(0));
        let (release, gate) = channel::<()>();
        let (gate, done) = (Arc::new(Mutex::new(gate)), Arc::new(AtomicUsize::new(0)));
        for number in 0..20 {
            let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
            push(&queue, &started, move || {
                if number < THREADS_MAX {
                    let _ = gate.lock().recv();
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        drop(release);
        queue.close_and_wait();
        assert_eq!(done.load(Ordering::SeqCst), 20);
        assert_eq!(started.load(Ordering::SeqCst), THREADS_MAX);
    }

    #[test]
    fn where_no_thread_can_be_started_the_pushing_one_does_it_unless_there_is_another() {
        let (queue, started) = (queue(None), AtomicUsize::new(0));
        let (sender, done) = channel();
        let here = std::thread::current().id();
        let report = |sender: &std::sync::mpsc::Sender<_>| {
            let sender = sender.clone();
            move || sender.send(std::thread::current().id()).unwrap()
        };
        let fail = || Err(io::ErrorKind::WouldBlock.into());
        queue.push(Box::new(report(&sender)), fail, |job| job());
        assert_eq!(done.try_recv(), Ok(here));
        let (release, gate) = channel::<()>();
        push(&queue, &started, move || gate.recv().unwrap());
        queue.push(Box::new(report(&sender)), fail, |job| job());
        assert!(done.try_recv().is_err(), "it is left to the other thread");
        release.send(()).unwrap();
        assert_ne!(done.recv(), Ok(here));
        queue.close_and_wait();
    }

    #[test]
    fn where_there_may_be_no_thread_a_job_was_never_done() {
        let queue = JobQueue::new(0, None);
        let mut done = 0;
        queue.push(7, || panic!("there is to be no thread"), |job| done += job);
        assert_eq!(done, 7);
        queue.close_and_wait();
    }

    #[test]
    fn an_idle_thread_ends_and_another_is_started() {
        let (queue, started) = (queue(Some(Duration::from_millis(1))), AtomicUsize::new(0));
        for round in 1..=3 {
            push(&queue, &started, || {});
            let mut state = queue.lock();
            while state.threads > 0 {
                queue.ended.wait(&mut state);
            }
            assert_eq!(started.load(Ordering::SeqCst), round);
        }
    }
}
