//! The daemon's state: a pool and the disks that it serves of it.
//!
//! Disks come and go one at a time, under `changes`; readers do not wait for that.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay::{Backing, FaultyStore, FileBackingOptions, FileStore, Pool, Volume};
use forebay_command::Failure;
use forebay_command::disks::{self, DiskSettings, Disks};
use forebay_serve::{MeteredDevice, Refusal, RefusalKind, VolumeDevice, mount_point};
use parking_lot::{Mutex, MutexGuard};

use super::confinement::Confinement;
use super::regions::Regions;
use super::scrub::Scrub;
use crate::stack::{self, Attached, PoolBehind};

/// What is behind a disk.
pub struct PoolDisk {
    /// The volume of the pool.
    pub volume: Volume,
    /// That of the pool behind it, if there is one.
    pub lower: Option<Volume>,
    /// Makes its backing fail on request, in a test pool.
    pub faults: Option<Arc<FaultyStore>>,
}

impl PoolDisk {
    /// Its volumes, in the order in which what is dirty leaves them.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        std::iter::once(&self.volume).chain(&self.lower)
    }
}

/// A disk that is served.
pub type Served = disks::Served<PoolDisk>;

/// Everything that the daemon holds.
pub struct Service {
    /// The pool.
    pub pool: Arc<Pool>,
    /// By which paths it was opened.
    pub given: Vec<PathBuf>,
    /// A pool between it and the disks.
    pub behind: Option<PoolBehind>,
    /// Its disks that are served.
    pub disks: Arc<Disks<PoolDisk>>,
    /// The scrub of the pool.
    pub scrub: Scrub,
    /// The mapped regions beside it, while they are kept.
    pub regions: Mutex<Option<Regions>>,
    changes: Mutex<()>,
    rebuild: Mutex<()>,
    is_ending: AtomicBool,
    confinement: Option<Confinement>,
    is_confined: AtomicBool,
}

/// Why a disk is not attached as it was asked for.
#[derive(Debug)]
pub enum AttachError {
    /// It is not there at all.
    Refused(Failure),
    /// It is there, and a front end did not open.
    HalfDone(Failure, Arc<Served>),
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Failure {
        let (AttachError::Refused(failure) | AttachError::HalfDone(failure, _)) = error;
        failure
    }
}

impl Service {
    /// Serves `disks` of the pool, which was opened by the paths that are given, where it may open their backings.
    pub fn new(
        (pool, given): (Pool, Vec<PathBuf>),
        behind: Option<PoolBehind>,
        disks: Disks<PoolDisk>,
        confinement: Option<Confinement>,
    ) -> Service {
        Service {
            pool: Arc::new(pool),
            given,
            behind,
            disks: Arc::new(disks),
            scrub: Scrub::default(),
            regions: Mutex::new(None),
            changes: Mutex::new(()),
            rebuild: Mutex::new(()),
            is_ending: AtomicBool::new(false),
            confinement,
            is_confined: AtomicBool::new(false),
        }
    }

    /// The pools, in the order in which they are closed, which no thread uses any more; those that one does use are left out. The
    /// front ends of the disks are gone.
    pub fn into_pools(self) -> impl Iterator<Item = Pool> {
        // What the one in front has under way must not wait for room that nobody makes.
        if let Some(behind) = &self.behind {
            behind.pool.end_waits();
        }
        let disks = Arc::into_inner(self.disks);
        let front = disks.and_then(|_| Arc::into_inner(self.pool));
        // The one in front has its volumes' backings, and so this pool, until it is closed.
        let behind = self.behind.map(|behind| behind.pool);
        let last = move || behind.and_then(Arc::into_inner);
        front
            .into_iter()
            .chain(std::iter::once_with(last).flatten())
    }

