//! FUSE requests by io_uring, a queue for each of the machine's possible cores (`--transport io-uring`): the
//! transport of mounted directories and of disks.
//!
//! The kernel puts a request into the queue of the core that the caller runs on. Each queue has several threads,
//! pinned to that core, and each thread one entry, with a ring and memory of its own: while a request waits for
//! the backing, the kernel gives the next ones to the others. So no thread hands a request to another one, an answer
//! and the wait for the next request are one system call, and caller and thread meet on one core.
//!
//! Guarantees: a request is answered once, by the thread that took it; a thread ends only when the kernel takes its
//! entry away at the mount's end, and the daemon ends with a thread that loses it before. Notices of forgotten inodes and
//! of interrupts still come by `/dev/fuse`. The kernel holds all other requests back until each queue has an entry.

mod cores;
mod crew;
mod entry;
mod queue;
mod service;
mod transport;
mod wire;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fuser::{InitFlags, KernelConfig};

use cores::Cores;
use crew::Crew;
use entry::Entry;
use queue::{Queue, REMEDY};

pub use entry::Request;
pub use service::Service;
pub use transport::{AUTO_PREFERS_IO_URING, Transport};
pub use wire::{Answer, Fields, ListedName, opcode};

/// The rings of one mount.
#[derive(Debug)]
pub struct Rings {
    transport: Transport,
    /// The longest write, and so what a payload has room for.
    payload_bytes: u32,
    is_agreed: AtomicBool,
    crew: Arc<Crew>,
}

/// What the threads of the rings have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Queues, one for each possible core.
    pub queues: usize,
    /// Threads, and so requests that were under way at the same time, with those that are kept free.
    pub threads: usize,
    /// Requests taken.
    pub requests: u64,
    /// System calls that waited for them and told of their answers.
    pub calls: u64,
}

impl Rings {
    /// None yet, for writes of so many bytes at most.
    #[must_use]
    pub fn new(transport: Transport, payload_bytes: u32) -> Rings {
        Rings {
            transport,
            payload_bytes,
            is_agreed: AtomicBool::new(false),
            crew: Arc::default(),
        }
    }

    /// Asks the kernel for it, if it is wanted. Where the kernel agrees it holds all requests back until
    /// [`Rings::start`].
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`]: the user wants nothing else, and it is not to be had.
    pub fn negotiate(&self, config: &mut KernelConfig) -> io::Result<()> {
        let is_wanted = match self.transport {
            Transport::DevFuse => false,
            Transport::IoUring => true,
            Transport::Auto => AUTO_PREFERS_IO_URING,
        };
        if !is_wanted {
            return Ok(());
        }
        match self.offer(config) {
            Ok(()) => self.is_agreed.store(true, Ordering::Relaxed),
            Err(why) if self.transport == Transport::IoUring => {
                let message = format!("there is no FUSE over io_uring here ({why}); {REMEDY}");
                return Err(io::Error::new(io::ErrorKind::Unsupported, message));
            }
            Err(why) => tracing::debug!(%why, "requests come by /dev/fuse"),
        }
        Ok(())
    }

    /// Whether the kernel agreed to bring requests by them.
    #[must_use]
    pub fn are_agreed(&self) -> bool {
        self.is_agreed.load(Ordering::Relaxed)
    }

    /// Whether this machine and its kernel have what is needed; then the kernel is asked for it.
    fn offer(&self, config: &mut KernelConfig) -> Result<(), String> {
        let said = |what: &str, error: &io::Error| format!("{what}: {error}");
        Cores::of_this_machine().map_err(|error| said("the cores are not told", &error))?;
        Entry::probe().map_err(|error| said("io_uring", &error))?;
        let asked = config.add_capabilities(InitFlags::FUSE_OVER_IO_URING);
        asked.map_err(|_| "the kernel's fuse does not offer it".to_owned())?;
        // A payload is as long as the longest write; a longer read-ahead would need a longer one.
        let _ = config.set_max_write(self.payload_bytes);
        let _ = config.set_max_readahead(self.payload_bytes);
        Ok(())
    }

    /// Starts the threads, if that was agreed on with the kernel. `service` is let go with the last of them.
    ///
    /// # Errors
    /// A thread or a ring cannot be had, or the kernel does not take an entry; the mount is of no use then.
    pub fn start(&self, device: OwnedFd, service: &Arc<impl Service>) -> io::Result<()> {
        if !self.are_agreed() {
            return Ok(());
        }
        let (cores, device) = (Cores::of_this_machine()?, Arc::new(device));
        for number in cores.queues() {
            let queue = Arc::new(Queue {
                number,
                is_pinned: cores.is_online(number),
                threads_max: cores::THREADS_MAX,
                device: Arc::clone(&device),
                payload_bytes: self.payload_bytes as usize,
                service: Arc::clone(service) as Arc<dyn Service>,
                crew: Arc::clone(&self.crew),
                threads: AtomicUsize::new(0),
                busy: AtomicUsize::new(0),
            });
            for _ in 0..cores.threads_of(number) {
                queue.start_first()?;
            }
        }
        tracing::info!(queues = cores.queues().len(), "requests come by io_uring");
        Ok(())
    }

    /// Waits until the threads have ended, which they do when the mount has.
    pub fn join(&self) {
        self.crew.join();
    }

    /// What the threads have done; nothing where requests come by `/dev/fuse`.
    #[must_use]
    pub fn counts(&self) -> Option<RingCounts> {
        let sums = self.crew.sums()?;
        Some(RingCounts {
            queues: Cores::of_this_machine().map_or(0, |cores| cores.queues().len()),
            threads: sums.threads,
            requests: sums.requests,
            calls: sums.calls,
        })
    }
}
