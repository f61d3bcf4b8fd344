//! Cache lines and fences, counted exactly, with checkpoints and reclaim included: the pool is
//! checkpointed before the window, at least [`CHECKPOINTS_MIN`] times in it, and at its end, and
//! everything in it is shared out over the operations.

use std::time::Instant;

use forebay::{Backing, Counters, Pool, PoolOptions};

use super::Bench;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, CachedPool, commit_one};
use forebay_harness::{Result, Row};

/// Checkpoints that fall into a window by themselves.
const CHECKPOINTS_MIN: u64 = 10;

/// Operations between two looks at the pool.
const BATCH: u64 = 1024;

pub(super) struct Window {
    counted: Counters,
    pub(super) operations: u64,
}

impl Window {
    pub(super) fn lines(&self) -> f64 {
        self.counted.lines() as f64 / self.operations as f64
    }
    pub(super) fn fences(&self) -> f64 {
        self.counted.fences as f64 / self.operations as f64
    }
}

pub(super) fn count(
    bench: &Bench,
    pool: &Pool,
    mut operation: impl FnMut() -> Result<()>,
) -> Result<Window> {
    pool.checkpoint()?;
    let (before, checkpoints_before) = (pool.counters(), pool.stats().checkpoints);
    let (start, mut operations) = (Instant::now(), 0);
    let checkpoints = loop {
        for _ in 0..BATCH {
            operation()?;
        }
        operations += BATCH;
        let checkpoints = pool.stats().checkpoints - checkpoints_before;
        if checkpoints >= CHECKPOINTS_MIN && start.elapsed() >= bench.count_for {
            break checkpoints;
        }
    };
    pool.checkpoint()?;
    let counted = pool.counters() - before;
    bench.say(&format!(
        "  {operations} operations, {checkpoints} checkpoints and one at the end: {} lines streamed, \
         {} flushed, {} fences",
        counted.lines_streamed, counted.lines_flushed, counted.fences
    ));
    Ok(Window {
        counted,
        operations,
    })
}

fn with_half_full<T>(bench: &Bench, measure: impl FnOnce(&CachedPool) -> Result<T>) -> Result<T> {
    let file = bench.scratch.file("pool");
    measure(&pools::half_full(&pools::options(
        file.path(),
        bench.pool_bytes,
    ))?)
}

/// One-block transactions over resident blocks.
pub fn one_block(bench: &Bench) -> Result<Vec<Row>> {
    with_half_full(bench, |cached| {
        let (mut payload, mut blocks) = (Payload::new(21), Blocks::new(21, 0, cached.blocks));
        let window = count(bench, &cached.pool, || {
            commit_one(&cached.volume, blocks.next(), payload.next())
        })?;
        Ok(vec![
            Row::new("commit_1x4k_fences", window.fences(), "fences"),
            Row::new("commit_1x4k_lines", window.lines(), "lines"),
        ])
    })
}

/// Sixteen-block transactions over resident blocks.
pub fn sixteen_blocks(bench: &Bench) -> Result<Vec<Row>> {
    const GROUP: usize = 16;
    with_half_full(bench, |cached| {
        let (mut payload, mut blocks) = (Payload::new(22), Blocks::new(22, 0, cached.blocks));
        let window = count(bench, &cached.pool, || {
            let mut transaction = cached.volume.begin();
            for block in blocks.next_distinct::<GROUP>() {
                transaction.write(block, payload.next())?;
            }
            Ok(transaction.commit()?)
        })?;
        let lines = window.lines() / GROUP as f64;
        Ok(vec![Row::new(
            "commit_16x4k_lines_per_block",
            lines,
            "lines",
        )])
    })
}

/// 256-byte updates of resident blocks, at whole cache lines, and at any byte beside it.
pub fn delta(bench: &Bench) -> Result<Vec<Row>> {
    const DELTA_BYTES: usize = 256;
    with_half_full(bench, |cached| {
        let mut rows = Vec::new();
        for (name, step) in [("delta_256b_lines", 64), ("delta_256b_unaligned_lines", 1)] {
            let (mut payload, mut blocks) = (Payload::new(23), Blocks::new(23, 0, cached.blocks));
            let places = (BLOCK_BYTES - DELTA_BYTES) as u64 / step + 1;
            let mut offsets = Blocks::new(24, 0, places);
            let deltas_before = cached.pool.stats().totals.deltas_written;
            let window = count(bench, &cached.pool, || {
                let at = blocks.next() * BLOCK_BYTES as u64 + offsets.next() * step;
                let mut transaction = cached.volume.begin();
                transaction.write_at(at, &payload.next()[..DELTA_BYTES])?;
                Ok(transaction.commit()?)
            })?;
            let deltas = cached.pool.stats().totals.deltas_written - deltas_before;
            if deltas != window.operations {
                return Err(format!("{deltas} of {} were deltas", window.operations).into());
            }
            rows.push(Row::new(name, window.lines(), "lines"));
        }
        Ok(rows)
    })
}

/// One-block transactions of blocks that are not cached, into a full pool: each evicts another,
/// which was written back before.
pub fn insert_evict(bench: &Bench) -> Result<Vec<Row>> {
    let file = bench.scratch.file("pool");
    let pool = Pool::create(&PoolOptions::new(file.path(), bench.pool_bytes))?;
    // More than twice what fits: when a block comes round again it has long been evicted.
    let blocks = (pool.stats().slots * 2).next_power_of_two();
    let volume = pool.attach(Backing::memory(blocks * BLOCK_BYTES as u64))?;
    let mut payload = Payload::new(25);
    // Every block once before any comes again, in no order: an odd step through a power of two.
    let step = (0x9E37_79B9_7F4A_7C15 % blocks) | 1;
    let mut block = 0;
    let mut next = move || {
        block = (block + step) % blocks;
        block
    };
    for _ in 0..pool.stats().slots {
        commit_one(&volume, next(), payload.next())?;
    }
    volume.flush()?;
    let before = pool.stats().totals;
    let window = count(bench, &pool, || commit_one(&volume, next(), payload.next()))?;
    let after = pool.stats().totals;
    let each = |count: u64| count as f64 / window.operations as f64;
    bench.say(&format!(
        "  per inserted block: {:.3} evicted, {:.3} written back, {:.3} fences, writer throttled {:.4} \
         times",
        each(after.evictions - before.evictions),
        each(after.write_backs - before.write_backs),
        window.fences(),
        each(after.throttled - before.throttled),
    ));
    Ok(vec![
        Row::new("insert_evict_lines", window.lines(), "lines"),
        Row::new("insert_evict_fences", window.fences(), "fences"),
    ])
}
