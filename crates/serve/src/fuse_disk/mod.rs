//! A [`BlockDevice`] exported as one file, `disk`, in a FUSE mount.
//!
//! Guarantees: a write the kernel saw acknowledged is in the device; the kernel caches nothing of
//! ours, so that another user of the device never reads stale bytes; fsync costs nothing, because
//! there is nothing left to do. A request that comes whole goes down whole; the kernel splits what
//! is longer than [`MAX_REQUEST_BYTES`] or its own limit. What brings the requests changes nothing of that.

mod disk;
mod dispatch;
mod filesystem;
mod waiting;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};

use crate::block_device::BlockDevice;
use crate::fuse_ring::{RingCounts, Rings, Transport};
use crate::mount_point::{self, MOUNT_SOURCE, MountIdentity};
use disk::{DISK_NAME, Disk};
use filesystem::FuseDisk;

pub use filesystem::MAX_REQUEST_BYTES;

/// What the kernel has in one request at most where it does not say: 256 pages.
const KERNEL_PAGES: u32 = 256;
const PAGE_BYTES: u32 = 4096;

/// How a disk is exported.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// What brings the kernel's requests.
    pub transport: Transport,
    /// Threads that serve requests by `/dev/fuse`; a request that waits for the backing occupies one.
    pub threads: usize,
    /// Let users other than the daemon's own (and root) use the mount.
    pub allow_other: bool,
}

impl Default for DiskOptions {
    fn default() -> Self {
        DiskOptions {
            transport: Transport::Auto,
            threads: 8,
            allow_other: false,
        }
    }
}

/// A mounted disk. Dropping it unmounts where that is possible.
#[derive(Debug)]
pub struct DiskMount {
    identity: MountIdentity,
    session: BackgroundSession,
    rings: Arc<Rings>,
}

impl DiskMount {
    /// Mounts `device` on `directory` and serves it from background threads.
    ///
    /// `on_end` is called once when the mount has ended, no matter what unmounted it. The mount's
    /// own reference to `device` is dropped before that.
    pub fn new(
        device: impl BlockDevice,
        directory: &Path,
        options: &DiskOptions,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let directory = mount_point::prepare(directory)?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(MOUNT_SOURCE.to_owned()),
            MountOption::NoExec,
            MountOption::NoAtime,
        ];
        config.acl = if options.allow_other {
            SessionACL::All
        } else {
            SessionACL::Owner
        };
        config.n_threads = Some(options.threads.max(1));
        config.clone_fd = true;
        let rings = Arc::new(Rings::new(options.transport, ring_request_bytes()));
        let disk = Arc::new(Disk::new(device));
        let served = FuseDisk::new(Arc::clone(&disk), Arc::clone(&rings), on_end);
        let session = Session::new(served, &directory, &config).and_then(|session| {
            let device = session.as_fd().try_clone_to_owned()?;
            Ok((session.spawn()?, device))
        });
        let (session, device): (_, OwnedFd) =
            session.map_err(|error| not_mounted(&directory, &error))?;
        // Where the kernel agreed to them it holds all requests back until now.
        rings.start(device, &disk)?;
        // The mount's end lets the device go, and not this.
        drop(disk);
        let identity = MountIdentity::of(&directory)?;
        Ok(DiskMount {
            identity,
            session,
            rings,
        })
    }

    /// The directory the disk is mounted on, absolute.
    pub fn directory(&self) -> &Path {
        &self.identity.directory
    }

    /// What tells this mount from any other at the same place.
    pub fn identity(&self) -> &MountIdentity {
        &self.identity
    }

    /// The path of the exported file.
    pub fn disk_path(&self) -> PathBuf {
        self.identity.directory.join(DISK_NAME)
    }

    /// What the rings have done by which the kernel's requests come; nothing where they come by `/dev/fuse`.
    pub fn ring_counts(&self) -> Option<RingCounts> {
        self.rings.counts()
    }

    /// Unmounts; fails with [`io::ErrorKind::ResourceBusy`] while the disk is in use, unless
    /// `lazily`: then the mount vanishes at once and its users get errors when the daemon exits.
    /// Fails with [`io::ErrorKind::NotFound`] where it has been unmounted already, and leaves alone
    /// what has been mounted over it.
    pub fn unmount(&self, lazily: bool) -> io::Result<()> {
        self.identity.unmount(lazily)
    }

    /// Waits until the mount has ended, and returns the session's error if it had one.
    pub fn join(self) -> io::Result<()> {
        mount_point::session_end(self.session.join())
    }
}

/// What the rings have room for in one request: no more than the kernel sends.
fn ring_request_bytes() -> u32 {
    let said = std::fs::read_to_string("/proc/sys/fs/fuse/max_pages_limit");
    let said = said.ok().and_then(|text| text.trim().parse().ok());
    let pages: u32 = said.unwrap_or(KERNEL_PAGES);
    pages.saturating_mul(PAGE_BYTES).min(MAX_REQUEST_BYTES)
}

fn not_mounted(directory: &Path, error: &io::Error) -> io::Error {
    // One of ours says what is missing.
    let message = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::Unsupported, None) => error.to_string(),
        _ => format!(
            "the disk could not be mounted on {} through /dev/fuse ({error}); run as root, or install fuse3",
            directory.display()
        ),
    };
    io::Error::new(error.kind(), message)
}
