//! Pools: created, opened, filled with volumes, closed.

mod attach;
mod detach;
mod discard;
mod drain;
mod grow;
mod grow_volume;
mod identity;
mod marks;
mod members;
mod pace;
mod redundancy;
mod scrub;
mod settings;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use forebay_pmem::{Counters, Region};

use crate::background::{Background, Pipeline};
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::media::Media;
use crate::media::geometry::Geometry;
use crate::media::incarnation::Incarnation;
use crate::media::layout::{LINE_BYTES, SUPERBLOCK_BYTES};
use crate::media::membership::Absences;
use crate::media::salt::Salt;
use crate::media::seals::Round;
use crate::media::superblock::{self, Assembly};
use crate::media::volumes;
use crate::options::{PoolOptions, Redundancy, RuntimeOptions};
use crate::recovery::{self, Kept, Mappings, NewIncarnation, RecoveryReport};
pub(crate) use attach::{check_size, refuse_pool};
pub(crate) use drain::Drain;
pub use drain::{DrainProgress, DrainWatcher};
pub use grow::OpenBacking;
pub use members::new_region;
pub(crate) use members::remove_unlocked;
use members::{clear, member_region};
pub use redundancy::{Member, MemberState, RebuildOptions, Witness};
pub use scrub::{ScrubOptions, ScrubProgress};

/// An open pool. One process owns it; dropping it ends its threads and leaves everything dirty
/// safely in the pool.
///
/// Any threads may call its methods at once. What a method does to the pool's volumes or size is durable when
/// it returns `Ok`; settings last until the pool is closed.
pub struct MemoryPool {
    pipeline: Arc<Pipeline>,
    pool_uuid: [u8; 16],
    pub(crate) recovery: RecoveryReport,
    pub(crate) opened_at: Instant,
    attach: Mutex<()>,
    // Last, so that its threads end before the rest goes.
    background: Option<Background>,
}

impl std::fmt::Debug for MemoryPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Pool {} (incarnation {})",
            self.pipeline.engine().path().display(),
            self.pipeline.engine().log().incarnation()
        )
    }
}

impl MemoryPool {
    /// Makes a new, empty pool, durably, and opens it. Files that exist are refused without `force`.
    ///
    /// # Errors
    /// [`ErrorKind::Options`]: no such pool can be. [`ErrorKind::Refused`]: a member is there already, or
    /// in use. [`ErrorKind::Media`]: a member cannot be made or mapped, or has no space. [`ErrorKind::Thread`]: a
    /// background thread cannot be started. Files that were made for it are removed again.
    pub fn create(options: &PoolOptions) -> Result<MemoryPool> {
        let members = u32::try_from(options.paths.len()).unwrap_or(u32::MAX);
        if members == 0 {
            return Err(
                ErrorKind::Options("a pool has at least one member; name a file".into()).into(),
            );
        }
        // Plan first: a plan that fails must not leave files behind.
        options.runtime.check()?;
        Geometry::plan(&options.format, members, options.member_bytes)?;
        let mut made = Vec::new();
        let pool = options
            .paths
            .iter()
            .map(|path| member_region(path, options).inspect(|_| made.push(path)))
            .collect::<Result<Vec<Region>>>()
            .and_then(|regions| MemoryPool::create_on(regions, options))
            .and_then(|pool| match &options.runtime.witness {
                Some(path) => pool.set_witness(Some(path)).map(|()| pool),
                None => Ok(pool),
            });
        if pool.is_err() {
            // Devices stay, of course.
            for path in made.into_iter().filter(|path| path.is_file()) {
                // The caller needs the first error, not this one.
                let _ = std::fs::remove_file(path);
            }
        }
        pool
    }

    /// As `create`, over regions that are mapped already (tests use shadow regions), whatever they hold.
    ///
    /// # Errors
    /// As [`MemoryPool::create`]; the regions keep what was written to them.
    pub fn create_on(regions: Vec<Region>, options: &PoolOptions) -> Result<MemoryPool> {
        options.runtime.check()?;
        let member_bytes = regions.iter().map(Region::len).min().unwrap_or(0);
        let geometry = Geometry::plan(&options.format, regions.len() as u32, member_bytes)?;
        // First what makes a pool of it: half of what was there before is no pool.
        clear(&regions, 0..SUPERBLOCK_BYTES as u64)?;
        clear(&regions, 0..geometry.slot_area / LINE_BYTES * LINE_BYTES)?;
        let (pool_uuid, mirror) = superblock::format(&regions, &geometry, &options.format)?;
        let media = Media::new(regions, mirror, geometry, options.format.checksums);
        let strict = options.format.strict || !options.format.checksums;
        media.seal_empty_table(Round::default());
        let incarnation =
            recovery::start_incarnation(&media, pool_uuid, 1, Salt(0), 0, 0, Kept::default())?;
        let report = RecoveryReport::default();
        MemoryPool::start(
            media,
            pool_uuid,
            strict,
            incarnation,
            Vec::new(),
            report,
            options.runtime.clone(),
        )
    }

    /// As `open`, with options.
    ///
    /// # Errors
    /// As [`MemoryPool::open`]; [`ErrorKind::Options`].
    pub fn open_with<P: AsRef<Path>>(paths: &[P], options: RuntimeOptions) -> Result<MemoryPool> {
        options.check()?;
        let regions = paths
            .iter()
            .map(|path| Ok(Region::open(path.as_ref(), &options.region)?))
            .collect::<Result<Vec<_>>>()?;
        MemoryPool::open_on(regions, options)
    }

