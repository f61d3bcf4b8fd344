//! Threads for requests that take long, shared by the queues of one client.

use std::sync::Arc;

use crate::job_queue::JobQueue;

/// A request to carry out; the buffer is the thread's own, for its data.
pub(crate) type Job = Box<dyn FnOnce(&mut Vec<u8>) + Send>;

/// The threads; they start as needed and end with [`Workers::end`].
pub(crate) struct Workers(Arc<JobQueue<Job>>);

impl Workers {
    pub(crate) fn new(threads_max: usize) -> Workers {
        Workers(Arc::new(JobQueue::new(threads_max, None)))
    }

    /// Whether there can be any.
    pub(crate) fn are_there(&self) -> bool {
        self.0.threads_max() > 0
    }

    /// Has the request carried out: by a worker, or here where none can be started.
    pub(crate) fn hand_over(&self, job: Job) {
        let start = || {
            let jobs = Arc::clone(&self.0);
            let worker = std::thread::Builder::new().name("vhost-work".into());
            worker.spawn(move || work(&jobs))?;
            Ok(())
        };
        self.0.push(job, start, |job: Job| job(&mut Vec::new()));
    }

    /// Ends the threads; nothing is to be handed over any more.
    pub(crate) fn end(&self) {
        self.0.close_and_wait();
    }
}

fn work(jobs: &JobQueue<Job>) {
    let mut buffer = Vec::new();
    jobs.work(|job| job(&mut buffer));
}
