//! Pools: created, opened, filled with volumes, closed.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use forebay_pmem::{Counters, Region, RegionOptions};

use crate::api::pool::{DrainWatcher, MemoryPool, OpenBacking};
use crate::api::stats::Stats;
use crate::backing::{Backing, BackingIdentity, MarkPlace};
use crate::error::{ErrorKind, Result};
use crate::facade::volume::Volume;
use crate::marks::{Front, PoolSide};
use crate::options::{Medium, PoolOptions, Redundancy, RuntimeOptions};
use crate::recovery::RecoveryReport;
use crate::ssd::{self, SsdPool};

/// An open pool. One process owns it; dropping it ends its threads and leaves everything dirty
/// safely in the pool.
///
/// Any threads may call its methods at once. What a method does to the pool's volumes or size is durable when
/// it returns `Ok`; settings last until the pool is closed.
pub struct Pool {
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Memory(MemoryPool),
    Ssd(SsdPool),
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            Kind::Memory(pool) => pool.fmt(f),
            Kind::Ssd(pool) => write!(
                f,
                "Pool {} (incarnation {})",
                pool.path().display(),
                pool.incarnation()
            ),
        }
    }
}

/// The same call of either.
macro_rules! either {
    ($pool:expr, $either:ident => $call:expr) => {
        match &$pool.kind {
            Kind::Memory($either) => $call,
            Kind::Ssd($either) => $call,
        }
    };
}

/// The members of a pool on an SSD, if that is what one of these is.
fn ssd_members<P: AsRef<Path>>(paths: &[P]) -> Option<Vec<&Path>> {
    let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
    paths
        .iter()
        .any(|path| ssd::is_ssd_pool(path))
        .then_some(paths)
}

impl Pool {
    fn of_memory(pool: MemoryPool) -> Pool {
        Pool {
            kind: Kind::Memory(pool),
        }
    }

    fn of_ssd(pool: SsdPool) -> Pool {
        Pool {
            kind: Kind::Ssd(pool),
        }
    }

    /// The pool in memory, if it is one.
    pub(crate) fn memory(&self) -> Option<&MemoryPool> {
        match &self.kind {
            Kind::Memory(pool) => Some(pool),
            Kind::Ssd(_) => None,
        }
    }

    /// The pool in memory; of another one what it lacks is the error.
    pub(super) fn memory_or(&self, lacks: &str) -> Result<&MemoryPool> {
        let lacking = || ErrorKind::Options(format!("a pool on an SSD {lacks}")).into();
        self.memory().ok_or_else(lacking)
    }

    /// Makes a new, empty pool, durably, and opens it. Files that exist are refused without `force`.
    ///
    /// # Errors
    /// [`ErrorKind::Options`]: no such pool can be. [`ErrorKind::Refused`]: a member is there already, or
    /// in use. [`ErrorKind::Media`]: a member cannot be made or mapped, or has no space. [`ErrorKind::Thread`]: a
    /// background thread cannot be started. Files that were made for it are removed again.
    pub fn create(options: &PoolOptions) -> Result<Pool> {
        match options.medium {
            Medium::Memory => MemoryPool::create(options).map(Pool::of_memory),
            Medium::Ssd => SsdPool::create(options).map(Pool::of_ssd),
        }
    }

    /// As `create`, over regions that are mapped already (tests use shadow regions), whatever they hold.
    ///
    /// # Errors
    /// As [`Pool::create`]; the regions keep what was written to them.
    pub fn create_on(regions: Vec<Region>, options: &PoolOptions) -> Result<Pool> {
        MemoryPool::create_on(regions, options).map(Pool::of_memory)
    }

