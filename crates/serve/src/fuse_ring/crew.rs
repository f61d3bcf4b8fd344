//! The threads of all queues of one mount, and what they have done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;

/// The threads of a mount's rings. More may come while it is served, by those that are there.
#[derive(Debug, Default)]
pub(super) struct Crew {
    threads: Mutex<Vec<JoinHandle<()>>>,
    counts: Mutex<Vec<Arc<Counts>>>,
}

/// What one thread has done; written by that thread alone.
#[derive(Debug, Default)]
pub(super) struct Counts {
    requests: AtomicU64,
    calls: AtomicU64,
}

/// Of all threads together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) threads: usize,
    pub(super) requests: u64,
    pub(super) calls: u64,
}

impl Counts {
    pub(super) fn set(&self, requests: u64, calls: u64) {
        // One thread writes them, and others only look.
        self.requests.store(requests, Ordering::Relaxed);
        self.calls.store(calls, Ordering::Relaxed);
    }
}

impl Crew {
    /// One thread more, which the kernel has given an entry: what it counts in.
    pub(super) fn count_one_more(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        self.counts.lock().push(Arc::clone(&counts));
        counts
    }

    /// To be told before the thread that started it ends, so that [`Crew::join`] misses none.
    pub(super) fn keep(&self, thread: JoinHandle<()>) {
        self.threads.lock().push(thread);
    }

    /// Waits until all have ended, those too that others start meanwhile.
    pub(super) fn join(&self) {
        loop {
            // Not locked while it waits: a thread that ends may have started one more.
            let Some(thread) = self.threads.lock().pop() else {
                return;
            };
            // A panic has been reported, and ended the daemon.
            let _ = thread.join();
        }
    }

    /// What they have done so far; nothing where there never were any.
    pub(super) fn sums(&self) -> Option<Sums> {
        let counts = self.counts.lock();
        if counts.is_empty() {
            return None;
        }
        let sum = |of: fn(&Counts) -> &AtomicU64| -> u64 {
            let counted = counts.iter().map(|thread| of(thread));
            counted.map(|count| count.load(Ordering::Relaxed)).sum()
        };
        Some(Sums {
            threads: counts.len(),
            requests: sum(|thread| &thread.requests),
            calls: sum(|thread| &thread.calls),
        })
    }
}
