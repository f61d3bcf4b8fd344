//! A region: persistent memory with the operations that make bytes durable.

mod access;
mod dram;
mod drill;
mod page_sync;
mod pair;
mod xor;

pub use access::Line;

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use crate::arch::{self, FlushKind, Kernel};
use crate::counters::ShardedCounters;
use crate::emulation::Delays;
use crate::map::{self, Mapping};
use crate::media_errors::Guard;
use crate::shadow::{Shadow, ShadowModel};
use crate::{Counters, MediaKind, PersistenceDomain, PmemError, PmemErrorKind, RegionOptions};
use dram::Dram;
use page_sync::PageSync;

/// Where the bytes are.
enum Backing {
    /// A shared mapping: stores reach the medium.
    Shared(Mapping),
    /// A private mapping: stores stay in this process.
    Private(Mapping),
    /// A model of a medium, and its bytes.
    Shadow(Arc<Shadow>),
    /// Memory that nothing makes durable.
    Dram(Dram),
}

/// A stretch of persistent memory. Offsets are in bytes from its start; an access beyond its end
/// panics.
///
/// Any number of threads may use it at once. A load that races with a store sees old and new
/// bytes mixed, in pieces no smaller than aligned 8-byte words.
pub struct Region {
    base: *mut u8,
    len: u64,
    /// Shadow, page domain or emulated delays: whatever costs more than one branch.
    is_special: bool,
    has_wide_atomics: bool,
    /// Loads of 16 bytes are one instruction and nothing else: no shadow.
    has_plain_loads: bool,
    /// So are stores: nothing special either.
    has_plain_stores: bool,
    domain: PersistenceDomain,
    flush_kind: FlushKind,
    is_poisoned: AtomicBool,
    counters: ShardedCounters,
    delays: Option<Delays>,
    page_sync: PageSync,
    kind: MediaKind,
    path: PathBuf,
    is_open_elsewhere: bool,
    // Before the backing, so that it is dropped before the mapping goes away.
    media_errors: Guard,
    backing: Backing,
}

// SAFETY: the pointer is into the backing, which is Send and lives as long as the region.
#[allow(unsafe_code, reason = "the base pointer hides that a region is Send")]
unsafe impl Send for Region {}
// SAFETY: the backing is Sync, and every access through the pointer bears races.
#[allow(unsafe_code, reason = "the base pointer hides that a region is Sync")]
unsafe impl Sync for Region {}

impl Region {
    /// Creates the file (mode 0600), reserves all of its `len` bytes, locks and maps it. The bytes
    /// are zero.
    ///
    /// # Errors
    /// The file exists; the file system has no room; the system refuses. Nothing is left behind.
    pub fn create(path: &Path, len: u64, options: &RegionOptions) -> Result<Region, PmemError> {
        check_kernel(path)?;
        let mapping = map::create(path, len, options)?;
        Region::shared(path, mapping, options)
    }

    /// Opens, locks and maps a file or a DAX device.
    ///
    /// # Errors
    /// It is not there, locked by another process, too small, or of the wrong kind.
    pub fn open(path: &Path, options: &RegionOptions) -> Result<Region, PmemError> {
        check_kernel(path)?;
        let mapping = map::open(path, options)?;
        Region::shared(path, mapping, options)
    }

    /// A private view of a file: stores stay in this process, fences have nothing to do. It opens
    /// although another process may have the region open and be changing it;
    /// [`Region::is_open_elsewhere`] tells.
    ///
    /// # Errors
    /// As for [`Region::open`]; DAX devices have no private views.
    pub fn open_read_only(path: &Path) -> Result<Region, PmemError> {
        Region::open_read_only_with(path, &RegionOptions::default())
    }

    /// As [`Region::open_read_only`]; of the options only `trust_owner` counts.
    ///
    /// # Errors
    /// As said there.
    pub fn open_read_only_with(path: &Path, options: &RegionOptions) -> Result<Region, PmemError> {
        check_kernel(path)?;
        let (mapping, is_quiet) = map::open_private(path, options.trust_owner)?;
        let mut region = Region::new(
            path,
            Backing::Private(mapping),
            PersistenceDomain::Adr,
            &RegionOptions::default(),
        )?;
        region.is_open_elsewhere = !is_quiet;
        Ok(region)
    }