    /// Opens a pool by the paths of all its members, in any order, and recovers it.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`]: foreign, truncated, newer, mixed or missing members. [`ErrorKind::Damaged`]: what
    /// was acknowledged may be lost. [`ErrorKind::Media`]: a member cannot be mapped, is in use, or failed.
    /// [`ErrorKind::Thread`]: a background thread cannot be started.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Pool> {
        Pool::open_with(paths, RuntimeOptions::default())
    }

    /// As `open`, with options.
    ///
    /// # Errors
    /// As [`Pool::open`]; [`ErrorKind::Options`].
    pub fn open_with<P: AsRef<Path>>(paths: &[P], options: RuntimeOptions) -> Result<Pool> {
        let Some(paths) = ssd_members(paths) else {
            return MemoryPool::open_with(paths, options).map(Pool::of_memory);
        };
        SsdPool::open(&paths, options).map(Pool::of_ssd)
    }

    /// As `open_with`, over regions that are mapped already.
    ///
    /// # Errors
    /// As [`Pool::open_with`].
    pub fn open_on(regions: Vec<Region>, options: RuntimeOptions) -> Result<Pool> {
        MemoryPool::open_on(regions, options).map(Pool::of_memory)
    }

    // Hidden: for tests and checkers, whose devices are shadows.
    /// As `open_with`, of a pool on an SSD whose log is open already.
    ///
    /// # Errors
    /// As [`Pool::open_with`].
    #[doc(hidden)]
    pub fn on_log(log: forebay_log::Log, options: RuntimeOptions) -> Result<Pool> {
        SsdPool::on_log(log, options).map(Pool::of_ssd)
    }

    // Hidden: for the commands that look at a pool.
    /// Opens a pool on an SSD to look at it: recovery runs in full, and what it writes goes nowhere. `None` if these are no such
    /// pool.
    ///
    /// # Errors
    /// As [`Pool::open`]; [`ErrorKind::Refused`]: another process has it in use.
    #[doc(hidden)]
    pub fn look_at_ssd<P: AsRef<Path>>(
        paths: &[P],
        options: RuntimeOptions,
    ) -> Result<Option<Pool>> {
        let Some(paths) = ssd_members(paths) else {
            return Ok(None);
        };
        match SsdPool::open_private(&paths, options)? {
            Some(pool) => Ok(Some(Pool::of_ssd(pool))),
            None => Err(ErrorKind::InUse {
                path: paths[0].to_path_buf(),
            }
            .into()),
        }
    }

    // Hidden: for the commands that make and look at pools.
    /// Whether it is a pool on an SSD.
    #[doc(hidden)]
    pub fn is_ssd(&self) -> bool {
        self.memory().is_none()
    }

    /// Starts the flusher and reclaimer threads of a pool that was opened without them: a caller that first
    /// has to bring order into what the pool holds does that alone.
    ///
    /// # Errors
    /// [`ErrorKind::Thread`], then and from then on: the pool is to be closed, which keeps everything.
    pub fn start_background(&mut self) -> Result<()> {
        match &mut self.kind {
            Kind::Memory(pool) => pool.start_background(),
            Kind::Ssd(pool) => pool.start_background(),
        }
    }

    /// Lines, fences and bytes persisted since the members were mapped, by all threads.
    pub fn counters(&self) -> Counters {
        self.memory().map(MemoryPool::counters).unwrap_or_default()
    }

    /// What recovery found when this pool was opened.
    pub fn recovery_report(&self) -> &RecoveryReport {
        either!(self, pool => pool.recovery_report())
    }

    /// The pool's identity.
    pub fn uuid(&self) -> [u8; 16] {
        either!(self, pool => pool.uuid())
    }

    /// What the medium of the first member survives, in plain words.
    pub fn survives(&self) -> &'static str {
        either!(self, pool => pool.survives())
    }

    /// How many members hold what must not be lost.
    pub fn redundancy(&self) -> Redundancy {
        either!(self, pool => pool.redundancy())
    }

    /// The most bytes one transaction can hold: the smaller of 4 MiB and an eighth of the pool.
    pub fn transaction_limit_bytes(&self) -> u64 {
        either!(self, pool => pool.transaction_limit_bytes())
    }

    /// Makes everything acknowledged durable in place and empties the log. Not needed for durability: it
    /// shortens the next recovery.
    ///
    /// # Errors
    /// [`ErrorKind::Media`]: a fence failed, and the pool takes no more writes. [`ErrorKind::Poisoned`]: one
    /// failed earlier. [`ErrorKind::Closed`].
    pub fn checkpoint(&self) -> Result<()> {
        either!(self, pool => pool.checkpoint())
    }

    /// Evicts up to `wanted` clean blocks; returns how many. Background threads do this unasked.
    ///
    /// # Errors
    /// As [`Pool::checkpoint`].
    pub fn reclaim_once(&self, wanted: usize) -> Result<usize> {
        match &self.kind {
            Kind::Memory(pool) => pool.reclaim_once(wanted),
            Kind::Ssd(pool) => pool.reclaim_once(),
        }
    }

    /// Writes one batch of dirty blocks back; returns how many. Background threads do this unasked.
    ///
    /// # Errors
    /// [`ErrorKind::Backing`]: a backing failed. [`ErrorKind::Corrupt`]: a block's only copy is bad. All other
    /// blocks of the batch were written; nothing is lost that was not lost before.
    pub fn write_back_once(&self) -> Result<usize> {
        either!(self, pool => pool.write_back_once())
    }

    /// Reads every cached block and compares it with its check. `progress` is told (done, of all
    /// entries) now and then. Returns how many are good, and volume and block of the bad ones.
    pub fn check(&self, mut progress: impl FnMut(u64, u64)) -> (u64, Vec<(u32, u64)>) {
        either!(self, pool => pool.check(&mut progress))
    }

    /// Ends the threads, empties the log, and closes. Dirty blocks stay in the pool; the backings of
    /// volumes that have none are whole, and their marks say so.
    ///
    /// Volumes may still be held. Whatever they are asked from now on is refused with
    /// [`ErrorKind::Closed`], reads too: the pool is unlocked when this returns, and may be another process's
    /// next. What was under way is done before that, or refused. A backing stays open, and locked if
    /// it is a file, until the last clone of its volume is dropped.
    ///
    /// A pool that is only dropped stays locked, and its volumes usable without background threads, until
    /// they are dropped too.
    ///
    /// # Errors
    /// [`ErrorKind::Media`], [`ErrorKind::Poisoned`]: a fence failed; the next open recovers.
    /// [`ErrorKind::Backing`], [`ErrorKind::Mark`]: a backing or its mark failed; then this pool alone may go on with
    /// it. Volumes are refused all the same.
    pub fn close(self) -> Result<()> {
        match self.kind {
            Kind::Memory(pool) => pool.close(),
            Kind::Ssd(pool) => pool.close(),
        }
    }

    // Hidden: for the daemon of stacked pools.
    /// Says that this pool is closed soon: a call that finds no room in it, or waits for some, is refused with
    /// [`ErrorKind::Closed`]. The pool in front ends first, and what it writes here may wait longer than a daemon has to end. A pool in
    /// memory has no such waits.
    #[doc(hidden)]
    pub fn end_waits(&self) {
        if let Kind::Ssd(pool) = &self.kind {
            pool.end_waits();
        }
    }
}

