//! What the memory itself takes of two streams: raw copies to two files beside raw copies to one, which no mirror can
//! surpass.

use forebay::Region;

use super::Bench;
use crate::contest::Contender;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, Members};
use forebay_harness::{Result, Row};

/// Blocks before a fence.
const GROUP: usize = 16;
/// Groups between two looks at the clock.
const BATCH: usize = 4;
const ONE: &str = "to either file";
const BOTH: &str = "to both files";

/// Sixteen blocks and a fence.
pub fn sixteens(bench: &Bench) -> Result<Vec<Row>> {
    let files = Members::named(&bench.scratch, "raw");
    let paths = files.paths();
    let (first, second) = (paths[0], paths[1]);
    let regions = [
        pools::raw_memory(first, bench.pool_bytes)?,
        pools::raw_memory(second, bench.pool_bytes)?,
    ];
    let outcome = bench.contest("16 x 4 KiB, raw", 1, |_| {
        vec![
            copies(BOTH, &regions, |regions, _, offset, bytes| {
                regions[0].stream_pair(offset, &regions[1], offset, bytes);
            }),
            // As much to the one as to the other: memory need not be equally fast everywhere.
            copies(ONE, &regions, |regions, number, offset, bytes| {
                regions[number % 2].stream(offset, bytes);
            }),
        ]
    })?;
    let ratio = outcome.ratio(BOTH, ONE);
    let note = pools::note_of_pages(&files.paths());
    let row = Row::new("raw_pair_16x4k_vs_raw", ratio, "ratio");
    Ok(vec![row.with_note(note)])
}

fn copies<'r>(
    name: &'static str,
    regions: &'r [Region; 2],
    copy: impl Fn(&[Region; 2], usize, u64, &[u8]) + 'r,
) -> Contender<'r> {
    let blocks = regions[0].len() / BLOCK_BYTES as u64;
    let (mut payload, mut random) = (Payload::new(75), Blocks::new(75, 0, blocks));
    Contender::new(name, move || {
        for _ in 0..BATCH {
            for (number, block) in random.next_distinct::<GROUP>().into_iter().enumerate() {
                copy(regions, number, block * BLOCK_BYTES as u64, payload.next());
            }
            // Of both: it is one instruction.
            regions[0].fence()?;
        }
        Ok((BATCH * GROUP) as u64)
    })
}
