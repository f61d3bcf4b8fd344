//! A disk that is served.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_serve::mount_point::MountIdentity;
use forebay_serve::{BlockDevice, DeviceMeters, DiskMount, MeteredDevice};
use parking_lot::Mutex;

/// A mount with a number of its own, so that an event of an earlier one is not taken for this
/// one's.
pub(super) struct Mounted {
    pub(super) number: u64,
    pub(super) mount: DiskMount,
}

/// A disk that is served. `T` is what its daemon has behind it.
pub struct Served<T> {
    /// What clients and commands call it.
    pub name: String,
    /// Its backing.
    pub backing: PathBuf,
    /// The disk, whose requests are timed.
    pub disk: Arc<dyn BlockDevice>,
    /// How long they took.
    pub meters: Arc<DeviceMeters>,
    /// What is behind the disk.
    pub behind: T,
    /// By which the next daemon knows a ublk device of this disk again; 0 where none does.
    pub ublk_identity: u64,
    /// Where it is mounted, if it is.
    pub(super) mount: Mutex<Option<Mounted>>,
}

impl<T> Served<T> {
    /// A disk without front ends.
    pub fn new<D: BlockDevice>(
        name: String,
        backing: PathBuf,
        disk: MeteredDevice<D>,
        behind: T,
        ublk_identity: u64,
    ) -> Served<T> {
        Served {
            name,
            backing,
            meters: disk.meters(),
            disk: Arc::new(disk),
            behind,
            ublk_identity,
            mount: Mutex::new(None),
        }
    }

    /// Where it is mounted.
    pub fn mounted_on(&self) -> Option<PathBuf> {
        let mount = self.mount.lock();
        mount
            .as_ref()
            .map(|mounted| mounted.mount.directory().to_path_buf())
    }

    /// What tells its mount from others, if it is mounted.
    pub fn mount_identity(&self) -> Option<MountIdentity> {
        let mount = self.mount.lock();
        mount
            .as_ref()
            .map(|mounted| mounted.mount.identity().clone())
    }
}

impl<T> fmt::Debug for Served<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.name, self.backing.display())
    }
}