impl Pool {
    /// Attaches a backing: the volume that it was before, or a new one. A backing that has grown since
    /// keeps its volume's size until [`Pool::grow_volume`].
    ///
    /// # Errors
    /// [`ErrorKind::Volume`]: it is attached or being detached, or the table of volumes is full.
    /// [`ErrorKind::Stale`]: it and this pool are not of the same moment, or it shrank or is another file since.
    /// [`ErrorKind::Refused`]: a new one is a pool's file. [`ErrorKind::Mark`], [`ErrorKind::Backing`],
    /// [`ErrorKind::Media`]: the mark, the backing or the pool's medium failed.
    pub fn attach(&self, backing: Backing) -> Result<Volume> {
        let accepts_stale = self.accepts_stale();
        self.attach_alone(backing, (accepts_stale, true), Pool::attach_with_front)
    }

    // Hidden: for the command that brings a disk up to date.
    /// As `attach`, for a caller that writes back and nothing else: a pool that stands in front at other times may go on with what it
    /// keeps.
    ///
    /// # Errors
    /// As [`Pool::attach`].
    #[doc(hidden)]
    pub fn attach_to_flush(&self, backing: Backing) -> Result<Volume> {
        let accepts_stale = self.accepts_stale();
        self.attach_alone(backing, (accepts_stale, false), Pool::attach_with_front)
    }

