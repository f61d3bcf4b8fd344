//! Reads of a mirror: verified ones beside others, and a scrub beside a raw read of the same memory.

use std::hint::black_box;
use std::ops::ControlFlow;

use forebay::{Region, ScrubOptions, VerifyPolicy};

use super::{Bench, reads};
use crate::contest::Clock;
use crate::payload::BLOCK_BYTES;
use crate::pools::{self, CachedPool, Members};
use forebay_harness::{Result, Row, check_interrupt, median};

/// Verified read hits of a mirror beside unverified ones.
pub fn hits(bench: &Bench) -> Result<Vec<Row>> {
    let members = Members::new(&bench.scratch);
    let cached = pools::half_full(&members.mirror(bench.pool_bytes))?;
    let outcome = bench.contest("read 4 KiB of a mirror", 1, |_| {
        vec![
            reads::hits_of(&cached, "verified", VerifyPolicy::Always, 81),
            reads::hits_of(&cached, "unverified", VerifyPolicy::Never, 82),
        ]
    })?;
    reads::check_hits(&cached)?;
    Ok(vec![Row::new(
        "verified_read_vs_unverified",
        outcome.ratio("verified", "unverified"),
        "ratio",
    )])
}

/// A scrub of a pool whose blocks are all live, both halves of each, beside a raw read of its members in order; both
/// evict what they read, a block at a time.
pub fn scrub(bench: &Bench) -> Result<Vec<Row>> {
    let members = Members::new(&bench.scratch);
    let cached = pools::full(members.mirror(bench.pool_bytes / 2))?;
    let raw: Vec<Region> = members
        .paths()
        .into_iter()
        .map(Region::open_read_only)
        .collect::<std::result::Result<_, _>>()?;
    let clock = bench.pace.clock;
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    bench.progress.set_length(bench.repeats as u64);
    for repeat in 0..bench.repeats {
        check_interrupt()?;
        bench.progress.set_position(repeat as u64);
        let (scrubbed, read) = match repeat % 2 {
            0 => (scrub_bytes_s(&cached, clock)?, raw_bytes_s(&raw, clock)),
            _ => {
                let read = raw_bytes_s(&raw, clock);
                (scrub_bytes_s(&cached, clock)?, read)
            }
        };
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        bench.say(&format!(
            "  scrub {:.0} MiB/s, raw {:.0} MiB/s",
            mib(scrubbed),
            mib(read)
        ));
        ratios.push(scrubbed / read);
        rates.push(mib(scrubbed));
    }
    let note = pools::note_of_pages(&members.paths());
    Ok(vec![
        Row::new("scrub_vs_raw_read", median(ratios), "ratio").with_note(note),
        Row::new("scrub_mib_s", median(rates), "MiB/s"),
    ])
}

/// Bytes of blocks that a scrub looks at in a second.
fn scrub_bytes_s(cached: &CachedPool, clock: Clock) -> Result<f64> {
    let start = clock.now();
    let scrubbed = cached
        .pool
        .scrub(&ScrubOptions::default(), &mut |_| ControlFlow::Continue(()))?;
    let elapsed_s = (clock.now() - start).as_secs_f64();
    if (scrubbed.slots, scrubbed.found) != (cached.blocks, 0) {
        return Err(format!("of {} blocks the scrub says {scrubbed:?}", cached.blocks).into());
    }
    Ok((2 * scrubbed.slots * BLOCK_BYTES as u64) as f64 / elapsed_s)
}

/// Bytes of some regions that are read in a second.
fn raw_bytes_s(regions: &[Region], clock: Clock) -> f64 {
    let mut out = vec![0; BLOCK_BYTES];
    let (start, mut bytes) = (clock.now(), 0);
    for region in regions {
        for block in 0..region.len() / BLOCK_BYTES as u64 {
            let offset = block * BLOCK_BYTES as u64;
            region.evict(offset, BLOCK_BYTES);
            region.read(offset, black_box(&mut out));
        }
        bytes += region.len();
    }
    bytes as f64 / (clock.now() - start).as_secs_f64()
}