    /// A model of persistent memory, all zero, for enumerating crash images.
    pub fn shadow(len: u64) -> Region {
        Region::on_shadow(Arc::new(Shadow::new(len, ShadowModel::Lines)))
    }

    /// Such a model that holds `image`.
    pub fn shadow_from(image: &[u8]) -> Region {
        Region::on_shadow(Arc::new(Shadow::from_image(image, ShadowModel::Lines)))
    }

    /// A model of a plain file behind the page cache, all zero.
    pub fn shadow_page(len: u64) -> Region {
        Region::on_shadow(Arc::new(Shadow::new(len, ShadowModel::Pages)))
    }

    /// Such a model that holds `image`.
    pub fn shadow_page_from(image: &[u8]) -> Region {
        Region::on_shadow(Arc::new(Shadow::from_image(image, ShadowModel::Pages)))
    }

    /// A region over a model that the caller keeps a hand on: to crash it, or to watch it.
    ///
    /// # Panics
    /// The environment names a kernel that the processor lacks.
    pub fn on_shadow(shadow: Arc<Shadow>) -> Region {
        let domain = match shadow.model() {
            ShadowModel::Lines => PersistenceDomain::Adr,
            ShadowModel::Pages => PersistenceDomain::Page,
        };
        let path = Path::new("(shadow)");
        check_kernel(path)
            .and_then(|()| {
                let backing = Backing::Shadow(shadow);
                Region::new(path, backing, domain, &RegionOptions::default())
            })
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Memory of this process alone, all zero, of which nothing is left when the process ends: for what it
    /// keeps of the medium `beside` while it runs. Beside a model this is a model as well, so that a checker's
    /// threads stop before its loads and stores, too. Flushes and fences have nothing to do.
    ///
    /// # Errors
    /// There is no memory for so many bytes.
    pub fn in_dram(len: u64, beside: &Region) -> Result<Region, PmemError> {
        let path = beside.path();
        let backing = match beside.shadow_state() {
            Some(_) => Backing::Shadow(Arc::new(Shadow::new(len, ShadowModel::Lines))),
            None => Backing::Dram(
                Dram::new(len).map_err(|error| PmemError::io("keep a table of it", path, error))?,
            ),
        };
        let domain = PersistenceDomain::Eadr;
        Region::new(path, backing, domain, &RegionOptions::default())
    }

    fn shared(path: &Path, mapping: Mapping, options: &RegionOptions) -> Result<Region, PmemError> {
        let detected = match mapping.kind() {
            MediaKind::PlainFile => PersistenceDomain::Page,
            _ => PersistenceDomain::Adr,
        };
        let domain = options.domain.unwrap_or(detected);
        if mapping.kind() == MediaKind::DevDax && domain == PersistenceDomain::Page {
            return Err(PmemError::new(
                PmemErrorKind::Unsupported(
                    "a DAX device has no pages to sync; do not force the page domain",
                ),
                path,
            ));
        }
        Region::new(path, Backing::Shared(mapping), domain, options)
    }

    fn new(
        path: &Path,
        backing: Backing,
        domain: PersistenceDomain,
        options: &RegionOptions,
    ) -> Result<Region, PmemError> {
        let (base, len, kind, media_errors) = match &backing {
            Backing::Shared(mapping) | Backing::Private(mapping) => {
                let guard = Guard::new(mapping.start(), mapping.len()).ok_or_else(|| {
                    PmemError::new(
                        PmemErrorKind::Unsupported(
                            "too many regions are open in this process; close some",
                        ),
                        path,
                    )
                })?;
                let len = mapping.len() as u64;
                (mapping.start(), len, mapping.kind(), guard)
            }
            Backing::Shadow(shadow) => {
                shadow.map_anew();
                let guard = Guard::without_signals();
                (shadow.view_ptr(), shadow.len(), MediaKind::Shadow, guard)
            }
            Backing::Dram(dram) => {
                let guard = Guard::without_signals();
                (dram.start(), dram.len(), MediaKind::Shm, guard)
            }
        };
        let delays = Delays::new(options.media);
        let is_shadow = matches!(backing, Backing::Shadow(_));
        let is_special = is_shadow || domain == PersistenceDomain::Page || delays.is_some();
        Ok(Region {
            base,
            len,
            is_special,
            has_plain_stores: arch::has_wide_atomics() && !is_special,
            has_wide_atomics: arch::has_wide_atomics(),
            has_plain_loads: arch::has_wide_atomics() && !is_shadow,
            domain,
            flush_kind: arch::detect_flush_kind(),
            is_poisoned: AtomicBool::new(false),
            counters: ShardedCounters::new(),
            delays,
            page_sync: PageSync::default(),
            kind,
            path: path.to_owned(),
            is_open_elsewhere: false,
            media_errors,
            backing,
        })
    }

    /// Bytes of the region.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes, which no region on a medium can be.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte, for system calls that take addresses and for comparisons. What is read
    /// through it races with stores.
    pub fn as_ptr(&self) -> *const u8 {
        self.base
    }

    /// The file or device it was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file or device beneath a shared mapping, for leases, evidence and further mappings of the same
    /// open file; none for models and memory.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.backing {
            Backing::Shared(mapping) => Some(mapping.file().as_fd()),
            Backing::Private(_) | Backing::Shadow(_) | Backing::Dram(_) => None,
        }
    }

    /// Says that bytes were stored through another mapping of the file, so that the next fence does not believe an
    /// earlier sync to have covered them.
    pub fn note_foreign_stores(&self) {
        self.page_sync.note_store();
    }

    /// What makes its bytes durable.
    pub fn domain(&self) -> PersistenceDomain {
        self.domain
    }

    /// What it is mapped from.
    pub fn kind(&self) -> MediaKind {
        self.kind
    }

    /// Whether 16-byte loads and stores are seen whole by other threads; every processor with AVX
    /// or LSE2 has that.
    pub fn has_atomic_u128(&self) -> bool {
        self.has_wide_atomics
    }

    /// Whether stores stay in this process ([`Region::open_read_only`]).
    pub fn is_private(&self) -> bool {
        matches!(self.backing, Backing::Private(_))
    }

    /// Whether another process had the file open when this private view of it was made.
    pub fn is_open_elsewhere(&self) -> bool {
        self.is_open_elsewhere
    }

    /// The model behind a shadow region.
    pub fn shadow_state(&self) -> Option<&Shadow> {
        match &self.backing {
            Backing::Shadow(shadow) => Some(shadow),
            Backing::Shared(_) | Backing::Private(_) | Backing::Dram(_) => None,
        }
    }

    /// Says that bytes will be read soon. A plain file is mapped for single pages, so a caller
    /// about to read much of it says so; elsewhere, and where the kernel declines, nothing happens.
    pub fn read_ahead(&self, bytes: Range<u64>) {
        match &self.backing {
            Backing::Shared(mapping) | Backing::Private(mapping) => mapping.read_ahead(bytes),
            Backing::Shadow(_) | Backing::Dram(_) => {}
        }
    }

    /// Has a plain file's pages mapped at once, for reads or for stores, so that they are not faulted on
    /// one by one. Those mapped for stores are written by the next fence.
    pub fn populate(&self, bytes: Range<u64>, for_stores: bool) {
        match &self.backing {
            Backing::Shared(mapping) | Backing::Private(mapping) => {
                mapping.populate(bytes, for_stores);
            }
            Backing::Shadow(_) | Backing::Dram(_) => {}
        }
    }

    /// What all threads have persisted here.
    pub fn counters(&self) -> Counters {
        self.counters.sum()
    }

    /// Makes all later fences fail: something is known to be lost.
    pub fn poison(&self) {
        self.is_poisoned.store(true, Ordering::Release);
    }

    /// Gives the medium back while others may still hold the region: its file is unlocked, later fences
    /// fail, and what is loaded counts as lost to a media error. Nothing that is stored from now on reaches
    /// the medium. The memory stays mapped. Of a model only the fences fail.
    ///
    /// # Errors
    /// The system's; the file is then locked until the region is dropped.
    pub fn retire(&self) -> Result<(), PmemError> {
        self.poison();
        match &self.backing {
            Backing::Shared(mapping) | Backing::Private(mapping) => {
                // Before the bytes go: a thread that finds them gone asks this next.
                self.media_errors.errors().lose_all();
                mapping
                    .retire()
                    .map_err(|error| PmemError::io("give it back", &self.path, error))
            }
            Backing::Shadow(_) | Backing::Dram(_) => Ok(()),
        }
    }

    /// Whether a fence has failed or [`Region::poison`] was called.
    pub fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Acquire)
    }

    /// Offsets of the pages (4096 bytes) on which the medium failed since the region was opened,
    /// ascending; the first 64 of them. They read as zeroes and keep nothing.
    pub fn media_errors(&self) -> Vec<u64> {
        self.media_errors.errors().pages()
    }

    /// Whether the medium failed on any of these bytes. Ask after reading, before trusting.
    #[inline]
    pub fn has_media_error(&self, offset: u64, len: usize) -> bool {
        // What the caller has read comes before the look at what was lost, also on processors that
        // load out of order.
        fence(Ordering::Acquire);
        let errors = self.media_errors.errors();
        !errors.is_empty() && errors.overlap(offset, len)
    }

    /// Offsets, ascending, of the pages on which the medium failed and that were not acknowledged; `None` if it failed on more than
    /// can be named.
    pub fn unacknowledged_media_errors(&self) -> Option<Vec<u64>> {
        self.media_errors.errors().unacknowledged()
    }

    /// Says that the owner of the region knows of these pages, and rests nothing on them: they fail no fence from now
    /// on. What is stored to them goes nowhere, and [`Region::has_media_error`] goes on saying so.
    pub fn acknowledge_media_errors(&self, pages: &[u64]) {
        self.media_errors.errors().acknowledge(pages);
    }

    /// That the medium failed under an access, which fails fences until the page is acknowledged; `None` if it did not.
    pub fn media_failure(&self) -> Option<PmemError> {
        let known = self.media_errors.errors();
        (!known.is_empty()).then(|| self.failure(known.pages().first().copied()))
    }

    #[inline]
    fn check_failures(&self) -> Result<(), PmemError> {
        if self.is_poisoned() || !self.media_errors.errors().is_empty() {
            return self.check_failures_beside(&[]);
        }
        Ok(())
    }

    /// The same, but for the medium's failure on pages that were acknowledged, or are these.
    #[cold]
    fn check_failures_beside(&self, pages: &[u64]) -> Result<(), PmemError> {
        let Some(new) = self.unacknowledged_media_errors() else {
            return Err(self.failure(self.media_errors().first().copied()));
        };
        match new.into_iter().find(|page| !pages.contains(page)) {
            None if !self.is_poisoned() => Ok(()),
            page => Err(self.failure(page)),
        }
    }

    #[cold]
    fn failure(&self, offset: Option<u64>) -> PmemError {
        let kind = match offset {
            Some(offset) => PmemErrorKind::Media { offset },
            None => PmemErrorKind::Poisoned,
        };
        PmemError::new(kind, &self.path)
    }
}

/// What the environment asks of the kernels is done, or nothing is.
fn check_kernel(path: &Path) -> Result<(), PmemError> {
    let chosen = Kernel::chosen().map_err(|error| {
        let source = io::Error::new(io::ErrorKind::InvalidInput, error);
        PmemError::with_source(PmemErrorKind::Kernel, path, source)
    });
    chosen.map(|_| ())
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("path", &self.path)
            .field("len", &self.len)
            .field("kind", &self.kind)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}
