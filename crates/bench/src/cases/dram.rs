//! DRAM of an open pool, as the allocator sees it.

use forebay::{Backing, Pool};

use super::Bench;
use crate::allocator::held_bytes;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools;
use forebay_harness::{Result, Row};

/// Operations before the second look, so that what grows with use has grown.
const WARM_UP: u64 = 100_000;

/// Bytes held with a full pool open, less those held before, for each cached block.
pub fn per_block(bench: &Bench) -> Result<Vec<Row>> {
    let (file, disk) = (bench.scratch.file("pool"), bench.scratch.file("disk"));
    let options = pools::dirty_options(file.path(), bench.pool_bytes);
    let pool = Pool::create(&options)?;
    let blocks = pool.stats().slots * pools::FULL_PER_MILLE / 1000;
    std::fs::File::create(disk.path())?.set_len(blocks * BLOCK_BYTES as u64)?;
    let volume = pool.attach(Backing::file(disk.path())?)?;
    pools::fill(&volume, blocks)?;
    drop(volume);
    pool.close()?;

    let before = held_bytes();
    let pool = Pool::open_with(&[file.path()], options.runtime_options().clone())?;
    let volume = pool.attach(Backing::file(disk.path())?)?;
    let (mut payload, mut random) = (Payload::new(41), Blocks::new(41, 0, blocks));
    let mut out = vec![0; BLOCK_BYTES];
    for _ in 0..WARM_UP {
        pools::commit_one(&volume, random.next(), payload.next())?;
        volume.read(random.next(), &mut out)?;
    }
    let held = held_bytes() - before;
    let stats = pool.stats();
    let each = |bytes: u64| bytes as f64 / stats.cached_blocks as f64;
    bench.say(&format!(
        "  {} blocks cached in {} slots: {held} bytes held, {} by the pool's own account",
        stats.cached_blocks, stats.slots, stats.dram_bytes
    ));
    Ok(vec![
        Row::new("dram_bytes_per_block", each(held), "bytes"),
        Row::new(
            "dram_bytes_per_block_by_stats",
            each(stats.dram_bytes),
            "bytes",
        ),
    ])
}
