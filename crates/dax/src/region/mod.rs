//! A region that this process has open.

#![allow(
    unsafe_code,
    reason = "what a region maps is memory outside Rust's own"
)]

mod create;
mod keep;
mod lease;
mod mapping;
mod open;
mod persist;
mod since;
mod watched;
mod worker;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use forebay_pmem::Counters;

use crate::engine::{Engine, FirstPass, QuietTracker};
use crate::error::{ErrorKind, Result};
use crate::format::{Mark, PAGE_BYTES};
use crate::medium::{Part, check_size};
use crate::options::{CreateOptions, OpenOptions};
use crate::pool::DaxPool;
use crate::recover::{self, Permissions};
use crate::repeating::Repeating;
use crate::report::{Created, Sealed, Status, Verified};
use crate::track::{CompareTracker, Tracker};
pub(crate) use keep::{Kept, keep, mark_wanted};
use lease::Leases;
pub(crate) use lease::{KeptLeases, Places};
use mapping::Mapping;
use open::{LOCK_TRIES, PoolFiles, find, open_region};
use since::Since;

const PERIODS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(30);

/// A region that this process has open and mapped.
///
/// Programs store into the bytes from [`DaxRegion::as_ptr`] on, by any means; sums and parity follow behind, in a
/// pass each period. Dropped without [`DaxRegion::close`], it stays open as if the process had been killed.
pub struct DaxRegion {
    worker: Repeating,
    // Its tracker is dropped before the mapping goes away.
    engine: Arc<Engine>,
    mapping: Mapping,
}

impl std::fmt::Debug for DaxRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = self.mapping.start();
        f.debug_struct("DaxRegion")
            .field("start", &start)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl DaxRegion {
    /// Makes a region of zeroes beside the pool's members, sealed.
    ///
    /// # Errors
    /// The name or the shape cannot be; the pool has too few members; a file is there already; there is no room.
    pub fn create(pool: &DaxPool, name: &str, options: &CreateOptions) -> Result<Created> {
        create::create(pool, name, options)
    }

    /// Opens and maps a region. One process has it open at a time. After an end without order every page is compared
    /// before this returns.
    ///
    /// # Errors
    /// There is none; another process has it; a file is missing; pages are lost; two histories; the system's.
    pub fn open(pool: &DaxPool, name: &str, options: &OpenOptions) -> Result<DaxRegion> {
        if !PERIODS.contains(&options.period) {
            return Err(ErrorKind::Invalid {
                found: format!("a period of {:?} is too short or too long", options.period),
                todo: "ask for 100 ms to 30 s",
            }
            .into());
        }
        let found = find(pool, name, LOCK_TRIES)?;
        let files = PoolFiles::new(pool, name, &found);
        let permissions = Permissions {
            without_missing: options.without_missing,
            accept_loss: options.accept_loss,
        };
        let (medium, line) = recover::open(found, pool.uuid(), name, &files, permissions)?;
        let mapping = Mapping::new(&medium)?;
        let (tracker, first) = watched::open(&medium, &mapping, options.tracker, &line)?;
        let engine = Arc::new(Engine::new(medium, line, tracker, first));
        let worker = worker::start(Arc::clone(&engine), options.period)?;
        Ok(DaxRegion {
            worker,
            engine,
            mapping,
        })
    }

    /// The first byte; aligned to 2 MiB. It must not be used after [`DaxRegion::close`].
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping.start()
    }

    /// Bytes of the region.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a region of no bytes cannot be made"
    )]
    pub fn len(&self) -> u64 {
        self.engine.medium.geometry.size_bytes
    }

    /// All bytes as words that threads share, in the machine's order. A last part that is shorter than a word is not there.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        let count = self.len() as usize / size_of::<AtomicU64>();
        // SAFETY: the mapping is aligned and good for `len` bytes while the region is open, which the borrow keeps it;
        // any bytes are a number, and what others store meanwhile is seen as by atomics.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast::<AtomicU64>(), count) }
    }

    /// Returns when what was stored to these bytes before is durable, and protected by sums and parity.
    ///
    /// # Errors
    /// The medium's; a page that never rests; damage.
    pub fn sync(&self, range: Range<u64>) -> Result<()> {
        let pages = self.pages_of(&range)?;
        self.engine.sync(&pages)
    }

    /// Compares pages that are not being written with their sums and parity, and repairs what can be.
    ///
    /// # Errors
    /// The medium's. Damage is no error but part of the answer.
    pub fn verify(&self, range: Range<u64>) -> Result<Verified> {
        let pages = self.pages_of(&range)?;
        self.engine.verify(&pages)
    }

    /// Takes a caller's word that pages are right which an end without order left in doubt, or that were lost: they are
    /// named no more. How many were.
    ///
    /// # Errors
    /// One of them is being stored to, or is damaged; the medium's.
    pub fn accept(&self, range: Range<u64>) -> Result<u64> {
        let pages = self.pages_of(&range)?;
        self.engine.accept(&pages)
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// Cache lines and fences of all its files since it was opened, exact: a fence of several files counts once.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.engine.medium.counters()
    }

    /// Ends with a last pass over every page, and seals the region. Nobody may store through its pointer any more.
    ///
    /// # Errors
    /// The medium's; damage; another program has the region mapped. It stays open then, for the next opening to
    /// compare.
    pub fn close(self) -> Result<Sealed> {
        let DaxRegion {
            worker,
            engine,
            mapping,
        } = self;
        drop(worker);
        mapping.end_stores();
        engine.pass()?;
        let openers = Since::watch(&engine.medium);
        let has_seen_all = engine.has_seen_all();
        // The worker has ended, and nobody else has it.
        let Some(engine) = Arc::into_inner(engine) else {
            unreachable!("a region's engine is shared with its worker alone");
        };
        let tracker: Box<dyn Tracker> = match has_seen_all {
            true => Box::new(QuietTracker),
            false => Box::new(CompareTracker),
        };
        let mut engine = engine.with_tracker(tracker);
        drop(mapping);
        let openers = reopen_parts(&mut engine, openers)?;
        engine.seal(&|medium| Ok(Box::new(openers.take(medium)?)))
    }

    fn pages_of(&self, range: &Range<u64>) -> Result<Range<u64>> {
        let len = self.len();
        if range.start > range.end || range.end > len {
            return Err(ErrorKind::Invalid {
                found: format!("{range:?} lies outside the region of {len} bytes"),
                todo: "name bytes of the region",
            }
            .into());
        }
        Ok(range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES))
    }
}

