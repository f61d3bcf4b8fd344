//! The buffer as a whole: its pool, the inodes it knows, its opening and closing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use forebay::internals::is_ssd_pool;
use forebay::{
    Backing, Counters, FileBackingOptions, MarkPlace, Pool, Region, RuntimeOptions, Stats, Volume,
};
use forebay_pmem::{Opening, open_own};

use crate::content::Suspender;
use crate::cuts::{self, SIDE_BYTES};
use crate::errors::{from_pool, told};
use crate::facts::FileFacts;
use crate::file::BufferedFile;
use crate::identity::FileIdentity;
use crate::lasting;
use crate::marks::mark_place;
use crate::metadata::{FileIds, LOG, MetadataArea};
use crate::mutants::{Mutant, mutated};
use crate::names::{
    KeepDescriptor, Names, RealNames, RealRecovery, RealSpace, checkpoint_in_background, link_of,
};
use crate::options::FileBufferOptions;
use crate::recovery::{FilesRecovery, Recovery};
use crate::registry::Registry;
use crate::segments::SegmentTable;
use crate::shared::Shared;
use crate::sizes::SizeTable;
use crate::store::VirtualStore;

/// Volumes of this name's kind are pools of files; the root directory follows, if there is one.
pub const VOLUME_PREFIX: &str = "files:";
/// More unsynced bytes of one file than this are not worth the pool.
const ABSORBED_BYTES_MAX: u64 = 16 << 20;
/// After so many bytes without a sync, a file is not worth the pool.
pub(crate) const COLD_AFTER_BYTES: u64 = 8 << 20;
/// A log needs room for the longest record several times over.
const LOG_BYTES_MIN: u64 = 128 << 10;
/// Closed files that are kept, with a descriptor each: a daemon has many, any other program few.
const CLOSED_MAX: usize = 1024;
const CLOSED_MAX_WITHOUT_ROOT: usize = 64;

/// What the pool is opened from.
pub(crate) enum PoolSource {
    /// The members of a pool in memory.
    Regions(Vec<Region>),
    /// It is open.
    Open(Box<Pool>),
}

impl PoolSource {
    fn open(self, runtime: RuntimeOptions) -> forebay::Result<Pool> {
        match self {
            PoolSource::Regions(regions) => Pool::open_on(regions, runtime),
            PoolSource::Open(pool) => Ok(*pool),
        }
    }

    /// What errors call it, and beside what lost data is saved.
    fn path(&self) -> PathBuf {
        match self {
            PoolSource::Regions(regions) => regions
                .first()
                .map(|region| region.path().to_owned())
                .unwrap_or_default(),
            PoolSource::Open(pool) => pool
                .members()
                .first()
                .and_then(|member| member.path.clone())
                .unwrap_or_default(),
        }
    }
}

/// What a buffer stands on: [`FileBuffer::open`] makes it from the options, checkers bring their own.
pub struct FileBufferParts {
    pub(crate) pool: PoolSource,
    pub(crate) side: Backing,
    pub(crate) mark: Option<Box<dyn MarkPlace>>,
    pub(crate) root: Option<PathBuf>,
    pub(crate) runtime: RuntimeOptions,
    pub(crate) log_bytes: u64,
    pub(crate) cold_after_bytes: u64,
}

impl FileBufferParts {
    /// The pool's members, and where the metadata goes that the pool has no room for: at least [`SIDE_BYTES`]
    /// bytes.
    #[must_use]
    pub fn new(regions: Vec<Region>, side: Backing) -> FileBufferParts {
        FileBufferParts::of(PoolSource::Regions(regions), side)
    }

    /// The same of a pool that is open: it runs no threads yet, and does not keep what is read.
    #[must_use]
    pub fn over(pool: Pool, side: Backing) -> FileBufferParts {
        FileBufferParts::of(PoolSource::Open(Box::new(pool)), side)
    }

