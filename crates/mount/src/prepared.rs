//! A directory whose pool is open and recovered, before the kernel sends requests for it; and while it does.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use forebay_files::{FileBuffer, FileBufferOptions};
use forebay_serve::fuse_ring::{RingCounts, Rings};
use forebay_serve::mount_point::session_end;
use fuser::{BackgroundSession, Notifier, Session};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::filesystem::MountedTree;
use crate::negotiation::WRITE_BYTES_MAX;
use crate::opening::Opening;
use crate::operations::Operations;
use crate::options::MountOptions;
use crate::paths;
use crate::ring::RingService;
use crate::scheduler::Scheduler;
use crate::shares::Shares;
use crate::tree::Tree;

/// What serves the directory's requests, and what it holds.
#[derive(Debug)]
pub struct Prepared {
    operations: Arc<Operations>,
    scheduler: Arc<Scheduler>,
    rings: Arc<Rings>,
    kernel: Arc<OnceLock<Notifier>>,
    buffer: Arc<FileBuffer>,
    locks: paths::Locks,
}

impl Prepared {
    /// Locks `data`, which is resolved, opens the pool and recovers.
    ///
    /// # Errors
    /// The directory is served already, or the pool cannot be opened or is of another directory.
    pub fn new(
        data: PathBuf,
        buffer: &FileBufferOptions,
        options: &MountOptions,
    ) -> io::Result<Prepared> {
        let locks = paths::lock(&data)?;
        let descriptors_max = raise_descriptor_limit();
        // An open file without a name has two.
        let per_user = options.open_files_per_user.unwrap_or(descriptors_max / 8);
        let own = rustix::process::geteuid().as_raw();
        let buffer = FileBuffer::open(&buffer.clone().root(data))?;
        let shares = Shares::new(per_user, own);
        let path_fds_max = descriptors_max / 4;
        let tree = Tree::new(
            Arc::clone(&buffer),
            locks.data.try_clone()?,
            path_fds_max,
            shares,
        )?;
        let kernel = tree.kernel();
        let scheduler = Scheduler::new(options.threads, options.keeps_cores_awake);
        Ok(Prepared {
            operations: Arc::new(Operations {
                tree,
                opening: Opening::default(),
                has_writeback_cache: options.writeback_cache,
                belief: options.belief,
            }),
            scheduler: Arc::new(scheduler),
            rings: Arc::new(Rings::new(options.transport, WRITE_BYTES_MAX)),
            kernel,
            buffer,
            locks,
        })
    }

    /// Which directory it is.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn identity(&self) -> io::Result<paths::DirectoryIdentity> {
        paths::DirectoryIdentity::of(&self.locks.data)
    }

    /// The pool with the files that it buffers.
    pub fn buffer(&self) -> &Arc<FileBuffer> {
        &self.buffer
    }

    /// Serves the requests of the session that `begin` makes of the tree. `on_end` is called once when it has ended.
    /// Where that fails, the pool is closed.
    ///
    /// # Errors
    /// Those of `begin`, there are no threads, or the pool could not be closed.
    pub fn serve(
        self,
        on_end: impl FnOnce() + Send + Sync + 'static,
        begin: impl FnOnce(MountedTree) -> io::Result<Session<MountedTree>>,
    ) -> io::Result<Serving> {
        let buffer = Arc::clone(&self.buffer);
        self.begin(on_end, begin).or_else(|error| {
            buffer.close()?;
            Err(error)
        })
    }

    fn begin(
        self,
        on_end: impl FnOnce() + Send + Sync + 'static,
        begin: impl FnOnce(MountedTree) -> io::Result<Session<MountedTree>>,
    ) -> io::Result<Serving> {
        let Prepared {
            operations,
            scheduler,
            rings,
            kernel,
            buffer,
            locks,
        } = self;
        let (server, servers) = (Arc::clone(&operations), Arc::clone(&rings));
        let tree = MountedTree::new(server, Arc::clone(&scheduler), servers, on_end);
        let session = begin(tree)?;
        let device: OwnedFd = session.as_fd().try_clone_to_owned()?;
        scheduler.begin(device.try_clone()?);
        // There is one session, and it has served nothing yet.
        let _ = kernel.set(session.notifier());
        let session = session.spawn()?;
        // Where the kernel agreed to them it holds all requests back until now.
        rings.start(device, &RingService::new(&operations, &scheduler))?;
        Ok(Serving {
            session,
            buffer,
            rings,
            locks,
        })
    }

    /// Closes the pool without having served anything.
    ///
    /// # Errors
    /// The backing's: then what it lacks is still in the pool.
    pub fn close(self) -> io::Result<()> {
        self.buffer.close()
    }
}

/// A directory that is served.
#[derive(Debug)]
pub struct Serving {
    session: BackgroundSession,
    buffer: Arc<FileBuffer>,
    rings: Arc<Rings>,
    /// Held until the buffer is closed, so that no other process serves the directory before.
    locks: paths::Locks,
}

impl Serving {
    /// The pool with the files that it buffers.
    pub fn buffer(&self) -> &Arc<FileBuffer> {
        &self.buffer
    }

    /// What the rings have done by which the kernel's requests come; nothing where they come by `/dev/fuse`.
    pub fn ring_counts(&self) -> Option<RingCounts> {
        self.rings.counts()
    }

    /// Waits until no mount shows the directory any more, brings the backing up to date, and closes the pool.
    ///
    /// # Errors
    /// The session's, or the backing's: then what it lacks is still in the pool.
    pub fn join(self) -> io::Result<()> {
        let ended = session_end(self.session.join());
        self.buffer.close()?;
        ended
    }

    /// Brings the backing up to date and closes the pool while files may still be in use; they are
    /// written straight through until the process ends.
    ///
    /// # Errors
    /// The backing's; what it lacks is still in the pool.
    pub fn close_in_use(self) -> io::Result<()> {
        let closed = self.buffer.close();
        // Dropping it would wait for processes that still use it.
        std::mem::forget(self.session);
        // And they still change the directory.
        std::mem::forget(self.locks);
        closed
    }
}

/// Every open file is a descriptor, and every inode that has no handle. Returns the limit.
fn raise_descriptor_limit() -> usize {
    let raise = |to: Option<u64>| {
        let limit = Rlimit {
            current: to,
            maximum: to,
        };
        setrlimit(Resource::Nofile, limit)
    };
    let highest = std::fs::read_to_string("/proc/sys/fs/nr_open")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Root may go beyond the limit it was given; without the right that limit stands.
    if highest.is_none() || raise(highest).is_err() {
        let _ = raise(maximum);
    }
    let Rlimit { current, .. } = getrlimit(Resource::Nofile);
    current.map_or(usize::MAX, |limit| limit as usize)
}
