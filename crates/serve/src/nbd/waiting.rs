//! Short reads that wait for a slow device: the thread that receives begins all that came with one call and hands them to the device
//! with another; a thread of their own answers those that the device gave together, with one call.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::allocator::no_memory;
use crate::block_device::{Answer, DeviceError, QueuedReads};
use crate::nbd::execute::refusal_of;
use crate::nbd::link::Link;
use crate::nbd::reply::ReplyBuffer;
use crate::nbd::request::Request;
use crate::nbd::stats::count;

/// Those of one connection at a time; further ones get a worker.
pub(crate) const READS_MAX: usize = 64;

/// See the module.
pub(crate) struct WaitingReads {
    reads: Arc<dyn QueuedReads>,
    answers: Arc<Answers>,
}

/// What was answered and not sent yet.
struct Answers {
    replies: Mutex<ReplyBuffer>,
    structured: bool,
    link: Arc<Link>,
}

impl Answers {
    fn add(&self, request: &Request, read: Result<&[u8], DeviceError>) {
        let mut replies = self.replies.lock();
        let tallies = &self.link.tallies;
        let (cookie, length) = (request.cookie, request.length);
        let added = read.and_then(|bytes| {
            let data = replies.data(cookie, request.offset, length, self.structured);
            data.ok_or_else(|| no_memory(length as usize))?
                .copy_from_slice(bytes);
            count(&tallies.read_bytes, u64::from(length));
            Ok(())
        });
        if let Err(error) = added {
            count(&tallies.errors, 1);
            replies.error(cookie, &refusal_of(&error), self.structured);
        }
        let in_flight = &tallies.requests_in_flight;
        in_flight.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl WaitingReads {
    pub(crate) fn new(
        reads: Arc<dyn QueuedReads>,
        structured: bool,
        link: &Arc<Link>,
    ) -> WaitingReads {
        let answers = Answers {
            replies: Mutex::default(),
            structured,
            link: Arc::clone(link),
        };
        WaitingReads {
            reads,
            answers: Arc::new(answers),
        }
    }

    /// Takes a read that would wait, and says so; any other is to be carried out as usual.
    pub(crate) fn take(&self, request: &Request) -> bool {
        let tallies = &self.answers.link.tallies;
        let mut answer = || -> Answer {
            count(&tallies.reads, 1);
            count(&tallies.requests_in_flight, 1);
            let (answers, request) = (Arc::clone(&self.answers), *request);
            Box::new(move |read| answers.add(&request, read))
        };
        let length = request.length as usize;
        self.reads.begin(request.offset, length, &mut answer)
    }

    /// Hands those that were taken to the device, and calls `send` with the replies to those that it did not take.
    pub(crate) fn submit(&self, send: impl FnOnce(&mut ReplyBuffer)) {
        if self.reads.submit() {
            send(&mut self.answers.replies.lock());
        }
    }

    /// What the thread that answers does: it calls `send` with the replies to each batch, and other threads do with those of theirs.
    pub(crate) fn work(&self, send: impl Fn(&mut ReplyBuffer) + Sync) {
        self.reads.work(&|| send(&mut self.answers.replies.lock()));
    }

    /// None is taken any more.
    pub(crate) fn close(&self) {
        self.reads.close();
    }
}
