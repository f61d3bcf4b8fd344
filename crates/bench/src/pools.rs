//! The pools and the raw memory that cases run over.

use std::path::Path;

use forebay::{Backing, Pool, PoolOptions, Redundancy, Volume};
use forebay_pmem::{Region, RegionOptions};

use crate::contest::Contender;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::scratch::{Scratch, ScratchFile};
use forebay_harness::Result;

/// Blocks of a full pool, per mille of its slots: reclaim keeps the others free.
pub const FULL_PER_MILLE: u64 = 970;

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
    PoolOptions::new(path, bytes)
        .dirty_high_per_mille(950)
        .dirty_low_per_mille(900)
}

/// The same of a pool from which nothing is written back: it is found full and dirty.
pub fn dirty_options(path: &Path, bytes: u64) -> PoolOptions {
    options(path, bytes)
        .dirty_high_per_mille(1000)
        .dirty_low_per_mille(1000)
}

/// The same of any pool.
pub fn idle(options: PoolOptions) -> PoolOptions {
    options.dirty_high_per_mille(1000).dirty_low_per_mille(1000)
}

/// Files in memory, mostly two; removed when dropped.
pub struct Members(Vec<ScratchFile>);

impl Members {
    /// Their names.
    pub fn new(scratch: &Scratch) -> Members {
        Members::named(scratch, "pool")
    }
    /// The same by another name.
    pub fn named(scratch: &Scratch, name: &str) -> Members {
        Members::many(scratch, name, 2)
    }
    /// So many, by this name.
    pub fn many(scratch: &Scratch, name: &str, count: usize) -> Members {
        let letters = ('a'..).take(count);
        let file = |member| scratch.file(&format!("{name}-{member}"));
        Members(letters.map(file).collect())
    }
    /// Where they are.
    pub fn paths(&self) -> Vec<&Path> {
        self.0.iter().map(|file| file.path()).collect()
    }
    /// A mirror of them.
    pub fn mirror(&self, member_bytes: u64) -> PoolOptions {
        self.with(Redundancy::Mirror, member_bytes)
    }
    /// A pool over all.
    pub fn with(&self, redundancy: Redundancy, member_bytes: u64) -> PoolOptions {
        self.none(member_bytes).redundancy(redundancy)
    }
    /// A pool over all without redundancy.
    pub fn none(&self, member_bytes: u64) -> PoolOptions {
        options(self.0[0].path(), member_bytes)
            .members(self.paths().into_iter().skip(1))
            .redundancy(Redundancy::None)
    }
}

/// A new pool, half full of dirty blocks.
pub fn half_full(options: &PoolOptions) -> Result<CachedPool> {
    let pool = Pool::create(options)?;
    let blocks = pool.stats().slots / 2;
    filled(pool, blocks)
}

/// A new pool, as full of dirty blocks as reclaim leaves it; nothing is written back from it.
pub fn full(options: PoolOptions) -> Result<CachedPool> {
    let pool = Pool::create(&idle(options))?;
    let blocks = pool.stats().slots * FULL_PER_MILLE / 1000;
    filled(pool, blocks)
}

/// A new pool with so many dirty blocks.
pub fn with_blocks(options: &PoolOptions, blocks: u64) -> Result<CachedPool> {
    filled(Pool::create(options)?, blocks)
}

fn filled(pool: Pool, blocks: u64) -> Result<CachedPool> {
    filled_over(pool, Backing::memory(blocks * BLOCK_BYTES as u64), blocks)
}

/// A pool with so many dirty blocks of a backing.
pub fn filled_over(pool: Pool, backing: Backing, blocks: u64) -> Result<CachedPool> {
    let volume = pool.attach(backing)?;
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

/// Operations between two looks at the clock.
const BATCH: u64 = 64;

/// Overwrites blocks at random, one a commit.
pub fn overwrites<'p>(name: &'static str, pool: &'p CachedPool, seed: u64) -> Contender<'p> {
    let (mut payload, mut blocks) = (Payload::new(seed), Blocks::new(seed, 0, pool.blocks));
    Contender::new(name, move || {
        for _ in 0..BATCH {
            commit_one(&pool.volume, blocks.next(), payload.next())?;
        }
        Ok(BATCH)
    })
}

/// The share of what is resident that must be mapped by huge pages.
const HUGE_PER_CENT: u64 = 95;

/// What rows say whose two sides do not both lie in huge pages: misses of the address translation
/// then move them by a third.
pub fn note_of_pages(files: &[&Path]) -> Option<&'static str> {
    let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let are_huge = files
        .iter()
        .all(|file| is_in_huge_pages(&mappings, &file.to_string_lossy()));
    (!are_huge).then_some("noisy")
}

/// Whether the file is mapped, and by huge pages. A mapping begins with a line that ends in its
/// file's name, and goes on with lines of `Name: NUMBER kB` (proc(5)).
fn is_in_huge_pages(mappings: &str, file: &str) -> bool {
    let (mut resident_kib, mut huge_kib, mut is_inside) = (0, 0, false);
    for line in mappings.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next().and_then(|word| word.strip_suffix(':')) else {
            is_inside = line.ends_with(file);
            continue;
        };
        let count: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match name {
            "Rss" if is_inside => resident_kib += count,
            "ShmemPmdMapped" | "FilePmdMapped" if is_inside => huge_kib += count,
            _ => {}
        }
    }
    resident_kib > 0 && huge_kib * 100 >= resident_kib * HUGE_PER_CENT
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

#[cfg(test)]
mod tests {
    use super::is_in_huge_pages;

    #[test]
    fn huge_pages_are_those_of_the_mappings_of_the_file() {
        let mapping = |file: &str, huge_kib: u64| {
            format!(
                "7f0000000000-7f0040000000 rw-s 00000000 00:19 77   {file}\n\
                 Size:            4096 kB\nRss:             4096 kB\nAnonHugePages:      0 kB\n\
                 ShmemPmdMapped:  {huge_kib} kB\nVmFlags: rd wr sh\n"
            )
        };
        let mappings = mapping("/dev/shm/pool", 4096) + &mapping("/dev/shm/raw", 2048);
        assert!(is_in_huge_pages(&mappings, "/dev/shm/pool"));
        assert!(!is_in_huge_pages(&mappings, "/dev/shm/raw"));
        assert!(!is_in_huge_pages(&mappings, "/dev/shm/other"));
    }
}
