//! Threads for requests that take long, shared by the queues of one client.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::jobs::Jobs;
use crate::vhost::request::Request;
use crate::vhost::ring::Ring;

struct Job {
    ring: Arc<Ring>,
    request: Request,
}

/// The threads; they start as needed and end with [`Workers::end`].
pub(crate) struct Workers {
    jobs: Arc<Jobs<Job>>,
    threads_max: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    pub(crate) fn new(threads_max: usize) -> Workers {
        Workers {
            jobs: Arc::default(),
            threads_max,
            threads: Mutex::default(),
        }
    }

    /// Whether there can be any.
    pub(crate) fn are_there(&self) -> bool {
        self.threads_max > 0
    }

    /// Has the request carried out: by a worker, or here where none can be started.
    pub(crate) fn hand_over(&self, ring: Arc<Ring>, request: Request) {
        if !self.jobs.push(Job { ring, request }, self.threads_max) {
            return;
        }
        let jobs = Arc::clone(&self.jobs);
        let spawned = std::thread::Builder::new()
            .name("vhost-work".into())
            .spawn(move || work(&jobs));
        match spawned {
            Ok(thread) => self
                .threads
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(thread),
            Err(_) => {
                if self.jobs.worker_failed()
                    && let Some(job) = self.jobs.try_next()
                {
                    job.ring.finish(&job.request, &mut Vec::new());
                }
            }
        }
    }

    /// Ends the threads; nothing is to be handed over any more.
    pub(crate) fn end(&self) {
        self.jobs.close();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A worker that panicked has ended the process, or the test.
            let _ = thread.join();
        }
    }
}

fn work(jobs: &Jobs<Job>) {
    let mut buffer = Vec::new();
    while let Some(job) = jobs.next() {
        job.ring.finish(&job.request, &mut buffer);
    }
}