    /// As `open_with`, over regions that are mapped already.
    ///
    /// # Errors
    /// As [`MemoryPool::open_with`].
    pub fn open_on(regions: Vec<Region>, options: RuntimeOptions) -> Result<MemoryPool> {
        options.check()?;
        let absences = Absences {
            without_missing: options.without_missing,
            witness: options.witness.as_deref(),
        };
        let Assembly {
            regions,
            mirror,
            geometry,
            pool_uuid,
            strict,
            checksums,
        } = superblock::assemble(regions, absences)?;
        if let Some(mirror) = &mirror {
            mirror.store_roster(&regions, &geometry)?;
        }
        let media = Media::new(regions, mirror, geometry, checksums);
        media.read_head_ahead();
        media.find_listed_places();
        let volumes: Vec<u32> = volumes::read_attached(&media)
            .iter()
            .map(|v| v.id)
            .collect();
        let recovered =
            recovery::recover(&media, &pool_uuid, strict, &volumes, options.accept_loss)
                .inspect_err(|error| {
                    if matches!(error.kind(), ErrorKind::Damaged { .. }) {
                        // The caller needs the first error; if this fails, too, the member stays out.
                        let _ = media.call_back();
                    }
                })
                .map_err(|error| superblock::lost_rather(media.members(), error))?;
        let Incarnation {
            number,
            salt,
            checkpoint_line,
            scrub,
            ..
        } = recovered.current;
        let next = recovery::start_incarnation(
            &media,
            pool_uuid,
            number + 1,
            salt,
            recovered.last_sequence,
            checkpoint_line ^ 1,
            Kept {
                scrub,
                round: recovered.round,
            },
        )?;
        let (mappings, report) = (recovered.mappings, recovered.report);
        MemoryPool::start(media, pool_uuid, strict, next, mappings, report, options)
    }

    fn start(
        media: Media,
        pool_uuid: [u8; 16],
        strict: bool,
        incarnation: NewIncarnation,
        mappings: Mappings,
        recovery: RecoveryReport,
        options: RuntimeOptions,
    ) -> Result<MemoryPool> {
        let has_background = options.background;
        let engine = Engine::start(media, strict, incarnation, &mappings, &options)?;
        let pipeline = Arc::new(Pipeline::new(engine, options));
        let mut pool = MemoryPool {
            pipeline,
            pool_uuid,
            recovery,
            opened_at: Instant::now(),
            attach: Mutex::new(()),
            background: None,
        };
        if has_background {
            pool.start_background()?;
        }
        Ok(pool)
    }

    /// Starts the flusher and reclaimer threads of a pool that was opened without them: a caller that first
    /// has to bring order into what the pool holds does that alone.
    ///
    /// # Errors
    /// [`ErrorKind::Thread`], then and from then on: the pool is to be closed, which keeps everything.
    pub fn start_background(&mut self) -> Result<()> {
        if self.background.is_none() {
            self.pipeline.begin_background();
            self.background = Some(Background::start(&self.pipeline)?);
        }
        Ok(())
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Lines, fences and bytes persisted since the members were mapped, by all threads.
    pub fn counters(&self) -> Counters {
        self.pipeline.media().counters()
    }
    /// What recovery found when this pool was opened.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.recovery
    }
    /// The pool's identity.
    pub fn uuid(&self) -> [u8; 16] {
        self.pool_uuid
    }
    /// What the medium of the first member survives, in plain words.
    pub fn survives(&self) -> &'static str {
        self.pipeline.media().main().kind().survives()
    }
    /// How many members hold what must not be lost.
    pub fn redundancy(&self) -> Redundancy {
        self.pipeline.media().geometry.redundancy()
    }
    /// The most bytes one transaction can hold: the smaller of 4 MiB and an eighth of the pool.
    pub fn transaction_limit_bytes(&self) -> u64 {
        self.pipeline.media().geometry.transaction_limit_bytes()
    }
    /// Makes everything acknowledged durable in place and empties the log. Not needed for durability: it
    /// shortens the next recovery.
    ///
    /// # Errors
    /// [`ErrorKind::Media`]: a fence failed, and the pool takes no more writes. [`ErrorKind::Poisoned`]: one
    /// failed earlier. [`ErrorKind::Closed`].
    pub fn checkpoint(&self) -> Result<()> {
        self.pipeline.engine().checkpoint()
    }
    /// Evicts up to `wanted` clean blocks; returns how many. Background threads do this unasked.
    ///
    /// # Errors
    /// As [`MemoryPool::checkpoint`].
    pub fn reclaim_once(&self, wanted: usize) -> Result<usize> {
        self.pipeline.engine().reclaim_once(wanted)
    }
    /// Writes one batch of dirty blocks back; returns how many. Background threads do this unasked.
    ///
    /// # Errors
    /// [`ErrorKind::Backing`]: a backing failed. [`ErrorKind::Corrupt`]: a block's only copy is bad. All other
    /// blocks of the batch were written; nothing is lost that was not lost before.
    pub fn write_back_once(&self) -> Result<usize> {
        self.pipeline.write_back_once()
    }
    /// Reads every cached block and compares it with its check. `progress` is told (done, of all
    /// entries) now and then. Returns how many are good, and volume and block of the bad ones.
    pub fn check(&self, mut progress: impl FnMut(u64, u64)) -> (u64, Vec<(u32, u64)>) {
        self.pipeline.engine().check_all(&mut progress)
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
    pub fn close(mut self) -> Result<()> {
        self.background = None;
        self.pipeline.close(|| self.end_marks())
    }
}
