//! What it costs to look at the content of blocks, and what it gains.

use forebay_pmem::{EmulatedMedia, RegionOptions};

use super::Bench;
use crate::contest::Contender;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, CachedPool};
use forebay_harness::{Result, Row};

/// Operations between two looks at the clock.
const BATCH: u64 = 64;
const LOOKING: &str = "looking";
const BLIND: &str = "not looking";

/// Writes of blocks of which no two are alike, with the look at their content and without.
fn unlike_writes<'p>(cached: &'p CachedPool, name: &'static str, seed: u64) -> Contender<'p> {
    let mut payload = Payload::new(seed);
    let mut blocks = Blocks::new(seed, 0, cached.blocks);
    Contender::new(name, move || {
        look(cached, name == LOOKING);
        for _ in 0..BATCH {
            cached.volume.write(blocks.next(), payload.next())?;
        }
        Ok(BATCH)
    })
}

fn look(cached: &CachedPool, on: bool) {
    cached.pool.set_share_duplicates(on);
    cached.pool.set_compare_writes(on);
}

/// What looking costs work that has nothing to find.
pub fn nothing_to_find(bench: &Bench) -> Result<Vec<Row>> {
    let file = bench.scratch.file("pool");
    let cached = pools::half_full(&pools::options(file.path(), bench.pool_bytes))?;
    let outcome = bench.contest("unlike blocks", 1, |_| {
        vec![
            unlike_writes(&cached, LOOKING, 5),
            unlike_writes(&cached, BLIND, 6),
        ]
    })?;
    let totals = cached.pool.stats().totals;
    if totals.blocks_shared + totals.blocks_packed + totals.deltas_found > totals.commits / 1000 {
        return Err(format!("something was found where nothing is: {totals:?}").into());
    }
    let cost = outcome.ratio(LOOKING, BLIND).map(|ratio| 1.0 - ratio);
    let content_bytes = cached.pool.stats().content_dram_bytes as f64;
    let pool_mib = bench.pool_bytes as f64 / f64::from(1 << 20);
    Ok(vec![
        Row::new("duplicate_lookup_cost", cost, "share"),
        Row::new(
            "duplicate_lookup_dram_bytes_per_mib",
            Some(content_bytes / pool_mib),
            "bytes",
        ),
    ])
}

/// Blocks of which two lines change each time they are written whole.
fn table_writes<'p>(cached: &'p CachedPool, name: &'static str, seed: u64) -> Contender<'p> {
    let mut table: Vec<Vec<u8>> = Vec::new();
    let mut payload = Payload::new(seed);
    table.extend((0..TABLE_BLOCKS).map(|_| payload.next().to_vec()));
    let first = if name == LOOKING { 0 } else { TABLE_BLOCKS };
    let mut turn = 0;
    Contender::new(name, move || {
        look(cached, name == LOOKING);
        for _ in 0..BATCH {
            turn += 1;
            let number = turn % TABLE_BLOCKS;
            let block = &mut table[number as usize];
            for at in [turn * 7 % 32, 32 + turn * 5 % 32] {
                block[at as usize * 64] ^= 1;
            }
            cached.volume.write(first + number, block)?;
        }
        Ok(BATCH)
    })
}

/// Blocks of each table: few enough to stay in a processor's cache.
const TABLE_BLOCKS: u64 = 64;

/// What comparing gains where few lines of a block change, on memory and where lines cost what they
/// cost on phase-change memory.
pub fn few_lines_change(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (row, media) in [
        ("compare_gain_dram", EmulatedMedia::None),
        ("compare_gain_pcm", EmulatedMedia::Pcm),
    ] {
        let file = bench.scratch.file(row);
        let options =
            pools::options(file.path(), 64 << 20).region(RegionOptions::default().media(media));
        let cached = pools::half_full(&options)?;
        assert!(cached.blocks * BLOCK_BYTES as u64 > 2 * TABLE_BLOCKS);
        let outcome = bench.contest(row, 1, |_| {
            vec![
                table_writes(&cached, LOOKING, 7),
                table_writes(&cached, BLIND, 8),
            ]
        })?;
        rows.push(Row::new(row, outcome.ratio(LOOKING, BLIND), "ratio"));
    }
    Ok(rows)
}
