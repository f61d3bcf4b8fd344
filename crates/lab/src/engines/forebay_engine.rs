//! Forebay's own cache behind the trait: a pool of one member with one volume.
//!
//! The cache keeps the promises of the trait by itself; here only shapes are translated. A pool is
//! planned like any other, except that a region too small for the default log gets a shorter one.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Engine, EngineStats, EngineTransaction};
use forebay::unstable::background_turn;
use forebay::{
    Backing, ErrorKind, Pool, PoolOptions, Region, ReplacementPolicy, Result, RuntimeOptions,
    Transaction, Volume,
};

use super::{EngineName, EngineOptions};
use crate::shared::{BufferedTransaction, ChangedBlock, CommitBlocks};

/// Flusher, reclaimer and checkpointer.
const THREADS: u8 = 3;

/// How often a commit without background threads tries again for room that others are making: more
/// often than they pass points at which a checker may switch threads.
const ROOM_ATTEMPTS: u32 = 256;

/// Regions below this get a log of their own measure: the cache's least, 512 KiB, would be more than
/// 1/64 of them, its share of large ones. A longer log is checkpointed less often, for fewer lines.
const DEFAULT_LOG_REGION_BYTES_MIN: u64 = 64 << 20;
/// Lanes of such a log.
const SMALL_LANES: u32 = 2;
/// Bytes of a record's header and of the element of one block, with which a lane is measured.
const RECORD_BYTES: u64 = 64;
const ELEMENT_BYTES: u64 = 32;
/// Distance between metadata lines in regions whose blocks are smaller than a page, as in tests.
const SMALL_UNIT_BYTES: u32 = 256;
const PAGE_BYTES: u64 = 4096;

/// The engine.
pub(crate) struct ForebayEngine {
    volume: Volume,
    pool: Pool,
    backing: Backing,
    /// Further attempts at a commit that found no room.
    room_attempts: u32,
    blocks_committed: AtomicU64,
    write_hits: AtomicU64,
}

/// Makes an empty pool on `region` and attaches `backing`.
pub(crate) fn create(
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let pool_options = pool_options(region.len(), options)?;
    attach(
        Pool::create_on(vec![region], &pool_options)?,
        backing,
        options,
    )
}

/// Recovers the pool on `region` and attaches `backing`, which must be the one it had.
pub(crate) fn open(
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let path = region.path().to_path_buf();
    let pool = Pool::open_on(vec![region], runtime_of(options))?;
    let found_bytes = pool.stats().block_bytes as usize;
    if found_bytes != options.block_bytes {
        return Err(ErrorKind::Refused {
            path,
            found: format!("a pool with blocks of {found_bytes} bytes"),
            todo: format!("open it with those, not with {}", options.block_bytes),
        }
        .into());
    }
    attach(pool, backing, options)
}

fn attach(pool: Pool, backing: Backing, options: &EngineOptions) -> Result<Box<dyn Engine>> {
    let volume = pool.attach(backing.clone())?;
    Ok(Box::new(ForebayEngine {
        volume,
        pool,
        backing,
        room_attempts: if options.background { 0 } else { ROOM_ATTEMPTS },
        blocks_committed: AtomicU64::new(0),
        write_hits: AtomicU64::new(0),
    }))
}

fn pool_options(region_bytes: u64, options: &EngineOptions) -> Result<PoolOptions> {
    let block_bytes = u32::try_from(options.block_bytes)
        .map_err(|_| ErrorKind::Options(format!("blocks of {} bytes", options.block_bytes)))?;
    let pool_options = PoolOptions::default()
        .block_bytes(block_bytes)
        .volumes(1)
        .runtime(runtime_of(options));
    if region_bytes >= DEFAULT_LOG_REGION_BYTES_MIN {
        return Ok(pool_options);
    }
    let is_tiny = u64::from(block_bytes) < PAGE_BYTES;
    let unit_bytes = if is_tiny {
        SMALL_UNIT_BYTES
    } else {
        PAGE_BYTES as u32
    };
    // An eighth of the region is the largest transaction; its record may take half a lane.
    let blocks = region_bytes / 8 / u64::from(block_bytes.max(1));
    let lane_bytes = 2 * (RECORD_BYTES + (blocks + 1) * ELEMENT_BYTES);
    Ok(pool_options
        .lanes(SMALL_LANES)
        .lane_bytes(lane_bytes.next_multiple_of(u64::from(unit_bytes)))
        .unit_bytes(unit_bytes))
}

