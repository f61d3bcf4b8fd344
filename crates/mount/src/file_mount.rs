//! The mount as a whole: made, unmounted, closed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use forebay_files::{FileBuffer, FileBufferOptions};
use forebay_serve::fuse_ring::{RingCounts, Rings};
use forebay_serve::mount_point::{self, MOUNT_SOURCE, MountIdentity};
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::filesystem::MountedTree;
use crate::negotiation::WRITE_BYTES_MAX;
use crate::opening::Opening;
use crate::operations::Operations;
use crate::options::MountOptions;
use crate::paths;
use crate::restrictions::Restrictions;
use crate::ring::RingService;
use crate::scheduler::Scheduler;
use crate::shares::Shares;
use crate::tree::Tree;

/// A mounted directory. Dropping it unmounts where that is possible.
#[derive(Debug)]
pub struct FileMount {
    identity: MountIdentity,
    session: BackgroundSession,
    buffer: Arc<FileBuffer>,
    rings: Arc<Rings>,
    /// Held until the buffer is closed, so that no other process serves the directory before.
    locks: paths::Locks,
}

impl FileMount {
    /// Opens the pool, recovers, and mounts `data` on `directory`.
    ///
    /// `on_end` is called once when the mount has ended, no matter what unmounted it.
    ///
    /// # Errors
    /// The directories overlap, the directory is served already, the pool cannot be opened or is of
    /// another directory, or the kernel does not mount.
    pub fn new(
        data: &Path,
        directory: &Path,
        buffer: &FileBufferOptions,
        options: &MountOptions,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> io::Result<FileMount> {
        let directory = mount_point::resolve(directory)?;
        let data = paths::data_directory(data)?;
        paths::check_places(&data, &directory, &std::path::absolute(buffer.pool())?)?;
        mount_point::check_empty(&directory)?;
        let restrictions = Restrictions::of(&data)?;
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
        let scheduler = Arc::new(scheduler);
        let operations = Arc::new(Operations {
            tree,
            opening: Opening::default(),
            has_writeback_cache: options.writeback_cache,
        });
        let rings = Arc::new(Rings::new(options.transport, WRITE_BYTES_MAX));
        let (server, servers) = (Arc::clone(&operations), Arc::clone(&rings));
        let tree = MountedTree::new(server, Arc::clone(&scheduler), servers, on_end);
        let session = Session::new(tree, &directory, &configuration(options, restrictions))
            .and_then(|session| {
                let device = session.as_fd().try_clone_to_owned()?;
                scheduler.begin(device.try_clone()?);
                // There is one session, and it has served nothing yet.
                let _ = kernel.set(session.notifier());
                Ok((session.spawn()?, device))
            });
        let (session, device): (_, OwnedFd) =
            session.map_err(|error| not_mounted(&directory, &error))?;
        // Where the kernel agreed to them it holds all requests back until now.
        rings.start(device, &RingService::new(&operations, &scheduler))?;
        let identity = MountIdentity::of(&directory)?;
        Ok(FileMount {
            identity,
            session,
            buffer,
            rings,
            locks,
        })
    }

    /// The directory it is mounted on, absolute.
    pub fn directory(&self) -> &Path {
        &self.identity.directory
    }

    /// What tells this mount from any other at the same place.
    pub fn identity(&self) -> &MountIdentity {
        &self.identity
    }

    /// What the rings have done by which the kernel's requests come; nothing where they come by `/dev/fuse`.
    pub fn ring_counts(&self) -> Option<RingCounts> {
        self.rings.counts()
    }

    /// Unmounts; fails with [`io::ErrorKind::ResourceBusy`] while files are in use, unless `lazily`:
    /// then the mount vanishes at once and its users get errors when the process ends. Fails with
    /// [`io::ErrorKind::NotFound`] where it has been unmounted already.
    ///
    /// # Errors
    /// As said.
    pub fn unmount(&self, lazily: bool) -> io::Result<()> {
        self.identity.unmount(lazily)
    }

    /// Waits until the mount has ended, brings the backing up to date, and closes the pool.
    ///
    /// # Errors
    /// The session's, or the backing's: then what it lacks is still in the pool.
    pub fn join(self) -> io::Result<()> {
        let ended = mount_point::session_end(self.session.join());
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

    /// The pool with the files that it buffers.
    pub fn buffer(&self) -> &Arc<FileBuffer> {
        &self.buffer
    }
}

fn not_mounted(directory: &Path, error: &io::Error) -> io::Error {
    // One of ours says what is missing.
    let message = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::Unsupported, None) => error.to_string(),
        _ => format!(
            "nothing could be mounted on {} through /dev/fuse ({error}); run as root, or install fuse3",
            directory.display()
        ),
    };
    io::Error::new(error.kind(), message)
}

fn configuration(options: &MountOptions, restrictions: Restrictions) -> Config {
    let is_root = rustix::process::geteuid().is_root();
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(MOUNT_SOURCE.to_owned()),
        MountOption::Subtype("files".to_owned()),
        MountOption::DefaultPermissions,
    ];
    config.mount_options.extend(restrictions.options(is_root));
    config.acl = if is_root {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    config
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