    pub(crate) fn of(pool: PoolSource, side: Backing) -> FileBufferParts {
        FileBufferParts {
            pool,
            side,
            mark: None,
            root: None,
            runtime: RuntimeOptions::default(),
            log_bytes: LOG.end - LOG.start,
            cold_after_bytes: COLD_AFTER_BYTES,
        }
    }
    /// After so many bytes without a sync a file is cold, fewer than without, so that it is soon.
    #[must_use]
    pub fn cold_after_bytes(mut self, bytes: u64) -> FileBufferParts {
        self.cold_after_bytes = bytes.min(self.cold_after_bytes);
        self
    }
    /// Where the files' mark lies. Without one a lost pool goes unnoticed.
    #[must_use]
    pub fn mark(mut self, mark: Box<dyn MarkPlace>) -> FileBufferParts {
        self.mark = Some(mark);
        self
    }
    /// As [`FileBufferOptions::root`].
    #[must_use]
    pub fn root(mut self, root: impl AsRef<Path>) -> FileBufferParts {
        self.root = Some(root.as_ref().to_path_buf());
        self
    }
    /// How long the log of names and attributes is, so that it is full soon: at most as long as without, and 128 KiB at least.
    #[must_use]
    pub fn log_bytes(mut self, bytes: u64) -> FileBufferParts {
        self.log_bytes = bytes.clamp(LOG_BYTES_MIN, self.log_bytes);
        self
    }
    /// As [`FileBufferOptions::runtime`].
    #[must_use]
    pub fn runtime(mut self, runtime: RuntimeOptions) -> FileBufferParts {
        self.runtime = runtime;
        self
    }
}

/// How a pool of files is opened.
fn alone(runtime: RuntimeOptions) -> RuntimeOptions {
    runtime
        // What is read once is in the page cache.
        .fill_on_read(false)
        // Recovery is alone: what it gives up, no other round may take for durable.
        .background(false)
}

/// An open pool with the files that it answers for.
#[derive(Debug)]
pub struct FileBuffer {
    /// Records changes of names.
    names: Arc<RealNames>,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    recovery: FilesRecovery,
    /// The end says that the files are whole.
    is_marked_each_time: bool,
    pool: Mutex<Option<Pool>>,
}

impl FileBuffer {
    /// Opens the pool, brings the backing to the acknowledged state, and is ready.
    ///
    /// # Errors
    /// The pool is no pool, in use, or of another directory; the backing failed.
    pub fn open(options: &FileBufferOptions) -> io::Result<Arc<FileBuffer>> {
        // First of all, so that a pool that another process has is said to be in use.
        let pool = match is_ssd_pool(&options.pool) {
            true => {
                let pool = Pool::open_with(&[&options.pool], alone(options.runtime.clone()));
                PoolSource::Open(Box::new(pool.map_err(told)?))
            }
            false => {
                let region = Region::open(&options.pool, options.runtime.region_options());
                PoolSource::Regions(vec![region.map_err(|error| told(error.into()))?])
            }
        };
        let trusts_owner = options.runtime.region_options().trusts_owner();
        let side = open_side(&options.pool, trusts_owner)?;
        FileBuffer::open_on(FileBufferParts {
            mark: Some(mark_place(options)?),
            root: options.root.clone(),
            runtime: options.runtime.clone(),
            ..FileBufferParts::of(pool, side)
        })
    }