/// Without background threads a writer that finds no room writes back and evicts itself.
fn runtime_of(options: &EngineOptions) -> RuntimeOptions {
    let marks = options.cleaner.unwrap_or_default();
    RuntimeOptions::default()
        .background(options.background)
        .accept_stale(options.accept_stale)
        .fill_on_read(options.fill_on_read)
        .dirty_high_per_mille(marks.dirty_high_per_mille)
        .dirty_low_per_mille(marks.dirty_low_per_mille)
        .free_low_per_mille(marks.free_low_per_mille)
        // The papers' order, so that what is dirty differs by the room for it alone.
        .replacement(ReplacementPolicy::Lru)
}

impl ForebayEngine {
    fn count(&self, blocks: u64, hits: u64) {
        self.blocks_committed.fetch_add(blocks, Ordering::Relaxed);
        self.write_hits.fetch_add(hits, Ordering::Relaxed);
    }

    fn is_cached(&self, block: u64) -> bool {
        self.volume.is_resident(block..block + 1)
    }
}

impl Engine for ForebayEngine {
    fn name(&self) -> &'static str {
        EngineName::Forebay.as_str()
    }

    fn block_bytes(&self) -> usize {
        self.volume.block_size()
    }

    fn size_bytes(&self) -> u64 {
        self.volume.blocks() * self.block_bytes() as u64
    }

    fn transaction_blocks_max(&self) -> usize {
        self.volume.transaction_limit_bytes() as usize / self.block_bytes()
    }

    fn begin(&self) -> Box<dyn EngineTransaction + '_> {
        Box::new(BufferedTransaction::new(self))
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.volume.read(block, out)
    }

    fn write(&self, block: u64, data: &[u8]) -> Result<()> {
        let blocks = (data.len() / self.block_bytes()) as u64;
        let range = block..block.saturating_add(blocks);
        let hits = range.filter(|&block| self.is_cached(block)).count() as u64;
        self.with_room(|| self.volume.write(block, data))?;
        self.count(blocks, hits);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.volume.flush()
    }

    fn background_turn(&self) -> Result<()> {
        (0..THREADS).try_for_each(|thread| background_turn(&self.pool, thread))
    }

    fn stats(&self) -> EngineStats {
        let stats = self.pool.stats();
        EngineStats {
            slots: stats.slots,
            cached_blocks: stats.cached_blocks,
            dirty_blocks: stats.dirty_blocks,
            commits: stats.totals.commits,
            blocks_committed: self.blocks_committed.load(Ordering::Relaxed),
            write_hits: self.write_hits.load(Ordering::Relaxed),
            read_hits: stats.totals.read_hits,
            read_misses: stats.totals.read_misses,
            evictions: stats.totals.evictions,
            is_degraded: stats.degraded_volumes > 0,
            write_back_errors: stats.totals.write_back_errors,
            memory: self.pool.counters(),
            backing: self.backing.counters(),
        }
    }

    fn last_error(&self) -> Option<String> {
        let mut volumes = self.pool.stats().volumes.into_iter();
        volumes.find_map(|volume| volume.last_error)
    }
}

impl CommitBlocks for ForebayEngine {
    fn commit_blocks(&self, blocks: &[ChangedBlock]) -> Result<()> {
        let numbers = blocks.iter().map(|block| block.number);
        let hits = numbers.filter(|&block| self.is_cached(block)).count();
        self.with_room(|| {
            let mut transaction = self.volume.begin();
            for block in blocks {
                self.put(&mut transaction, block)?;
            }
            transaction.commit()
        })?;
        self.count(blocks.len() as u64, hits as u64);
        Ok(())
    }
}

impl ForebayEngine {
    /// A cached block gets its changed bytes as deltas. Any other is written whole: it would have to
    /// be read from the disk first.
    fn put(&self, transaction: &mut Transaction<'_>, block: &ChangedBlock) -> Result<()> {
        let offset = block.number * block.bytes.len() as u64;
        // The cache takes no bytes beyond the end of a disk that ends within a block.
        let is_whole = offset + block.bytes.len() as u64 <= self.volume.size_bytes();
        match &block.changed {
            Some(changed) if is_whole && self.is_cached(block.number) => {
                for range in changed {
                    let bytes = &block.bytes[range.clone()];
                    transaction.write_at(offset + range.start as u64, bytes)?;
                }
                Ok(())
            }
            _ => transaction.write(block.number, &block.bytes),
        }
    }