/// Opens the extents anew: children that inherited the mapping still have the old open files, and count as having them.
fn reopen_parts(engine: &mut Engine, openers: Since) -> Result<Since> {
    let paths: Vec<_> = engine
        .medium
        .parts
        .drain(..)
        .map(|part| part.path)
        .collect();
    let openers = openers.closed();
    for path in paths {
        let region = match open_region(&path, LOCK_TRIES) {
            Err(error) if matches!(error.kind(), ErrorKind::InUse { .. }) => {
                return Err(ErrorKind::Mapped { path }.into());
            }
            region => region?,
        };
        check_size(&region, &path, engine.medium.geometry.extent_bytes())?;
        engine.medium.parts.push(Part::new(region, path));
    }
    Ok(openers)
}

/// Seals a region that no program has open.
pub(crate) fn seal(pool: &DaxPool, name: &str) -> Result<Sealed> {
    let found = find(pool, name, LOCK_TRIES)?;
    let mut parts = found.iter().filter_map(|pair| pair.part.as_ref());
    if let Err(mapped) = parts.try_for_each(lease::check_alone) {
        // A seal from before is no authority any more: a program may store.
        recover::mark_wanted(found, pool.uuid(), name)?;
        return Err(mapped);
    }
    let files = PoolFiles::new(pool, name, &found);
    let (medium, line) = recover::open(found, pool.uuid(), name, &files, Permissions::default())?;
    debug_assert_eq!(line.mark, Mark::Open);
    let engine = Engine::new(medium, line, Box::new(CompareTracker), FirstPass::Compares);
    engine.seal(&|medium| Ok(Box::new(Leases::take(medium)?)))
}
