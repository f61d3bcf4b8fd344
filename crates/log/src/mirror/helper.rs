//! A thread that writes to the second member while the caller writes to the first: a durable write of both takes as long as the
//! slower one, not as both.
//!
//! It gets copies of the pages, so that nothing of the caller's is in use when an unwinding caller is gone; copying takes a
//! fiftieth of what a durable write does.

use super::together::{Request, Together};
use crate::device::Device;
use crate::error::{LogError, Result};
use crate::page::{PAGE_BYTES, Pages};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// What it is to do, with memory of its own.
enum Work {
    Write {
        page: u64,
        pages: Pages,
        is_durable: bool,
    },
    Flush,
}

struct Job {
    work: Work,
    answer: SyncSender<io::Result<()>>,
}

/// The thread, until this is dropped.
pub(super) struct Helper {
    /// None while it ends.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the thread of a member.
    pub(super) fn start(device: Arc<dyn Device>) -> Result<Helper> {
        let (jobs, taken) = channel();
        let path = device.path().to_owned();
        let thread = std::thread::Builder::new()
            .name("forebay-member".into())
            .spawn(move || work(&*device, &taken));
        let thread = thread.map_err(LogError::of_device(
            &path,
            "start the thread that writes to",
        ))?;
        Ok(Helper {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }
}

fn work(device: &dyn Device, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        let done = match &job.work {
            Work::Flush => device.flush(),
            Work::Write {
                page,
                pages,
                is_durable: true,
            } => device.write_durable(*page, &[pages]),
            Work::Write { page, pages, .. } => device.write(*page, &[pages]),
        };
        // A caller that unwinds does not ask.
        drop(job.answer.send(done));
    }
}

impl Work {
    fn of(request: &Request<'_>) -> Work {
        let Request::Write {
            page,
            parts,
            is_durable,
        } = *request
        else {
            return Work::Flush;
        };
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let mut pages = Pages::of_any_bytes(bytes / PAGE_BYTES);
        let mut rest = &mut pages[..];
        for part in parts {
            let (place, behind) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = behind;
        }
        Work::Write {
            page,
            pages,
            is_durable,
        }
    }
}

impl Together for Helper {
    fn make(&self, members: [&dyn Device; 2], requests: [&Request<'_>; 2]) -> [io::Result<()>; 2] {
        let (answer, told) = sync_channel(1);
        let job = Job {
            work: Work::of(requests[1]),
            answer,
        };
        let jobs = self.jobs.as_ref().expect("it has not ended");
        let is_sent = jobs.send(job).is_ok();
        let first = requests[0].make(members[0]);
        let second = match is_sent {
            true => told.recv().ok(),
            false => None,
        };
        let gone = || Err(io::Error::other("the thread that writes to it has ended"));
        [first, second.unwrap_or_else(gone)]
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of it was told to the callers that waited for it.
            drop(thread.join());
        }
    }
}