    /// Commits, and again where there was no room: without background threads the cache gives up as
    /// soon as it has nothing to write back or evict itself, though another thread may be at it.
    fn with_room(&self, mut commit: impl FnMut() -> Result<()>) -> Result<()> {
        for _ in 0..self.room_attempts {
            match commit() {
                Err(error) if matches!(error.kind(), ErrorKind::NoSpace { .. }) => {
                    forebay_pmem::yield_point();
                }
                done => return done,
            }
        }
        commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, TestStep};

    fn tiny() -> Rig {
        Rig::new(EngineName::Forebay, 8192, 20)
    }

    #[test]
    fn random_operations_agree_with_a_model() {
        for seed in 0..6 {
            tiny().run_against_model(600, 2, seed);
            let mut in_background = tiny();
            in_background.options.background = true;
            in_background.run_against_model(60, 2, seed);
            let mut in_pages = Rig::new(EngineName::Forebay, 1 << 20, 400);
            in_pages.options.block_bytes = 4096;
            in_pages.run_against_model(100, 20, seed);
        }
    }

    #[test]
    fn a_crash_keeps_what_was_committed() {
        let rig = tiny();
        for seed in 0..3 {
            let script = rig.random_script(12, 2, seed);
            let images = rig.crash_everywhere(&script, 2, seed).expect("no loss");
            assert!(images > 50, "{images}");
        }
    }

    #[test]
    fn a_commit_takes_one_fence_and_an_update_of_a_cached_block_few_lines() {
        let mut rig = Rig::new(EngineName::Forebay, 1 << 20, 400);
        rig.options.block_bytes = 4096;
        let (disk, mut truth) = (rig.disk(), rig.first_content());
        let (_shadow, engine) = rig.create(&disk);
        rig.act(
            &*engine,
            &TestStep::Commit(vec![(1, 1), (2, 2)]),
            &mut truth,
        );
        let mut counted = |step| {
            let before = engine.stats();
            rig.act(&*engine, &step, &mut truth);
            let after = engine.stats();
            assert_eq!(after.commits - before.commits, 1);
            (
                after.memory.lines() - before.memory.lines(),
                after.memory.fences - before.memory.fences,
                after.blocks_committed - before.blocks_committed,
                after.write_hits - before.write_hits,
            )
        };
        assert_eq!(counted(TestStep::Commit(vec![(3, 3)])), (65, 1, 1, 0));
        assert_eq!(
            counted(TestStep::Commit(vec![(3, 4), (4, 5)])),
            (130, 1, 2, 1)
        );
        assert_eq!(counted(TestStep::Update(3, 6)), (1, 1, 1, 1));
        assert_eq!(
            engine.stats().backing.reads,
            0,
            "nothing was read for an update"
        );
        assert_eq!(counted(TestStep::Update(5, 7)), (65, 1, 1, 0));
        assert_eq!(
            engine.stats().backing.reads,
            0,
            "nor for one of a block that is not cached"
        );
    }

    #[test]
    fn garbage_is_refused_or_served_without_a_panic() {
        tiny().open_garbage(100);
    }

    #[test]
    fn another_block_size_and_blocks_outside_are_refused() {
        let rig = tiny();
        let disk = rig.disk();
        let (shadow, engine) = rig.create(&disk);
        let bytes = rig.bytes_of(1);
        assert!(engine.write(20, &bytes).is_err());
        assert!(engine.begin().update(20, &bytes, &[]).is_err());
        let beyond = engine.begin().update(0, &bytes, &[0..1, 100..129]);
        assert!(beyond.is_err_and(|error| error.to_string().contains("100..129")));
        drop(engine);
        let mut other = rig.clone();
        other.options.block_bytes = 256;
        let refused = other.open(shadow.crash_state().durable(), &disk);
        let refused = refused.err().expect("refused").to_string();
        assert!(
            refused.contains("128") && refused.contains("256"),
            "{refused}"
        );
    }
}
