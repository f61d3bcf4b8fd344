//! The pools and the raw memory that cases run over.

use std::path::Path;

use forebay::{Backing, Pool, PoolOptions, Volume};
use forebay_pmem::{Region, RegionOptions};

use crate::Result;
use crate::payload::{BLOCK_BYTES, Payload};

/// Blocks a transaction writes while a pool is filled.
const FILL_BLOCKS: u64 = 64;

/// A pool with a volume of which every block is cached.
pub struct CachedPool {
    /// The pool.
    pub pool: Pool,
    /// Its volume.
    pub volume: Volume,
    /// Blocks of the volume, all of them cached.
    pub blocks: u64,
}

/// Options of the measured pools: everything as it is by default, except that write-back rests
/// while the pool is half dirty, so that a backing does not take part.
pub fn options(path: &Path, bytes: u64) -> PoolOptions {
    let mut options = PoolOptions::new(path, bytes);
    options.runtime.dirty_high_per_mille = 950;
    options.runtime.dirty_low_per_mille = 900;
    options
}

/// A new pool, half full of dirty blocks.
pub fn half_full(options: &PoolOptions) -> Result<CachedPool> {
    let pool = Pool::create(options)?;
    let blocks = pool.stats().slots / 2;
    let volume = pool.attach(Backing::memory(blocks * BLOCK_BYTES as u64))?;
    fill(&volume, blocks)?;
    let cached = pool.stats().cached_blocks;
    if cached != blocks {
        return Err(format!("{cached} blocks are cached, not the {blocks} written").into());
    }
    Ok(CachedPool {
        pool,
        volume,
        blocks,
    })
}

/// Writes blocks `0..blocks`.
pub fn fill(volume: &Volume, blocks: u64) -> Result<()> {
    let mut payload = Payload::new(1);
    let mut block = 0;
    while block < blocks {
        let mut transaction = volume.begin();
        for number in block..blocks.min(block + FILL_BLOCKS) {
            transaction.write(number, payload.next())?;
        }
        transaction.commit()?;
        block += FILL_BLOCKS;
    }
    Ok(())
}

/// Overwrites one block.
#[inline]
pub fn commit_one(volume: &Volume, block: u64, data: &[u8]) -> Result<()> {
    let mut transaction = volume.begin();
    transaction.write(block, data)?;
    transaction.commit()?;
    Ok(())
}

/// Raw memory: mapped as a pool of the same size would be, huge pages included, every page touched.
pub fn raw_memory(path: &Path, bytes: u64) -> Result<Region> {
    let region = Region::create(path, bytes, &RegionOptions::default())?;
    let mut payload = Payload::new(2);
    for block in 0..bytes / BLOCK_BYTES as u64 {
        region.stream(block * BLOCK_BYTES as u64, payload.next());
    }
    region.fence()?;
    Ok(region)
}