    /// As [`FileBuffer::open`], over what is open already.
    ///
    /// # Errors
    /// As [`FileBuffer::open`].
    pub fn open_on(parts: FileBufferParts) -> io::Result<Arc<FileBuffer>> {
        let path = parts.pool.path();
        let has_background = parts.runtime.has_background();
        let runtime = alone(parts.runtime);
        let lost_and_found = runtime.accepts_loss().then(|| path.clone());
        let mut pool = parts.pool.open(runtime).map_err(told)?;
        let name = volume_name(parts.root.as_deref())?;
        let is_marked_each_time = parts
            .mark
            .as_ref()
            .is_some_and(|mark| !mark.is_kept_for_a_boot());
        let beside = (parts.side, parts.mark);
        let (store, volume) = attach(&pool, &path, beside, name)?;
        let ids = FileIds::open(&volume)?;
        let (sizes, rows) = SizeTable::open(&volume)?;
        let (segments, owned) = SegmentTable::open(&volume)?;
        let names = open_names(&volume, ids, parts.root.as_deref(), parts.log_bytes)?;
        let mut names_recovery = RealRecovery::new(&names);
        let mut recovery = Recovery {
            volume: &volume,
            store: &store,
            sizes: &sizes,
            segments: &segments,
            rows,
            owned,
            lost_and_found,
        }
        .run(&mut names_recovery)?;
        if let Some(reconciled) = names_recovery.into_reconciled() {
            recovery.names_changed = reconciled.changes;
            recovery.names_made = reconciled.made;
            recovery.complaints = reconciled.complaints;
            recovery.attributes_left = reconciled.attributes_left;
        }
        let absorbed_bytes_max = (pool_bytes(&pool) / 8).min(ABSORBED_BYTES_MAX);
        let closed_max = match parts.root {
            Some(_) => CLOSED_MAX,
            None => CLOSED_MAX_WITHOUT_ROOT,
        };
        if has_background {
            pool.start_background().map_err(told)?;
            checkpoint_in_background(&names)?;
        }
        Ok(Arc::new(FileBuffer {
            shared: Arc::new(Shared {
                volume,
                store,
                sizes,
                segments,
                naming: Box::new(names.clone()),
                absorbed_bytes_max,
                cold_after_bytes: parts.cold_after_bytes,
            }),
            names,
            registry: Arc::new(Registry::new(closed_max)),
            recovery,
            is_marked_each_time,
            pool: Mutex::new(Some(pool)),
        }))
    }

    /// The file of an open descriptor, which must be readable, and writable if it is to be written.
    /// One inode gives one [`BufferedFile`], whichever descriptor it came by.
    ///
    /// # Errors
    /// The descriptor cannot be looked at, or is no regular file.
    pub fn adopt(self: &Arc<Self>, descriptor: OwnedFd) -> io::Result<Arc<BufferedFile>> {
        self.registry.adopt(&self.shared, descriptor)
    }

    /// The file with this identity, if it is open here or has data in the pool.
    pub fn known(&self, identity: FileIdentity) -> Option<Arc<BufferedFile>> {
        self.registry.known(identity)
    }

    /// What `stat` is to say of a file where the backing's own is not right.
    ///
    /// # Errors
    /// The backing's own.
    pub fn facts(&self, identity: FileIdentity) -> io::Result<Option<FileFacts>> {
        let Some(content) = self.registry.content(identity) else {
            return Ok(None);
        };
        content.facts().map(Some)
    }

    /// What this buffer knows of files.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// From now on every descriptor that stays open for as long as the buffer goes through `keep`, which
    /// may give it another number; those that are open go through it now. Not those that opening made.
    ///
    /// # Errors
    /// `keep`'s.
    pub fn keep_descriptors_by(&self, keep: KeepDescriptor) -> io::Result<()> {
        self.names.keep_descriptors_by(keep)
    }

    /// As `syncfs`: everything written so far is in the backing and durable there.
    ///
    /// # Errors
    /// The backing's own.
    pub fn sync_backing(&self) -> io::Result<()> {
        each(&self.registry.contents(), |content| content.drain())?;
        // Names that are durable in the backing need no record.
        self.names.checkpoint()
    }

    /// Makes durable what the pool has of all files, by one flush of an SSD at most: what a `sync` of the system cannot reach.
    ///
    /// # Errors
    /// The pool's.
    pub fn sync_pool(&self) -> io::Result<()> {
        self.shared.volume.sync().map_err(from_pool)
    }

