//! The threads that read ahead: started when there is something to read, ended with the pool.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::ReadAhead;
use crate::background::Pipeline;
use crate::sync::Ordering;

/// Requests of this kind under way at the same time, beside the reader's own.
const THREADS_MAX: usize = 2;
/// What no reader came for in this time goes.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// What a thread does next.
enum Turn {
    Read,
    Sweep,
    End,
}

impl ReadAhead {
    /// Waits for something to do.
    fn next_turn(&self) -> Turn {
        let mut queue = self.queue();
        loop {
            if queue.is_stopping {
                return Turn::End;
            }
            let swept_at = *queue.swept_at.get_or_insert_with(Instant::now);
            if swept_at.elapsed() >= SWEEP_INTERVAL {
                queue.swept_at = Some(Instant::now());
                return Turn::Sweep;
            }
            if !queue.jobs.is_empty() {
                return Turn::Read;
            }
            let has_memory =
                self.window_count.load(Ordering::Relaxed) > 0 || !queue.spare.is_empty();
            if !has_memory {
                queue = self
                    .work
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.work.wait_timeout(queue, SWEEP_INTERVAL);
            let (again, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            queue = again;
            if waited.timed_out() {
                // Nothing was read ahead for so long.
                queue.spare.clear();
            }
        }
    }

    /// Ends the threads; none is started any more.
    pub(in crate::background) fn stop(&self) {
        let threads = {
            let mut queue = self.queue();
            queue.is_stopping = true;
            queue.jobs.clear();
            std::mem::take(&mut queue.threads)
        };
        self.work.notify_all();
        for thread in threads {
            // One that panicked has already said so on standard error.
            drop(thread.join());
        }
    }
}

impl Pipeline {
    /// Starts the threads if they do not run. Where the system starts none, nothing is read ahead.
    pub(super) fn start_reading_ahead(self: &Arc<Pipeline>) {
        let mut queue = self.read_ahead.queue();
        while queue.threads.len() < THREADS_MAX && !queue.is_stopping {
            let pipeline = Arc::clone(self);
            let run = move || pipeline.run_read_ahead();
            let thread = std::thread::Builder::new().name("forebay-ahead".to_owned());
            match thread.spawn(run) {
                Ok(thread) => queue.threads.push(thread),
                Err(_) => return,
            }
        }
    }

    fn run_read_ahead(&self) {
        loop {
            match self.read_ahead.next_turn() {
                Turn::Read => drop(self.read_ahead_once()),
                Turn::Sweep => self.each_volume(|volume| volume.ahead.sweep()),
                Turn::End => return,
            }
        }
    }
}
