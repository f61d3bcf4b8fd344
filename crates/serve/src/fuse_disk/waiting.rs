//! Reads that wait for the backing: a thread of the session hands them to the disk and reads the next request meanwhile, where others
//! wait already; a thread of their own answers those that have come. So more of them wait at a time than the session has threads.

use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Errno, ReplyData};

use super::disk::report;
use crate::block_device::{Answer, BlockDevice, QueuedReads};

/// Reads that wait at the same time: what the kernel has under way in the background. Another one keeps its thread.
const READS_MAX: usize = 128;

/// See the module. Dropped when the session has ended: all are answered then.
pub struct WaitingReads {
    reads: Arc<dyn QueuedReads>,
    thread: Option<JoinHandle<()>>,
}

impl WaitingReads {
    /// None where the disk has no such reads, or no thread is to be had: then each keeps its thread.
    pub fn start(device: &impl BlockDevice) -> Option<WaitingReads> {
        let reads = device.queued_reads(READS_MAX)?;
        let answering = Arc::clone(&reads);
        let thread = std::thread::Builder::new().name("fuse-answers".into());
        let thread = thread.spawn(move || answering.work(&|| {})).ok()?;
        Some(WaitingReads {
            reads,
            thread: Some(thread),
        })
    }

    /// Takes a read that would wait; any other is given back.
    pub fn take(&self, offset: u64, length: usize, reply: ReplyData) -> Option<ReplyData> {
        let mut reply = Some(reply);
        let mut answer = || -> Answer {
            let reply = reply.take().expect("a read is answered once");
            Box::new(move |read| match read {
                Ok(bytes) => reply.data(bytes),
                Err(error) => {
                    let error = report("read", offset, length as u64, &error);
                    reply.error(Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO)));
                }
            })
        };
        self.reads.read(offset, length, &mut answer);
        reply
    }
}

impl Drop for WaitingReads {
    fn drop(&mut self) {
        self.reads.close();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported, and ended the daemon.
            let _ = thread.join();
        }
    }
}
