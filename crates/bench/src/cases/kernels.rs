//! The kernels beside each other on the same memory: what the checksum costs, and whether the fixed
//! order of the kernels is right here. Whole paths have rows of the AVX2 kernels besides, so that
//! a bench on a processor with AVX-512 speaks for those without.
//!
//! Slices are short: what others do on the machine comes and goes between them, and the ratios are
//! of neighbours.

#![allow(unsafe_code, reason = "the reference copies from a mapping")]

use std::hint::black_box;
use std::time::Duration;

use forebay::Region;
use forebay_pmem::Kernel;

use super::Bench;
use crate::contest::{Contender, Outcome, Pace};
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools;
use forebay_harness::{Result, Row};

const BATCH: u64 = 64;

const SLICE: Duration = Duration::from_millis(10);

/// The kernels that whole paths are measured with by force, in the order of choice.
const FORCED: [Kernel; 2] = [Kernel::Avx2Vpclmul, Kernel::Avx2Crc32];

/// Those of them that the processor has.
pub fn forced() -> impl Iterator<Item = Kernel> {
    FORCED.into_iter().filter(|kernel| kernel.is_supported())
}

/// A row of each of them, and one of what a processor without AVX-512 would choose: the first.
pub fn rows_of_forced(name: &str, ratio: impl Fn(Kernel) -> Option<f64>) -> Vec<Row> {
    rows_of(name, &FORCED, ratio)
}

fn rows_of(name: &str, kernels: &[Kernel], ratio: impl Fn(Kernel) -> Option<f64>) -> Vec<Row> {
    let of_avx2 = Row::new(
        format!("{name}_avx2"),
        forced().next().and_then(&ratio),
        "ratio",
    );
    let of_each = kernels.iter().map(|kernel| {
        let value = Some(*kernel).filter(|kernel| kernel.is_supported());
        Row::new(format!("{name}_{kernel}"), value.and_then(&ratio), "ratio")
    });
    std::iter::once(of_avx2).chain(of_each).collect()
}

/// Streams and reads of every kernel.
pub fn of_all(bench: &Bench) -> Result<Vec<Row>> {
    let file = bench.scratch.file("raw");
    let region = pools::raw_memory(file.path(), bench.pool_bytes)?;
    let blocks = region.len() / BLOCK_BYTES as u64;
    let scale = bench.pace.slice.as_secs_f64() / SLICE.as_secs_f64();
    let pace = Pace {
        slice: SLICE,
        rounds: (bench.pace.rounds as f64 * scale).ceil() as usize,
        ..bench.pace
    };
    let supported = || Kernel::ORDER.into_iter().filter(|one| one.is_supported());
    let streams = bench.contest_at(pace, "stream with CRC", 1, |_| {
        let mut contenders = vec![stream(&region, None)];
        contenders.extend(supported().map(|kernel| stream(&region, Some(kernel))));
        contenders
    })?;
    let reads = bench.contest_at(pace, "read with CRC", 1, |_| {
        let mut contenders = vec![copy_out(&region, blocks, 93)];
        contenders.extend(supported().map(|kernel| read(&region, kernel)));
        contenders
    })?;
    let mut rows = rows_of("stream_crc_vs_stream", &Kernel::ORDER, |kernel| {
        streams.ratio(kernel.name(), STREAM)
    });
    rows.extend(rows_of("read_crc_vs_memcpy", &Kernel::ORDER, |kernel| {
        reads.ratio(kernel.name(), MEMCPY)
    }));
    rows.push(Row::new("kernel_order_stream", order(&streams), "ratio"));
    rows.push(Row::new("kernel_order_read", order(&reads), "ratio"));
    let note = pools::note_of_pages(&[file.path()]);
    Ok(rows.into_iter().map(|row| row.with_note(note)).collect())
}

const STREAM: &str = "stream + fence";
pub(super) const MEMCPY: &str = "memcpy";

/// Streams and fences, with the sums of a kernel, or plain ones with the best.
fn stream(region: &Region, kernel: Option<Kernel>) -> Contender<'_> {
    let blocks = region.len() / BLOCK_BYTES as u64;
    let (mut payload, mut random) = (Payload::new(91), Blocks::new(91, 0, blocks));
    let has_sum = kernel.is_some();
    Contender::new(kernel.map_or(STREAM, Kernel::name), move || {
        for _ in 0..BATCH {
            let (offset, block) = (random.next() * BLOCK_BYTES as u64, payload.next());
            if has_sum {
                black_box(region.stream_crc32c(offset, block));
            } else {
                region.stream(offset, block);
            }
            region.fence()?;
        }
        Ok(BATCH)
    })
    .with_kernel(kernel.unwrap_or_else(Kernel::best))
}

fn read(region: &Region, kernel: Kernel) -> Contender<'_> {
    let mut random = Blocks::new(92, 0, region.len() / BLOCK_BYTES as u64);
    let mut out = vec![0; BLOCK_BYTES];
    Contender::new(kernel.name(), move || {
        for _ in 0..BATCH {
            let offset = random.next() * BLOCK_BYTES as u64;
            black_box(region.read_crc32c(offset, black_box(&mut out)));
        }
        Ok(BATCH)
    })
    .with_kernel(kernel)
}

/// The least of an earlier kernel's rate ÷ a later one's, over all pairs: 1 where none that comes
/// later is faster.
fn order(outcome: &Outcome) -> Option<f64> {
    let pairs = Kernel::ORDER
        .into_iter()
        .enumerate()
        .flat_map(|(number, earlier)| {
            let later = Kernel::ORDER.into_iter().skip(number + 1);
            later.filter_map(move |later| outcome.ratio(earlier.name(), later.name()))
        });
    pairs.reduce(f64::min)
}

/// The C library's copies of random blocks.
pub(super) fn copy_out(raw: &Region, blocks: u64, seed: u64) -> Contender<'_> {
    let mut blocks = Blocks::new(seed, 0, blocks);
    let mut out = vec![0_u8; BLOCK_BYTES];
    Contender::new("memcpy", move || {
        for _ in 0..BATCH {
            let offset = blocks.next() * BLOCK_BYTES as u64;
            assert!(offset + BLOCK_BYTES as u64 <= raw.len());
            let from = raw.as_ptr().wrapping_add(offset as usize);
            // SAFETY: inside the mapping, which no thread writes to meanwhile.
            unsafe { out.as_mut_ptr().copy_from_nonoverlapping(from, BLOCK_BYTES) };
            black_box(&mut out);
        }
        Ok(BATCH)
    })
}
