//! Where the time of a one-block commit goes: the raw copy, then with one more of a commit's parts
//! at each step, up to Forebay itself. Run by name; not part of the report that others read.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay::Region;
use forebay_pmem::Kernel;

use super::Bench;
use crate::contest::Contender;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, commit_one};
use forebay_harness::{Result, Row};

const BATCH: u64 = 64;
const LINE_BYTES: u64 = 64;
/// Bytes of the ring that stands for a lane, at the region's start, with the table behind it.
const LANE_BYTES: u64 = 16 << 20;
const TABLE_BYTES: u64 = 16 << 20;

/// What a step does besides the copy and the fence.
#[derive(Clone, Copy, Default)]
struct Parts {
    /// The block's CRC on the way.
    checksum: bool,
    /// A line streamed into the lane.
    record: bool,
    /// A locked instruction before the copy, as any lock needs.
    locked_before: bool,
    /// A locked instruction right after the fence.
    locked_after: bool,
    /// An 8-byte store to a random place of the table after the fence.
    entry: bool,
    /// That place prefetched before the copy.
    prefetch: bool,
}

/// Nanoseconds of each step.
pub fn one_block(bench: &Bench) -> Result<Vec<Row>> {
    let (file, raw_file) = (bench.scratch.file("pool"), bench.scratch.file("raw"));
    let cached = pools::half_full(&pools::options(file.path(), bench.pool_bytes))?;
    let raw = pools::raw_memory(raw_file.path(), bench.pool_bytes)?;
    let copy = Parts::default();
    let checksum = Parts {
        checksum: true,
        ..copy
    };
    let record = Parts {
        record: true,
        ..checksum
    };
    let entry = Parts {
        entry: true,
        prefetch: true,
        ..record
    };
    let steps = [
        ("copy + fence", copy),
        ("... with CRC", checksum),
        ("... and record", record),
        (
            "... and entry, not prefetched",
            Parts {
                prefetch: false,
                ..entry
            },
        ),
        ("... and entry, prefetched", entry),
        (
            "... and locked op before",
            Parts {
                locked_before: true,
                ..entry
            },
        ),
        (
            "... and locked op after the fence",
            Parts {
                locked_after: true,
                ..entry
            },
        ),
        (
            "... and locked ops at both",
            Parts {
                locked_before: true,
                locked_after: true,
                ..entry
            },
        ),
    ];
    let outcome = bench.contest("1 x 4 KiB", 1, |_| {
        let mut contenders: Vec<Contender> = steps
            .iter()
            .map(|(name, parts)| step(name, &raw, *parts))
            .collect();
        let volume = &cached.volume;
        let (mut payload, mut blocks) = (Payload::new(81), Blocks::new(81, 0, cached.blocks));
        contenders.push(Contender::new("forebay", move || {
            for _ in 0..BATCH {
                commit_one(volume, blocks.next(), payload.next())?;
            }
            Ok(BATCH)
        }));
        contenders
    })?;
    for (name, _) in steps.iter().chain([&("forebay", copy)]) {
        let ratio = outcome.ratio(name, steps[0].0).unwrap_or(0.0);
        bench.say(&format!("  {name:<36} {ratio:.3} x raw"));
    }
    Ok(Vec::new())
}

fn step<'r>(name: &'static str, raw: &'r Region, parts: Parts) -> Contender<'r> {
    let slots_start = LANE_BYTES + TABLE_BYTES;
    let slots = (raw.len() - slots_start) / BLOCK_BYTES as u64;
    let (mut payload, mut random) = (Payload::new(82), Blocks::new(82, 0, slots));
    let mut entries = Blocks::new(83, 0, TABLE_BYTES / 16);
    let mut lane_at = 0;
    let lock = AtomicU64::new(0);
    let contender = Contender::new(name, move || {
        for _ in 0..BATCH {
            let entry = LANE_BYTES + entries.next() * 16;
            if parts.prefetch {
                raw.prefetch_write(entry);
            }
            if parts.locked_before {
                lock.fetch_add(1, Ordering::AcqRel);
            }
            let (to, block) = (
                slots_start + random.next() * BLOCK_BYTES as u64,
                payload.next(),
            );
            let check = if parts.checksum {
                raw.stream_crc32c(to, block)
            } else {
                raw.stream(to, block);
                0
            };
            if parts.record {
                raw.stream(lane_at, &[check as u8; LINE_BYTES as usize]);
                lane_at = (lane_at + LINE_BYTES) % LANE_BYTES;
            }
            raw.fence()?;
            if parts.locked_after {
                lock.fetch_add(1, Ordering::AcqRel);
            }
            if parts.entry {
                raw.store_u64(entry, u64::from(check));
            }
        }
        Ok(BATCH)
    });
    if parts.checksum {
        return contender;
    }
    contender.with_kernel(Kernel::best())
}
