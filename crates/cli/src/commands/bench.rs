//! `forebay bench`: what this machine's memory does, and the library on it, alternating in one run.
//!
//! A quick look at one machine; `make bench` in the source tree is the thorough one.

use std::time::{Duration, Instant};

use forebay::{Backing, Counters, Pool, PoolOptions, Volume};
use forebay_command::{Failure, output};
use forebay_pmem::{Kernel, Region, RegionOptions};
use serde_json::{Value, json};

use crate::arguments::BenchOptions;
use crate::commands::temporary::TemporaryFiles;

const BLOCK_BYTES: usize = 4096;

/// Turns are short, so that a slow spell of the machine affects both sides.
const TURN: Duration = Duration::from_millis(100);

/// Operations between two readings of the clock.
const BATCH: u64 = 64;

/// One side of a comparison: what ran, how long.
#[derive(Default)]
struct Side {
    operations: u64,
    elapsed: Duration,
}

impl Side {
    fn turn(&mut self, operation: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        let start = Instant::now();
        while start.elapsed() < TURN {
            for _ in 0..BATCH {
                operation()?;
            }
            self.operations += BATCH;
        }
        self.elapsed += start.elapsed();
        Ok(())
    }

    fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}

/// Runs both in turn for `seconds` each, the reference with the best kernel, whichever ours is set to.
fn alternate(
    seconds: u64,
    kernel: Kernel,
    ours: &mut dyn FnMut() -> Result<(), Failure>,
    reference: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<(Side, Side), Failure> {
    let (mut left, mut right) = (Side::default(), Side::default());
    while left.elapsed < Duration::from_secs(seconds) {
        switch_to(kernel)?;
        left.turn(ours)?;
        switch_to(Kernel::best())?;
        right.turn(reference)?;
    }
    Ok((left, right))
}

fn switch_to(kernel: Kernel) -> Result<(), Failure> {
    let switched = kernel.switch_to();
    switched.map_err(|error| Failure::Failed(error.to_string()))
}

/// A stream of block numbers below `bound`, the same in every run (a 64-bit linear congruence).
fn random_blocks(bound: u64) -> impl FnMut() -> u64 {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    }
}

/// Measures one-block commits and read hits over a pool half full.
pub fn run(options: &BenchOptions) -> Result<(), Failure> {
    let name = format!("forebay-bench.{}", std::process::id());
    let path = |suffix: &str| options.directory.join(format!("{name}.{suffix}"));
    let (pool_path, raw_path, backing_path) = (path("pool"), path("raw"), path("backing"));
    let _files = TemporaryFiles::new(vec![
        pool_path.clone(),
        raw_path.clone(),
        backing_path.clone(),
        path("backing.forebay"),
    ])?;
    let blocks = options.size / 2 / BLOCK_BYTES as u64;
    if blocks == 0 {
        return Err(Failure::Failed(
            "the pool to measure must have at least 2 blocks; choose a larger --size".into(),
        ));
    }
    std::fs::File::create(&backing_path)?.set_len(blocks * BLOCK_BYTES as u64)?;
    let raw = Region::create(
        &raw_path,
        blocks * BLOCK_BYTES as u64,
        &RegionOptions::default(),
    )
    .map_err(forebay::Error::from)?;
    let pool = Pool::create(&PoolOptions::new(&pool_path, options.size))?;
    let volume = pool.attach(Backing::file(&backing_path)?)?;
    for block in 0..blocks {
        commit(&volume, block, &[1; BLOCK_BYTES])?;
        raw.stream(block * BLOCK_BYTES as u64, &[1; BLOCK_BYTES]);
    }
    let result = measure(options, &pool, &volume, &raw, blocks)?;
    drop(volume);
    pool.close()?;
    output::object(&result, options.json);
    Ok(())
}

fn commit(volume: &Volume, block: u64, data: &[u8]) -> Result<(), Failure> {
    let mut transaction = volume.begin();
    transaction.write(block, data)?;
    transaction.commit()?;
    Ok(())
}

fn measure(
    options: &BenchOptions,
    pool: &Pool,
    volume: &Volume,
    raw: &Region,
    blocks: u64,
) -> Result<Value, Failure> {
    let data = [7_u8; BLOCK_BYTES];
    let mut next = random_blocks(blocks);
    let mut next_raw = random_blocks(blocks);
    let kernel = Kernel::current();
    let before = pool.counters();
    let (commits, streams) = alternate(
        options.seconds,
        kernel,
        &mut || commit(volume, next(), &data),
        &mut || {
            raw.stream(next_raw() * BLOCK_BYTES as u64, &data);
            raw.fence()
                .map_err(|error| forebay::Error::from(error).into())
        },
    )?;
    let after = pool.counters();
    let (mut out, mut raw_out) = ([0; BLOCK_BYTES], [0; BLOCK_BYTES]);
    let (reads, copies) = alternate(
        options.seconds,
        kernel,
        &mut || Ok(volume.read(next(), &mut out)?),
        &mut || {
            raw.read(next_raw() * BLOCK_BYTES as u64, &mut raw_out);
            Ok(())
        },
    )?;
    let each = |count: fn(&Counters) -> u64| {
        (count(&after) - count(&before)) as f64 / commits.operations as f64
    };
    Ok(json!({
        "directory": options.directory.to_string_lossy(),
        "kernel": kernel.name(),
        "commit_1x4k_per_second": commits.per_second().round(),
        "raw_write_and_fence_per_second": streams.per_second().round(),
        "commit_1x4k_vs_raw": commits.per_second() / streams.per_second(),
        "commit_1x4k_fences": each(|counters| counters.fences),
        "commit_1x4k_lines": each(|counters| counters.lines_flushed + counters.lines_streamed),
        "read_hit_4k_per_second": reads.per_second().round(),
        "memory_copy_per_second": copies.per_second().round(),
        "read_hit_4k_vs_memcpy": reads.per_second() / copies.per_second(),
    }))
}