    /// As `attach`, whatever pool is in front of this one.
    pub(super) fn attach_with_front(&self, backing: Backing) -> Result<Volume> {
        match &self.kind {
            Kind::Memory(pool) => pool.attach(backing).map(Volume::of_memory),
            Kind::Ssd(pool) => pool
                .attach(backing, pool.accepts_stale())
                .map(Volume::of_ssd),
        }
    }

    pub(super) fn accepts_stale(&self) -> bool {
        either!(self, pool => pool.accepts_stale())
    }

    /// Attaches where no pool is in front. If the caller `writes`, none is from then on: before this returns, as nobody writes
    /// before it does, and after the pool has taken the backing, since a refusal changes nothing.
    fn attach_alone(
        &self,
        backing: Backing,
        (accepts_stale, writes): (bool, bool),
        attach: impl FnOnce(&Pool, Backing) -> Result<Volume>,
    ) -> Result<Volume> {
        let path = backing.identity().path;
        let Some(place) = backing.front_mark_place() else {
            return attach(self, backing);
        };
        let front = Front::read(&path, place)?;
        if !accepts_stale {
            front.check(self.uuid())?;
        }
        let volume = attach(self, backing.clone())?;
        if writes && !self.is_private() {
            front.replace(self.uuid(), self.first_path())?;
        }
        Ok(volume)
    }

    pub(super) fn is_private(&self) -> bool {
        either!(self, pool => pool.is_private())
    }

    /// Where its first member lies, as its marks say it.
    pub(super) fn first_path(&self) -> PathBuf {
        let members = self.members();
        let path = members.into_iter().find_map(|member| member.path);
        let path = path.unwrap_or_default();
        std::path::absolute(&path).unwrap_or(path)
    }

    /// As `attach`, of a backing that was in use with another pool meanwhile, or whose newest data is lost.
    /// What the pool has dirty of it counts as newer than the backing; its clean blocks are dropped. Another
    /// file of the volume's name is its backing from then on.
    ///
    /// # Errors
    /// As `attach`; of [`ErrorKind::Stale`] only that the backing is smaller than the volume.
    pub fn attach_stale(&self, backing: Backing) -> Result<Volume> {
        self.attach_alone(backing, (true, true), Pool::attach_stale_with_front)
    }

    /// As `attach_stale`, whatever pool is in front of this one.
    pub(super) fn attach_stale_with_front(&self, backing: Backing) -> Result<Volume> {
        match &self.kind {
            Kind::Memory(pool) => pool.attach_stale(backing).map(Volume::of_memory),
            Kind::Ssd(pool) => pool.attach(backing, true).map(Volume::of_ssd),
        }
    }

    /// The volumes that the pool knows, with or without an attached backing.
    pub fn volumes(&self) -> Vec<Volume> {
        match &self.kind {
            Kind::Memory(pool) => pool.volumes().into_iter().map(Volume::of_memory).collect(),
            Kind::Ssd(pool) => pool.volumes().into_iter().map(Volume::of_ssd).collect(),
        }
    }

    /// The volume with this id.
    pub fn volume(&self, id: u32) -> Option<Volume> {
        match &self.kind {
            Kind::Memory(pool) => pool.volume(id).map(Volume::of_memory),
            Kind::Ssd(pool) => pool.volume(id).map(Volume::of_ssd),
        }
    }

