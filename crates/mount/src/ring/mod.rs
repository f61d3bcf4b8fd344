//! Requests by io_uring, a queue for each of the machine's possible cores (`--transport io-uring`).
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
mod dispatch;
mod entry;
mod wire;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use fuser::{InitFlags, KernelConfig};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::answers::errno;
use crate::credentials;
use crate::negotiation::WRITE_BYTES_MAX;
use crate::operations::Operations;
use crate::options::{AUTO_PREFERS_IO_URING, Transport};
use crate::scheduler::Scheduler;
use cores::Cores;
use entry::Entry;

/// What the kernel has to be for it, said where it is not.
const REMEDY: &str = "Linux 6.18.3 or later has it (6.14 as well, with a fault that can crash it) after `echo Y > /sys/module/fuse/parameters/enable_uring`, \
                      and --transport dev-fuse needs neither";

/// The rings of one mount.
#[derive(Debug)]
pub struct Rings {
    transport: Transport,
    is_agreed: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    counts: Mutex<Vec<Arc<Counts>>>,
}

/// What the threads of the rings have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Queues, one for each possible core.
    pub queues: usize,
    /// Threads, and so requests that can be under way.
    pub threads: usize,
    /// Requests taken.
    pub requests: u64,
    /// System calls that waited for them and told of their answers.
    pub calls: u64,
}

/// What one thread has done; written by that thread alone.
#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    calls: AtomicU64,
}

impl Rings {
    pub fn new(transport: Transport) -> Rings {
        Rings {
            transport,
            is_agreed: AtomicBool::new(false),
            threads: Mutex::default(),
            counts: Mutex::default(),
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
        match offer(config) {
            Ok(()) => self.is_agreed.store(true, Ordering::Relaxed),
            Err(why) if self.transport == Transport::IoUring => {
                let message = format!("there is no FUSE over io_uring here ({why}); {REMEDY}");
                return Err(io::Error::new(io::ErrorKind::Unsupported, message));
            }
            Err(why) => tracing::debug!(%why, "requests come by /dev/fuse"),
        }
        Ok(())
    }

    /// Starts the threads, if that was agreed on with the kernel.
    ///
    /// # Errors
    /// A thread or a ring cannot be had, or the kernel does not take an entry; the mount is of no use then.
    pub fn start(
        &self,
        device: OwnedFd,
        operations: &Arc<Operations>,
        scheduler: &Arc<Scheduler>,
    ) -> io::Result<()> {
        if !self.is_agreed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (cores, device) = (Cores::of_this_machine()?, Arc::new(device));
        let mut threads = 0;
        for queue in cores.queues() {
            for _ in 0..cores.threads_of(queue) {
                let thread = Arc::new(Counts::default());
                self.counts.lock().push(Arc::clone(&thread));
                let server = Server {
                    queue,
                    is_pinned: cores.is_online(queue),
                    device: Arc::clone(&device),
                    operations: Arc::clone(operations),
                    scheduler: Arc::clone(scheduler),
                    counts: thread,
                };
                // At once: the mount may end meanwhile, and waits for those that are here.
                self.threads.lock().push(server.start()?);
                threads += 1;
            }
        }
        tracing::info!(
            queues = cores.queues().len(),
            threads,
            "requests come by io_uring"
        );
        Ok(())
    }

    /// Waits until the threads have ended, which they do when the mount has.
    pub fn join(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A panic has been reported, and ended the daemon.
            let _ = thread.join();
        }
    }

    /// What the threads have done; nothing where requests come by `/dev/fuse`.
    pub fn counts(&self) -> Option<RingCounts> {
        let counts = self.counts.lock();
        if counts.is_empty() {
            return None;
        }
        let sum = |of: fn(&Counts) -> &AtomicU64| -> u64 {
            let counted = counts.iter().map(|thread| of(thread));
            counted.map(|count| count.load(Ordering::Relaxed)).sum()
        };
        Some(RingCounts {
            queues: Cores::of_this_machine().map_or(0, |cores| cores.queues().len()),
            threads: counts.len(),
            requests: sum(|thread| &thread.requests),
            calls: sum(|thread| &thread.calls),
        })
    }
}

/// Whether this machine and its kernel have what is needed; then the kernel is asked for it.
fn offer(config: &mut KernelConfig) -> Result<(), String> {
    let said = |what: &str, error: &io::Error| format!("{what}: {error}");
    Cores::of_this_machine().map_err(|error| said("the cores are not told", &error))?;
    Entry::probe().map_err(|error| said("io_uring", &error))?;
    let asked = config.add_capabilities(InitFlags::FUSE_OVER_IO_URING);
    asked.map_err(|_| "the kernel's fuse does not offer it".to_owned())?;
    // A payload is as long as the longest write; a longer read-ahead would need a longer one.
    let _ = config.set_max_readahead(WRITE_BYTES_MAX);
    Ok(())
}

/// A thread of a queue, before it runs.
struct Server {
    queue: usize,
    is_pinned: bool,
    device: Arc<OwnedFd>,
    operations: Arc<Operations>,
    scheduler: Arc<Scheduler>,
    counts: Arc<Counts>,
}

impl Server {
    /// Runs it; on return the kernel has its entry.
    fn start(self) -> io::Result<JoinHandle<()>> {
        let (sender, registered) = sync_channel(1);
        let name = format!("mount-ring-{}", self.queue);
        let builder = std::thread::Builder::new().name(name);
        let thread = builder.spawn(move || self.run(&sender))?;
        let ended = |_| Err(io::Error::other("a thread of the rings ended at once"));
        registered.recv().unwrap_or_else(ended).map_err(|error| {
            let message = format!("the kernel does not take the rings ({error}); {REMEDY}");
            io::Error::new(error.kind(), message)
        })?;
        Ok(thread)
    }

    fn run(self, registered: &SyncSender<io::Result<()>>) {
        if self.is_pinned {
            cores::pin(self.queue);
        }
        credentials::take_own_umask();
        let entry = Entry::new(
            self.device.as_fd(),
            self.queue as u16,
            WRITE_BYTES_MAX as usize,
        )
        .and_then(|mut entry| entry.register().map(|()| entry));
        let (mut entry, told) = match entry {
            Ok(entry) => (Some(entry), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // It waits for this.
        let _ = registered.send(told);
        if let Some(entry) = &mut entry {
            self.serve(entry);
        }
    }

    /// Until the kernel takes the entry away.
    fn serve(&self, entry: &mut Entry) {
        let mut served = 0;
        let ended = loop {
            if let Err(ended) = entry.wait() {
                break ended;
            }
            self.scheduler.note();
            let answer = entry
                .request()
                .and_then(|request| dispatch::answer(&self.operations, request));
            entry.answer(answer.map_err(|error| errno(&error).code()));
            served += 1;
            // One thread writes them, and others only look.
            self.counts.requests.store(served, Ordering::Relaxed);
            self.counts.calls.store(entry.calls(), Ordering::Relaxed);
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
            self.queue
        );
    }
}