    /// The right to change which disks are served; a caller that finds it taken is told to try
    /// again.
    ///
    /// # Errors
    /// Another thread has it.
    pub fn change(&self) -> Result<MutexGuard<'_, ()>, Refusal> {
        self.changes.try_lock().ok_or_else(|| {
            Refusal::new(
                RefusalKind::Busy,
                "another disk is being attached or detached; ask again when that is done",
            )
        })
    }

    /// The right to rebuild a member of the pool. Disks come and go meanwhile.
    ///
    /// # Errors
    /// Another thread has it.
    pub fn rebuild(&self) -> Result<MutexGuard<'_, ()>, Refusal> {
        self.rebuild.try_lock().ok_or_else(|| {
            Refusal::new(
                RefusalKind::Busy,
                "a member is being rebuilt already; ask again when that is done",
            )
        })
    }

    /// Ends a rebuild, which leaves its member out, and waits until it has ended. None begins any more.
    pub fn end_rebuild(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        drop(self.rebuild.lock());
    }

    /// Whether a rebuild is to end.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Attaches a backing and opens its front ends. The caller holds the right to change.
    ///
    /// # Errors
    /// A name that is taken or no name, a backing or a mount point that cannot be used. Where a front
    /// end fails at last, the disk is there with some of them, and `undo` takes it away.
    pub fn attach(
        &self,
        settings: &DiskSettings,
        accepts_stale: bool,
    ) -> Result<Arc<Served>, AttachError> {
        let admitted = self.admit(settings, accepts_stale);
        let served = admitted.map_err(AttachError::Refused)?;
        let front_ends = settings.front_ends();
        if let Err(failure) = self.disks.open_front_ends(&served, &front_ends) {
            return Err(AttachError::HalfDone(failure, served));
        }
        tracing::info!(
            volume = served.name,
            backing = %served.backing.display(),
            "attached"
        );
        Ok(served)
    }

    /// Takes a disk away that was attached and whose front ends did not all open. The caller holds the
    /// right to change.
    ///
    /// # Errors
    /// The backing does not take what the pool had of it before; the disk is attached without a front
    /// end then.
    pub fn undo(&self, served: &Arc<Served>) -> Result<(), Failure> {
        let unmounted = self.disks.unmount(served, false);
        if let Err(error) = unmounted.or_else(|_| self.disks.unmount(served, true)) {
            tracing::error!(volume = served.name, %error, "not unmounted");
        }
        self.disks
            .exports
            .remove_and_wait(&served.name, Duration::ZERO);
        self.disks.vhost.close(&served.name);
        self.disks.ublk.remove(&served.name)?;
        self.pool.detach(served.behind.volume.clone())?;
        self.disks.forget(served);
        if let Err(error) = self.detach_behind(&served.behind) {
            tracing::error!(volume = served.name, %error, "it stays attached to the pool behind until the daemon ends");
        }
        Ok(())
    }

    /// Takes a disk away from the pool behind, when it has left the one in front.
    ///
    /// # Errors
    /// As [`Pool::detach`]: it stays there, with everything.
    pub fn detach_behind(&self, disk: &PoolDisk) -> Result<(), forebay::Error> {
        match (&self.behind, &disk.lower) {
            (Some(behind), Some(lower)) => behind.pool.detach(lower.clone()),
            _ => Ok(()),
        }
    }

    /// Refuses a file or device that the daemon may not open.
    pub fn check_confined(&self, path: &Path) -> Result<(), Failure> {
        let confinement = self.confinement.as_ref();
        confinement.map_or(Ok(()), |confinement| confinement.check(path))
    }

    /// The disk, without a front end.
    fn admit(&self, settings: &DiskSettings, accepts_stale: bool) -> Result<Arc<Served>, Failure> {
        let (pool, name) = (&self.pool, settings.name.as_deref());
        let name = self.disks.new_name(name, &settings.backing)?;
        self.check_confined(&settings.backing)?;
        let is_confined = self.is_confined.load(Ordering::Relaxed);
        if is_confined && (settings.fuse.is_some() || settings.ublk.is_some()) {
            return Err(Failure::Arguments(
                "a daemon that --allow-backing confines mounts nothing and makes no device once it \
                 serves; give the disk its front end at the start, or use NBD or vhost-user"
                    .into(),
            ));
        }
        if let Some(directory) = &settings.fuse {
            mount_point::prepare(directory)?;
        }
        let (backing, faults) = open_backing(pool, &settings.backing)?;
        let path = backing.identity().path;
        let attached = stack::attach(pool, self.behind.as_ref(), backing, accepts_stale)?;
        let Attached { volume, lower } = attached;
        let identity = ublk_identity(&pool.uuid(), volume.id());
        let disk = MeteredDevice::new(VolumeDevice::new(volume.clone()));
        let behind = PoolDisk {
            volume,
            lower,
            faults,
        };
        let served = Arc::new(Served::new(name, path, disk, behind, identity));
        self.disks.add(Arc::clone(&served));
        Ok(served)
    }

    /// From now on no file is opened but where it was allowed; none if nothing was said of that, false
    /// where the kernel cannot see to it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn confine(&self, sockets: &[PathBuf]) -> Result<Option<bool>, Failure> {
        let Some(confinement) = &self.confinement else {
            return Ok(None);
        };
        let regions = self.regions.lock();
        let regions = regions.as_ref().map_or_else(Vec::new, Regions::directories);
        let is_confined = confinement.enter(sockets, &regions)?;
        self.is_confined.store(is_confined, Ordering::Relaxed);
        Ok(Some(is_confined))
    }
}

/// The backing of a pool's disk; in a test pool, one that fails on request.
fn open_backing(pool: &Pool, path: &Path) -> Result<(Backing, Option<Arc<FaultyStore>>), Failure> {
    if !pool.is_test() {
        return Ok((Backing::file(path)?, None));
    }
    let store = FileStore::open(path, FileBackingOptions::default())?;
    let faults = Arc::new(FaultyStore::new(Arc::new(store)));
    Ok((Backing::from_store(faults.clone()), Some(faults)))
}

/// What tells this disk from every other in the driver's memory: never 0, which is no identity.
/// Pools have random identifiers.
fn ublk_identity(pool: &[u8; 16], volume: u32) -> u64 {
    // An odd factor loses nothing: different volumes of a pool stay different.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (halves, _) = pool.as_chunks::<8>();
    let mix = |mixed: u64, half: &[u8; 8]| {
        mixed.rotate_left(29).wrapping_mul(FACTOR) ^ u64::from_le_bytes(*half)
    };
    let mixed = halves.iter().fold(0, mix);
    mixed
        .wrapping_add((u64::from(volume) + 1).wrapping_mul(FACTOR))
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_told_apart() {
        let pools = [[1; 16], [2; 16], *b"0123456789abcdef"];
        let mut seen = std::collections::BTreeSet::new();
        for pool in &pools {
            for volume in 0..64 {
                assert!(seen.insert(ublk_identity(pool, volume)));
                assert_eq!(ublk_identity(pool, volume), ublk_identity(pool, volume));
            }
        }
    }
}