    /// Writes everything of a volume back, drops its blocks and forgets it. Writes, then reads through
    /// other clones of the volume fail from some moment on; what was acknowledged before is in the backing,
    /// and synced. A clean volume goes at once.
    ///
    /// # Errors
    /// As [`Pool::close`]; the volume is still attached then and nothing is lost.
    pub fn detach(&self, volume: Volume) -> Result<()> {
        self.detach_watched(volume, &mut |_| ControlFlow::Continue(()))
    }

    /// As `detach`, with a watcher that may stop it; other volumes are used, attached and
    /// detached meanwhile.
    ///
    /// # Errors
    /// As `detach`; [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) where the watcher said so: the volume
    /// is attached and in use as before.
    pub fn detach_watched(&self, volume: Volume, watcher: &mut DrainWatcher<'_>) -> Result<()> {
        match &self.kind {
            Kind::Memory(pool) => pool.detach_watched(in_memory(volume)?, watcher),
            Kind::Ssd(pool) => pool.detach_watched(on_ssd(&volume)?, watcher),
        }
    }

    /// Forgets a volume that has no backing attached: everything that the pool has of it is gone, also
    /// what was acknowledged and never written back. Returns how many such blocks there were. Done again
    /// after a crash or an error it goes on from there.
    ///
    /// # Errors
    /// [`ErrorKind::Volume`]: the volume has its backing, and can be detached. [`ErrorKind::Media`],
    /// [`ErrorKind::Poisoned`]: a fence failed.
    pub fn discard_volume(&self, volume: Volume) -> Result<u64> {
        match &self.kind {
            Kind::Memory(pool) => pool.discard_volume(in_memory(volume)?),
            Kind::Ssd(pool) => pool.discard_volume(on_ssd(&volume)?),
        }
    }

    /// Gives a volume the size that its backing has now, while it is in use; returns that size. New
    /// blocks hold what the backing has there.
    ///
    /// # Errors
    /// [`ErrorKind::Volume`]: the backing shrank, which a volume never does, or is not attached.
    /// [`ErrorKind::Backing`], [`ErrorKind::Media`]: the backing or a fence failed. [`ErrorKind::Poisoned`]: one
    /// failed earlier. The volume is as before.
    pub fn grow_volume(&self, volume: &Volume) -> Result<u64> {
        match &self.kind {
            Kind::Memory(pool) => pool.grow_volume(&in_memory(volume.clone())?),
            Kind::Ssd(pool) => pool.grow_volume(on_ssd(volume)?),
        }
    }

    /// Grows the members of an idle pool to `member_bytes` each. Everything dirty is written to the
    /// backings first, which are found by their paths, and the new pool starts out empty. Files are
    /// extended; a device must have the bytes already. Done again after a crash or an error it goes
    /// on from there; a pool that has this size is left as it is.
    ///
    /// # Errors
    /// As [`Pool::open`]; [`ErrorKind::Options`]: a smaller size. [`ErrorKind::Refused`]: a device has fewer bytes.
    /// [`ErrorKind::Media`]: no space.
    /// [`ErrorKind::Volume`], [`ErrorKind::Backing`]: a backing is missing or failed.
    /// [`ErrorKind::Cancelled`]: the watcher said so. The pool is as before, less what was written back.
    pub fn grow<P: AsRef<Path>>(
        paths: &[P],
        member_bytes: u64,
        watcher: &mut DrainWatcher<'_>,
    ) -> Result<()> {
        match ssd_members(paths) {
            Some(members) => Err(ErrorKind::Options(format!(
                "{}: a pool on an SSD does not grow; make a larger one, detach the disks from this one, and attach them there",
                members[0].display()
            ))
            .into()),
            None => MemoryPool::grow(paths, member_bytes, watcher),
        }
    }

