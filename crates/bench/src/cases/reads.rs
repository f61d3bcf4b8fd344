//! Read hits beside memcpy from as much memory, mapped in the same way and larger than the last
//! level of cache.

use std::hint::black_box;

use forebay::VerifyPolicy;

use super::{Bench, kernels};
use crate::contest::Contender;
use crate::payload::{BLOCK_BYTES, Blocks};
use crate::pools::{self, CachedPool};
use forebay_harness::{Result, Row};

const BATCH: u64 = 64;

/// Reads of random blocks, which are all cached.
pub(super) fn hits_of<'a>(
    cached: &'a CachedPool,
    name: &'static str,
    policy: VerifyPolicy,
    seed: u64,
) -> Contender<'a> {
    let mut blocks = Blocks::new(seed, 0, cached.blocks);
    let mut out = vec![0; BLOCK_BYTES];
    Contender::new(name, move || {
        // One policy holds for the pool; it is set back and forth between the slices.
        cached.pool.set_verify(policy);
        for _ in 0..BATCH {
            cached.volume.read(blocks.next(), black_box(&mut out))?;
        }
        Ok(BATCH)
    })
}

/// Fails if a read was none of a cached block.
pub(super) fn check_hits(cached: &CachedPool) -> Result<()> {
    match cached.pool.stats().totals.read_misses {
        0 => Ok(()),
        misses => Err(format!("{misses} reads missed, though every block is cached").into()),
    }
}

/// Verified and unverified read hits over a pool of twice the usual size.
pub fn hits(bench: &Bench) -> Result<Vec<Row>> {
    let bytes = bench.pool_bytes * 2;
    let (file, raw_file) = (bench.scratch.file("pool"), bench.scratch.file("raw"));
    let cached = pools::half_full(&pools::options(file.path(), bytes))?;
    let raw = pools::raw_memory(raw_file.path(), bytes)?;
    let outcome = bench.contest("read 4 KiB", 1, |_| {
        let verified = |name| hits_of(&cached, name, VerifyPolicy::Always, 31);
        let mut contenders = vec![
            verified("verified"),
            hits_of(&cached, "unverified", VerifyPolicy::Never, 32),
            // As many blocks as are resident, so that both reach over the same extent.
            kernels::copy_out(&raw, cached.blocks, 33),
        ];
        contenders
            .extend(kernels::forced().map(|kernel| verified(kernel.name()).with_kernel(kernel)));
        contenders
    })?;
    check_hits(&cached)?;
    let vs_memcpy = |name: &str| outcome.ratio(name, "memcpy");
    let name = "read_hit_4k_vs_memcpy";
    let unverified = "read_hit_4k_unverified_vs_memcpy";
    let mut rows = vec![
        Row::new(name, vs_memcpy("verified"), "ratio"),
        Row::new(unverified, vs_memcpy("unverified"), "ratio"),
    ];
    rows.extend(kernels::rows_of_forced(name, |kernel| {
        vs_memcpy(kernel.name())
    }));
    let note = pools::note_of_pages(&[file.path(), raw_file.path()]);
    let mut rows: Vec<Row> = rows.into_iter().map(|row| row.with_note(note)).collect();
    rows.extend([
        Row::new("read_hit_4k_per_second", outcome.rate("verified"), "1/s"),
        Row::new("memcpy_4k_per_second", outcome.rate("memcpy"), "1/s"),
    ]);
    Ok(rows)
}