    /// Every name so far survives a crash.
    pub(crate) fn sync_names(&self) -> io::Result<()> {
        match mutated(Mutant::FilesDirectorySyncWithoutPool) {
            true => Ok(()),
            false => self.shared.sync_names(),
        }
    }

    /// Drains everything and closes the pool. Files that are still open pass through from now on.
    ///
    /// # Errors
    /// The backing's own; what could not be drained is still in the pool.
    pub fn close(&self) -> io::Result<()> {
        let drained = each(&self.registry.end(), |content| {
            content.suspend(Suspender::End)
        });
        // What people do to the directory from now on is not to be undone by the next open.
        let drained = drained.and_then(|()| match mutated(Mutant::FilesWholeBeforeNames) {
            true => Ok(()),
            false => self.names.end(),
        });
        let drained = drained.and_then(|()| match self.is_marked_each_time {
            // Nothing is dirty then but what is about files; the mark says whole of a clean pool.
            true => self.shared.volume.flush().map_err(from_pool),
            false => Ok(()),
        });
        let pool = self
            .pool
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let closed = pool.map_or(Ok(()), |pool| pool.close().map_err(told));
        drained.and(closed)
    }

    /// Where changes of names are recorded.
    pub(crate) fn names(&self) -> &RealNames {
        &self.names
    }

    /// The same, as the data of files knows them.
    pub(crate) fn shared_names(&self) -> &Arc<RealNames> {
        &self.names
    }

    /// What opening found to be done.
    pub fn recovery(&self) -> &FilesRecovery {
        &self.recovery
    }

    /// What the pool persisted so far: lines, fences, bytes. Zero once the buffer is closed.
    pub fn counters(&self) -> Counters {
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.as_ref().map(Pool::counters).unwrap_or_default()
    }

    /// How often the pool made something durable: by a fence, or by a group of one on an SSD. Zero once the buffer is closed.
    pub fn persists(&self) -> u64 {
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.as_ref().map_or(0, |pool| match pool.is_ssd() {
            true => pool.stats().ssd.map_or(0, |ssd| ssd.groups),
            false => pool.counters().fences,
        })
    }

    /// Does what the pool's background threads would, once: for a caller that runs it without.
    ///
    /// # Errors
    /// The backing's or the pool's.
    pub fn work_once(&self) -> io::Result<()> {
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pool) = &*pool else {
            return Ok(());
        };
        pool.write_back_once().map_err(from_pool)?;
        pool.reclaim_once(usize::MAX).map_err(from_pool)?;
        if self.names.wants_checkpoint() {
            self.names.checkpoint()?;
        }
        Ok(())
    }

    /// Begins a new log of names and attributes, as a thread in the background does now and then.
    ///
    /// # Errors
    /// The backing's or the pool's; the old log goes on then.
    pub fn begin_new_log(&self) -> io::Result<()> {
        self.names.checkpoint()
    }

    /// The pool's statistics, until the buffer is closed.
    pub fn stats(&self) -> Option<Stats> {
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.as_ref().map(Pool::stats)
    }
}

impl Drop for FileBuffer {
    fn drop(&mut self) {
        // Contents know what they share, which must not keep the pool open.
        self.registry.forget_all();
    }
}

/// Does it for all, whatever becomes of each; returns the first error.
fn each<T>(all: &[T], act: impl FnMut(&T) -> io::Result<()>) -> io::Result<()> {
    let results: Vec<io::Result<()>> = all.iter().map(act).collect();
    results.into_iter().collect()
}

/// The names below the root, or below the root of all.
fn open_names(
    volume: &Volume,
    ids: FileIds,
    root: Option<&Path>,
    log_bytes: u64,
) -> io::Result<Arc<RealNames>> {
    let directory = std::fs::File::open(root.unwrap_or(Path::new("/")))?;
    let area = Arc::new(MetadataArea::new(volume, LOG.start..LOG.start + log_bytes));
    let draw = Box::new(move || ids.draw());
    let names = Names::open(area, RealSpace::new(directory.into()), draw)?;
    Ok(Arc::new(names))
}