    /// As `grow`, over regions that are mapped already and large enough; returns the pool, its
    /// volumes without their backings.
    ///
    /// # Errors
    /// As [`Pool::grow`].
    pub fn grow_on(
        regions: Vec<Region>,
        member_bytes: u64,
        open_backing: &mut OpenBacking<'_>,
        watcher: &mut DrainWatcher<'_>,
        options: RuntimeOptions,
    ) -> Result<Pool> {
        let grown = MemoryPool::grow_on(regions, member_bytes, open_backing, watcher, options);
        grown.map(Pool::of_memory)
    }

    /// The identity of the pool with these members, and their paths in its order: what else lies beside a pool's files
    /// is found by it. The pool may be in use by another process; nothing is changed, and only how each file begins is
    /// looked at. A path at which nothing is takes the place that is left, where one is.
    ///
    /// # Errors
    /// A file is no member, or of another pool; not every member is named, or one twice.
    pub fn identity<P: AsRef<Path>>(
        paths: &[P],
        options: &RegionOptions,
    ) -> Result<([u8; 16], Vec<PathBuf>)> {
        let Some(paths) = ssd_members(paths) else {
            return MemoryPool::identity(paths, options);
        };
        let uuid = ssd::identity(&paths, options.trusts_owner())?;
        Ok((uuid, paths.into_iter().map(Path::to_path_buf).collect()))
    }

    /// What a pool says of each of its volumes, and which backings they have. The pool may be in use by
    /// another process; nothing is changed.
    ///
    /// # Errors
    /// Foreign, truncated, mixed or missing members.
    // Public for the commands that report on a pool and for the file buffer; hidden, because `PoolSide`
    // is one of the crate's internals.
    #[doc(hidden)]
    pub fn sides<P: AsRef<Path>>(
        paths: &[P],
        options: &RegionOptions,
    ) -> Result<Vec<(BackingIdentity, PoolSide)>> {
        match ssd_members(paths) {
            Some(paths) => ssd::sides(&paths, options.trusts_owner()),
            None => MemoryPool::sides(paths, options),
        }
    }

    /// As `sides`, over regions that are mapped already.
    ///
    /// # Errors
    /// As `sides`.
    // Public and hidden for the same reasons; the checker of crashes maps shadow regions.
    #[doc(hidden)]
    pub fn sides_on(regions: Vec<Region>) -> Result<Vec<(BackingIdentity, PoolSide)>> {
        MemoryPool::sides_on(regions)
    }

    /// Whether a backing of this name, whose mark lies at `place`, may be attached; changes nothing, so that
    /// a caller can ask before it makes room for it.
    ///
    /// # Errors
    /// As [`Pool::attach`] has them of marks.
    // Public for the file buffer, which asks before it makes a volume of its own; hidden, as it follows that
    // crate's needs.
    #[doc(hidden)]
    pub fn check_mark(&self, path: &Path, place: &dyn MarkPlace) -> Result<()> {
        either!(self, pool => pool.check_mark(path, place))
    }

    /// What opening would find and do, without changing the files. Of a pool that another process
    /// serves it is a rough picture, and the report says so.
    ///
    /// # Errors
    /// As `open`.
    pub fn dry_run<P: AsRef<Path>>(paths: &[P]) -> Result<(RecoveryReport, Stats)> {
        let options = RuntimeOptions::default();
        match Pool::look_at_ssd(paths, options)? {
            Some(pool) => Ok((pool.recovery_report().clone(), pool.stats())),
            None => MemoryPool::dry_run(paths),
        }
    }
}

fn in_memory(volume: Volume) -> Result<crate::api::volume::MemoryVolume> {
    let named = format!("{volume:?} is not attached to this pool");
    let found = volume.into_memory();
    found.ok_or_else(|| ErrorKind::Volume(named).into())
}

fn on_ssd(volume: &Volume) -> Result<&crate::ssd::SsdVolume> {
    let found = volume.ssd();
    found
        .ok_or_else(|| ErrorKind::Volume(format!("{volume:?} is not attached to this pool")).into())
}
