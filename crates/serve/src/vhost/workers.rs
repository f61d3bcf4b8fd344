//! Threads for requests that take long, shared by the queues of one client.
//!
//! Those that are long in bytes, or change much, have a few threads, which take memory while they work. Those that are short and
//! wait for the backing have as many as a queue holds: what waits takes no processor, and a disk answers many at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::job_queue::JobQueue;
use crate::vhost::options::VhostUserOptions;

/// A request to carry out; the buffer is the thread's own, for its data.
pub(crate) type Job = Box<dyn FnOnce(&mut Vec<u8>) + Send>;

/// How long a thread that waited for the backing stays for the next such request.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The threads; they start as needed and end with [`Workers::end`].
pub(crate) struct Workers {
    long: Arc<JobQueue<Job>>,
    short: Arc<JobQueue<Job>>,
}

impl Workers {
    pub(crate) fn new(options: &VhostUserOptions) -> Workers {
        Workers {
            long: Arc::new(JobQueue::new(options.workers, None)),
            short: Arc::new(JobQueue::new(options.waiting_max, Some(IDLE_MAX))),
        }
    }

    /// Whether there can be any for requests of this kind.
    pub(crate) fn are_there(&self, is_short: bool) -> bool {
        self.of(is_short).threads_max() > 0
    }

    fn of(&self, is_short: bool) -> &Arc<JobQueue<Job>> {
        match is_short {
            true => &self.short,
            false => &self.long,
        }
    }

    /// Has the request carried out: by a worker, or here where none can be started.
    pub(crate) fn hand_over(&self, is_short: bool, job: Job) {
        let queue = self.of(is_short);
        let start = || {
            let jobs = Arc::clone(queue);
            let worker = std::thread::Builder::new().name("vhost-work".into());
            worker.spawn(move || work(&jobs))?;
            Ok(())
        };
        queue.push(job, start, |job: Job| job(&mut Vec::new()));
    }

    /// Ends the threads; nothing is to be handed over any more.
    pub(crate) fn end(&self) {
        self.long.close_and_wait();
        self.short.close_and_wait();
    }
}

fn work(jobs: &JobQueue<Job>) {
    let mut buffer = Vec::new();
    jobs.work(|job| job(&mut buffer));
}