/// Bytes of data that the pool can hold.
fn pool_bytes(pool: &Pool) -> u64 {
    let stats = pool.stats();
    stats.slots * u64::from(stats.block_bytes)
}

/// What the pool's table calls the volume of files below this directory.
fn volume_name(root: Option<&Path>) -> io::Result<PathBuf> {
    let mut name = OsString::from(VOLUME_PREFIX);
    if let Some(root) = root {
        name.push(root.canonicalize()?);
    }
    Ok(name.into())
}

/// What a volume belongs to, in words.
fn owner_called(name: &Path) -> String {
    let root = name.as_os_str().as_bytes();
    match root.strip_prefix(VOLUME_PREFIX.as_bytes()) {
        Some(b"") => String::from("programs that forebay run starts"),
        Some(root) => format!("the mount of {}", OsStr::from_bytes(root).display()),
        None => format!("the disk of {}", name.display()),
    }
}

/// The file beside the pool; made if it is not there.
fn open_side(pool: &Path, trust_owner: bool) -> io::Result<Backing> {
    let mut path = std::path::absolute(pool)?.into_os_string();
    path.push(".files");
    lasting::check_lasts(pool, Path::new(&path))?;
    let file = open_own(Path::new(&path), Opening::WriteOrMake, trust_owner)
        .map_err(|error| told(error.into()))?;
    if file.metadata()?.len() < SIDE_BYTES {
        file.set_len(SIDE_BYTES)?;
        file.sync_all()?;
    }
    let plain = FileBackingOptions::default().direct(false).io_uring(false);
    // By what is open: the name may be another's by now.
    let link = link_of(file.as_fd());
    Backing::file_with(Path::new(&link), plain).map_err(io::Error::other)
}

/// Attaches the one volume of a pool of files, after a look at whose pool and whose side file it is.
fn attach(
    pool: &Pool,
    path: &Path,
    (side, mark): (Backing, Option<Box<dyn MarkPlace>>),
    name: PathBuf,
) -> io::Result<(Arc<VirtualStore>, Volume)> {
    let refuse = |found: String| Err(io::Error::new(io::ErrorKind::InvalidData, found));
    let known = pool.volumes();
    let stats = pool.stats();
    if let Some(other) = stats.volumes.iter().find(|volume| volume.path != name) {
        return refuse(format!(
            "{}: the pool belongs to {}, not to {}; use another pool, or detach that first",
            path.display(),
            owner_called(&other.path),
            owner_called(&name)
        ));
    }
    if let Some(mark) = &mark
        && !mutated(Mutant::FilesSideTakenUnchecked)
    {
        // Before the file beside is made this pool's: a lost pool may come back to it.
        pool.check_mark(&name, &**mark).map_err(told)?;
    }
    cuts::forget_cached(&side)?;
    let owner = cuts::read_owner(&side)?;
    let is_ours = owner == pool.uuid();
    if !is_ours && !known.is_empty() {
        return refuse(format!(
            "{}: the file beside the pool (its name with .files) is another pool's, or new, but this \
             pool has files; bring its own back",
            path.display()
        ));
    }
    if !is_ours {
        // A pool without files has no metadata: what is there was an earlier pool's of this name.
        side.zero_range(0, SIDE_BYTES)?;
        cuts::write_owner(&side, &pool.uuid())?;
    }
    let block_bytes = stats.block_bytes as usize;
    let store = Arc::new(VirtualStore::new(name, side, mark, block_bytes)?);
    let volume = pool
        .attach(Backing::from_store(store.clone()))
        .map_err(told)?;
    Ok((store, volume))
}
