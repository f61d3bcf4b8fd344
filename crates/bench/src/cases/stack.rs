//! A pool in memory in front of one on an SSD beside the same pool in front of the disk alone: what a commit costs, while
//! write-back rests.

use std::sync::Arc;

use forebay::{Backing, Medium, MemoryStore, Pool, PoolOptions};

use super::Bench;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, CachedPool, commit_one};
use forebay_harness::{Result, Row};

/// Commits whose lines are counted.
const COUNTED: u64 = 1_000;
/// Of the pool behind, which nothing reaches.
const BEHIND_BYTES: u64 = 64 << 20;
const STACKED: &str = "stacked";
const ALONE: &str = "alone";

/// Lines and fences of commits of one block.
fn counted(pool: &CachedPool) -> Result<(u64, u64)> {
    let (mut payload, mut blocks) = (Payload::new(91), Blocks::new(91, 0, pool.blocks));
    let before = pool.pool.counters();
    for _ in 0..COUNTED {
        commit_one(&pool.volume, blocks.next(), payload.next())?;
    }
    let since = pool.pool.counters() - before;
    Ok((since.lines(), since.fences))
}

/// Commits of one block.
pub fn commits(bench: &Bench) -> Result<Vec<Row>> {
    let (front, alone) = (bench.scratch.file("front"), bench.scratch.file("alone"));
    let behind = bench.scratch.disk_file("behind");
    let options = |path| pools::idle(pools::options(path, bench.pool_bytes));
    let alone = pools::half_full(&options(alone.path()))?;
    let made = PoolOptions::new(behind.path(), BEHIND_BYTES).medium(Medium::Ssd);
    let behind = Arc::new(Pool::create(&made)?);
    let disk = MemoryStore::new(alone.blocks * BLOCK_BYTES as u64).marked();
    let attached = behind.attach_behind(Backing::from_store(Arc::new(disk)))?;
    let pool = Pool::create(&options(front.path()))?;
    let stacked = pools::filled_over(pool, attached.backing, alone.blocks)?;

    let (ours, theirs) = (counted(&stacked)?, counted(&alone)?);
    let lines = (ours.1 == theirs.1).then(|| ours.0 as f64 / theirs.0 as f64);
    let outcome = bench.contest("1 x 4 KiB", 1, |_| {
        vec![
            pools::overwrites(STACKED, &stacked, 92),
            pools::overwrites(ALONE, &alone, 92),
        ]
    })?;
    Ok(vec![
        Row::new("stack_commit_lines_vs_nvm", lines, "ratio"),
        Row::new(
            "stack_commit_vs_nvm",
            outcome.ratio(STACKED, ALONE),
            "ratio",
        ),
    ])
}
