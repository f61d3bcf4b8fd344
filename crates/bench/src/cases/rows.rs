//! What a pool with rows writes, counted exactly, all members together, and how fast it is beside one without redundancy
//! over as many members.

use forebay::{Pool, Redundancy};

use super::Bench;
use super::lines::count;
use super::mirror::{GROUP, SMALL_BYTES};
use crate::contest::{Contender, Outcome};
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, CachedPool, Members};
use forebay_harness::{Result, Row};

/// Groups between two looks at the clock.
const BATCH: u64 = 4;

/// Commits a group of blocks that are drawn at random.
fn group(cached: &CachedPool, blocks: &mut Blocks, payload: &mut Payload) -> Result<()> {
    let mut transaction = cached.volume.begin();
    for block in blocks.next_distinct::<GROUP>() {
        transaction.write(block, payload.next())?;
    }
    Ok(transaction.commit()?)
}

/// Lines a block, and fences a transaction, of groups over resident blocks in rows of so many columns.
fn groups(bench: &Bench, width: usize) -> Result<(f64, f64)> {
    let members = Members::many(&bench.scratch, "rows", width + 1);
    let options = members.with(Redundancy::Parity, bench.pool_bytes);
    let cached = pools::half_full(&options)?;
    let (mut payload, mut blocks) = (Payload::new(81), Blocks::new(81, 0, cached.blocks));
    let window = count(bench, &cached.pool, || {
        group(&cached, &mut blocks, &mut payload)
    })?;
    Ok((window.lines() / GROUP as f64, window.fences()))
}

/// Groups of sixteen in rows of three columns, and of four.
pub fn sixteen_blocks(bench: &Bench) -> Result<Vec<Row>> {
    let (lines, fences) = groups(bench, 3)?;
    let (wider, _) = groups(bench, 4)?;
    Ok(vec![
        Row::new("rows3_16x4k_fences", fences, "fences"),
        Row::new("rows3_16x4k_lines_per_block", lines, "lines"),
        Row::new("rows4_16x4k_lines_per_block", wider, "lines"),
    ])
}

/// A small change of each block of a pool of three members, which are all in rows: each goes to two members, whole.
pub fn first_changes(bench: &Bench) -> Result<Vec<Row>> {
    let members = Members::many(&bench.scratch, "rows", 3);
    let pool = Pool::create(&pools::idle(
        members.with(Redundancy::Parity, bench.pool_bytes),
    ))?;
    let blocks = pool.stats().slots / 2;
    let volume = pool.attach(forebay::Backing::memory(blocks * BLOCK_BYTES as u64))?;
    pools::fill(&volume, blocks)?;
    pool.checkpoint()?;
    let (before, mut payload) = (pool.counters(), Payload::new(82));
    for block in 0..blocks {
        let mut transaction = volume.begin();
        let at = block * BLOCK_BYTES as u64 + 640;
        transaction.write_at(at, &payload.next()[..SMALL_BYTES])?;
        transaction.commit()?;
    }
    pool.checkpoint()?;
    let lines = (pool.counters() - before).lines() as f64 / blocks as f64;
    Ok(vec![Row::new("rows_first_delta_lines", lines, "lines")])
}

/// Commits of sixteen blocks beside those of a pool without redundancy.
pub fn commits(bench: &Bench) -> Result<Vec<Row>> {
    let of = |name, redundancy| {
        let members = Members::many(&bench.scratch, name, 4);
        let options = members.with(redundancy, bench.pool_bytes);
        (options, members)
    };
    let ((rows, _own), (none, _others)) =
        (of("rows", Redundancy::Parity), of("none", Redundancy::None));
    let rows = pools::half_full(&rows)?;
    let none = pools::with_blocks(&none, rows.blocks)?;
    let contender = |name: &'static str, cached| {
        let cached: &CachedPool = cached;
        let (mut payload, mut blocks) = (Payload::new(83), Blocks::new(83, 0, cached.blocks));
        Contender::new(name, move || {
            for _ in 0..BATCH {
                group(cached, &mut blocks, &mut payload)?;
            }
            Ok(BATCH)
        })
    };
    let outcome: Outcome = bench.contest("16 x 4 KiB in rows", 1, |_| {
        vec![contender("rows", &rows), contender("none", &none)]
    })?;
    let ratio = outcome.ratio("rows", "none");
    Ok(vec![Row::new("rows3_16x4k_vs_none", ratio, "ratio")])
}
