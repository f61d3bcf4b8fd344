//! How commits and read hits grow with threads, beside as many threads that do the same to raw memory: 1, 2, 4 and so on,
//! as far as the machine has processors. Each thread has blocks of its own; what they share is the pool.

use std::num::NonZeroUsize;

use forebay::{Region, VerifyPolicy};
use forebay_pmem::Kernel;

use super::{Bench, commits, kernels, reads};
use crate::contest::{Contender, Outcome};
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, CachedPool};
use forebay_harness::{Result, Row};

const BATCH: u64 = 64;

/// Every number of threads: powers of two, up to as many as there are processors.
fn steps() -> Vec<usize> {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let doubled = std::iter::successors(Some(1), |threads| Some(threads * 2));
    doubled
        .take_while(|threads| *threads <= processors)
        .collect()
}

/// Rows of each number of threads: `Volume::write` beside streams, verified read hits beside copies.
pub fn of_all(bench: &Bench) -> Result<Vec<Row>> {
    let (file, raw_file) = (bench.scratch.file("pool"), bench.scratch.file("raw"));
    let pool = pools::half_full(&pools::options(file.path(), bench.pool_bytes))?;
    let raw = pools::raw_memory(raw_file.path(), bench.pool_bytes)?;
    let mut rows = Vec::new();
    for threads in steps() {
        rows.extend(of_threads(bench, &pool, &raw, threads)?);
    }
    reads::check_hits(&pool)?;
    Ok(rows)
}

fn of_threads(bench: &Bench, pool: &CachedPool, raw: &Region, threads: usize) -> Result<Vec<Row>> {
    let share = pool.blocks / threads as u64;
    let seed = |thread: usize, of: u64| (threads + thread) as u64 * 10 + of;
    let writes = bench.contest(&format!("{threads} x write 4 KiB"), threads, |thread| {
        let blocks = |of| Blocks::new(seed(thread, of), thread as u64 * share, share);
        vec![
            commits::our_calls(&pool.volume, blocks(0), seed(thread, 0)),
            streams(raw, blocks(1), seed(thread, 1)),
        ]
    })?;
    let hits = bench.contest(&format!("{threads} x read 4 KiB"), threads, |thread| {
        vec![
            reads::hits_of(pool, "verified", VerifyPolicy::Always, seed(thread, 2)),
            kernels::copy_out(raw, pool.blocks, seed(thread, 3)),
        ]
    })?;
    let name = |what: &str| format!("scaling_{what}_{threads}threads");
    let pair = |what: &str, outcome: &Outcome, ours: &str, theirs: &str| {
        let per_second =
            |of: &str, side| Row::new(format!("{}_{of}", name(what)), outcome.rate(side), "1/s");
        [
            Row::new(
                format!("{}_vs_raw", name(what)),
                outcome.ratio(ours, theirs),
                "ratio",
            ),
            per_second("per_second", ours),
            per_second("raw_per_second", theirs),
        ]
    };
    let mut rows = Vec::from(pair("write_4k", &writes, commits::OURS_CALL, STREAM));
    rows.extend(pair("read_4k", &hits, "verified", kernels::MEMCPY));
    Ok(rows)
}

const STREAM: &str = "stream + fence";

/// A block past the caches and a fence, as a commit's content goes.
fn streams(region: &Region, mut blocks: Blocks, seed: u64) -> Contender<'_> {
    let mut payload = Payload::new(seed);
    Contender::new(STREAM, move || {
        for _ in 0..BATCH {
            region.stream(blocks.next() * BLOCK_BYTES as u64, payload.next());
            region.fence()?;
        }
        Ok(BATCH)
    })
    .with_kernel(Kernel::best())
}
