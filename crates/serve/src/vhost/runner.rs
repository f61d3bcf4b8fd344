//! The thread of a queue: it sleeps until the guest says that there is something to do.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::vhost::ring::Ring;
use crate::vhost::workers::Workers;

/// A queue that runs.
pub(crate) struct Runner {
    ring: Arc<Ring>,
    /// Wakes the thread when it is to end.
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    /// Runs a queue: at once, because a guest that was served before may wait for answers, and then
    /// whenever `kick` says so.
    pub(crate) fn start(
        ring: Ring,
        kick: OwnedFd,
        workers: Arc<Workers>,
    ) -> std::io::Result<Runner> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ring = Arc::new(ring);
        let thread = std::thread::Builder::new()
            .name("vhost-queue".into())
            .spawn({
                let (ring, stop) = (Arc::clone(&ring), Arc::clone(&stop));
                move || run(&ring, &kick, &stop, &workers)
            })?;
        Ok(Runner {
            ring,
            stop,
            thread: Some(thread),
        })
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Stops it when everything that was taken is answered; the entry that would be taken next.
    pub(crate) fn end(mut self) -> u16 {
        self.halt();
        self.ring.next_available()
    }

    fn halt(&mut self) {
        self.ring.stop();
        // It cannot overflow: it is written once.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended the process, or the test.
            let _ = thread.join();
        }
        self.ring.wait_for_workers();
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.halt();
    }
}

fn run(ring: &Arc<Ring>, kick: &OwnedFd, stop: &OwnedFd, workers: &Workers) {
    // The process that served this queue before may have been killed between an answer and its
    // interrupt.
    ring.call_guest();
    let mut buffer = Vec::new();
    loop {
        if let Err(broken) = ring.serve(workers, &mut buffer) {
            ring.give_up(&broken);
        }
        if ring.is_broken() || ring.is_stopping() || !wait(kick, stop) {
            return;
        }
    }
}

/// Waits for a kick; false when there will be none.
fn wait(kick: &OwnedFd, stop: &OwnedFd) -> bool {
    let mut waited = [
        PollFd::from_borrowed_fd(kick.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
    ];
    match poll(&mut waited, None) {
        Ok(_) => {}
        Err(Errno::INTR) => return true,
        Err(_) => return false,
    }
    if !waited[1].revents().is_empty() {
        return false;
    }
    let mut counter = [0; 8];
    match rustix::io::read(kick, &mut counter) {
        // Something that has ended would be readable for ever.
        Ok(0) => false,
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => true,
        Err(_) => false,
    }
}
