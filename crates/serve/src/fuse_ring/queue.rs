//! The queue of one core: its threads, each with one entry, and how there come to be more of them.
//!
//! A thread that waits for a disk keeps its entry, for the kernel takes an answer only where it put the request. So that
//! those that wait hold up no others, a queue always has threads that are free, as far as it may have more: a thread that
//! takes a request while few are left starts another one, with an entry of its own, before it carries the request out.
//!
//! A request that the kernel found no entry for lies in the queue until one of them is answered there, be it a later one
//! that a new thread took: a new entry by itself does not fetch it. So a burst that finds no thread free waits for its
//! first answer, and for no more.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::cores;
use super::crew::Crew;
use super::entry::Entry;
use super::service::Service;

/// Threads that are free at least, while there may be more.
const SPARE_THREADS: usize = 4;

/// What the kernel has to be for it, said where it is not.
pub(super) const REMEDY: &str = "Linux 6.18.3 or later has it (6.14 as well, with a fault that can crash it) after `echo Y > /sys/module/fuse/parameters/enable_uring`, \
                      and --transport dev-fuse needs neither";

/// See the module.
pub(super) struct Queue {
    pub(super) number: usize,
    /// Whether its core is there, so that its threads can stay there.
    pub(super) is_pinned: bool,
    pub(super) threads_max: usize,
    pub(super) device: Arc<OwnedFd>,
    pub(super) payload_bytes: usize,
    pub(super) service: Arc<dyn Service>,
    pub(super) crew: Arc<Crew>,
    /// Threads, those that are being started too.
    pub(super) threads: AtomicUsize,
    /// How many of them carry a request out. Only a hint: an answer counts as given a moment before the kernel has it.
    pub(super) busy: AtomicUsize,
}

impl Queue {
    /// Starts a thread; on return the kernel has its entry.
    ///
    /// # Errors
    /// A thread or a ring cannot be had, or the kernel does not take the entry.
    pub(super) fn start_first(self: &Arc<Self>) -> io::Result<()> {
        self.threads.fetch_add(1, Ordering::Relaxed);
        let (sender, registered) = sync_channel(1);
        self.spawn(Some(sender))?;
        let ended = |_| Err(io::Error::other("a thread of the rings ended at once"));
        registered.recv().unwrap_or_else(ended).map_err(|error| {
            let message = format!("the kernel does not take the rings ({error}); {REMEDY}");
            io::Error::new(error.kind(), message)
        })
    }

    fn spawn(self: &Arc<Self>, registered: Option<SyncSender<io::Result<()>>>) -> io::Result<()> {
        let queue = Arc::clone(self);
        let name = format!("fuse-ring-{}", self.number);
        let builder = std::thread::Builder::new().name(name);
        let thread = builder.spawn(move || queue.run(registered))?;
        // At once: the mount may end meanwhile, and waits for those that are here.
        self.crew.keep(thread);
        Ok(())
    }

    /// Starts one more, without a wait for it.
    fn grow(self: &Arc<Self>, threads: usize) {
        let counted = self.threads.compare_exchange(
            threads,
            threads + 1,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        // Another thread is at it.
        if counted.is_err() {
            return;
        }
        if let Err(error) = self.spawn(None) {
            tracing::debug!(%error, queue = self.number, "no further thread of the rings");
            self.threads.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn run(self: Arc<Self>, registered: Option<SyncSender<io::Result<()>>>) {
        if self.is_pinned {
            cores::pin(self.number);
        }
        self.service.begin_thread();
        let entry = Entry::new(self.device.as_fd(), self.number as u16, self.payload_bytes);
        let entry = entry.and_then(|mut entry| {
            entry.register()?;
            // The mount may have ended before the kernel took the entry, and would then not take it away again. In this
            // order: the kernel says that it has ended before it begins to take entries away.
            match self.has_ended() {
                true => Err(Errno::NOTCONN.into()),
                false => Ok(entry),
            }
        });
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) => return self.give_up(error, registered),
        };
        if let Some(registered) = registered {
            // It waits for this.
            let _ = registered.send(Ok(()));
        }
        self.serve(&mut entry);
    }

    fn give_up(&self, error: io::Error, registered: Option<SyncSender<io::Result<()>>>) {
        match registered {
            Some(registered) => drop(registered.send(Err(error))),
            None => {
                tracing::debug!(%error, queue = self.number, "no further entry of the rings");
                self.threads.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether the kernel has given the mount up.
    fn has_ended(&self) -> bool {
        let mut device = [PollFd::from_borrowed_fd(self.device.as_fd(), PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut device, Some(&now)).is_err() || device[0].revents().contains(PollFlags::ERR)
    }

    /// Until the kernel takes the entry away.
    fn serve(self: &Arc<Self>, entry: &mut Entry) {
        let counts = self.crew.count_one_more();
        let mut served = 0;
        let ended = loop {
            if let Err(ended) = entry.wait() {
                break ended;
            }
            let busy = self.busy.fetch_add(1, Ordering::Relaxed) + 1;
            let threads = self.threads.load(Ordering::Relaxed);
            if busy + SPARE_THREADS > threads && threads < self.threads_max {
                self.grow(threads);
            }
            let answer = entry
                .request()
                .and_then(|request| self.service.answer(request));
            entry.answer(answer.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)));
            self.busy.fetch_sub(1, Ordering::Relaxed);
            served += 1;
            counts.set(served, entry.calls());
        };
        // ENOENT: the request that is answered went with the mount.
        let is_orderly = [
            Errno::NOTCONN,
            Errno::CONNABORTED,
            Errno::CANCELED,
            Errno::NOENT,
        ];
        // Callers whose request is in a lost entry would sleep for ever; a daemon that ends lets them go.
        assert!(
            is_orderly.contains(&Errno::from_io_error(&ended).unwrap_or(Errno::IO)),
            "the kernel took an entry of queue {} away: {ended}",
            self.number
        );
    }
}
