//! What a mirror of two members writes, counted exactly, both members together.

use forebay::{Backing, Pool};

use super::Bench;
use super::lines::{Window, count};
use crate::allocator::held_bytes;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, CachedPool, Members, commit_one};
use forebay_harness::{Result, Row};

/// Bytes of a small change.
pub(super) const SMALL_BYTES: usize = 256;
/// Blocks of the large transactions.
pub(super) const GROUP: usize = 16;

fn with_half_full<T>(bench: &Bench, measure: impl FnOnce(&CachedPool) -> Result<T>) -> Result<T> {
    let members = Members::new(&bench.scratch);
    measure(&pools::half_full(&members.mirror(bench.pool_bytes))?)
}

/// One-block transactions over resident blocks.
pub fn one_block(bench: &Bench) -> Result<Vec<Row>> {
    with_half_full(bench, |cached| {
        let (mut payload, mut blocks) = (Payload::new(61), Blocks::new(61, 0, cached.blocks));
        let window = count(bench, &cached.pool, || {
            commit_one(&cached.volume, blocks.next(), payload.next())
        })?;
        Ok(vec![
            Row::new("mirror_1x4k_fences", window.fences(), "fences"),
            Row::new("mirror_1x4k_lines", window.lines(), "lines"),
        ])
    })
}

/// Sixteen-block transactions over resident blocks.
pub fn sixteen_blocks(bench: &Bench) -> Result<Vec<Row>> {
    with_half_full(bench, |cached| {
        let (mut payload, mut blocks) = (Payload::new(62), Blocks::new(62, 0, cached.blocks));
        let window = count(bench, &cached.pool, || {
            let mut transaction = cached.volume.begin();
            for block in blocks.next_distinct::<GROUP>() {
                transaction.write(block, payload.next())?;
            }
            Ok(transaction.commit()?)
        })?;
        let lines = window.lines() / GROUP as f64;
        Ok(vec![Row::new(
            "mirror_16x4k_lines_per_block",
            lines,
            "lines",
        )])
    })
}

/// 256 bytes changed at whole cache lines, and 256 bytes appended to a block.
pub fn small_changes(bench: &Bench) -> Result<Vec<Row>> {
    with_half_full(bench, |cached| {
        let (mut payload, mut blocks) = (Payload::new(63), Blocks::new(63, 0, cached.blocks));
        let mut offsets = Blocks::new(64, 0, (BLOCK_BYTES - SMALL_BYTES) as u64 / 64 + 1);
        let deltas = cached.pool.stats().totals.deltas_written;
        let changed = count(bench, &cached.pool, || {
            let at = blocks.next() * BLOCK_BYTES as u64 + offsets.next() * 64;
            let mut transaction = cached.volume.begin();
            transaction.write_at(at, &payload.next()[..SMALL_BYTES])?;
            Ok(transaction.commit()?)
        })?;
        let deltas = cached.pool.stats().totals.deltas_written - deltas;
        check_share("deltas", deltas, &changed)?;
        let mut appends = Appends::new(cached);
        let appended = count(bench, &cached.pool, || appends.next(payload.next()))?;
        Ok(vec![
            Row::new("mirror_delta_256b_lines", changed.lines(), "lines"),
            Row::new(
                "mirror_append_256b_lines",
                appended.lines() - appends.lines_of_first(&appended),
                "lines",
            ),
        ])
    })
}

fn check_share(what: &str, done: u64, window: &Window) -> Result<()> {
    match done == window.operations {
        true => Ok(()),
        false => Err(format!("{done} of {} were {what}", window.operations).into()),
    }
}

/// Blocks that grow by appends from half a block to their end, one after the other.
pub(super) struct Appends<'c> {
    cached: &'c CachedPool,
    block: u64,
    at: usize,
    firsts: u64,
}

impl<'c> Appends<'c> {
    const START: usize = SMALL_BYTES;

    pub(super) fn new(cached: &'c CachedPool) -> Appends<'c> {
        Appends {
            cached,
            block: 0,
            at: 0,
            firsts: 0,
        }
    }

    /// Appends to a block; one that is full is begun anew first, whole.
    pub(super) fn next(&mut self, data: &[u8]) -> Result<()> {
        if self.at + SMALL_BYTES >= BLOCK_BYTES || self.at == 0 {
            self.block = (self.block + 7919) % self.cached.blocks;
            self.put(0, &data[..Self::START])?;
            self.at = Self::START;
            self.firsts += 1;
        }
        self.put(self.at, &data[..SMALL_BYTES])?;
        self.at += SMALL_BYTES;
        Ok(())
    }

    fn put(&self, at: usize, data: &[u8]) -> Result<()> {
        let mut transaction = self.cached.volume.begin();
        transaction.append(self.block, at, data)?;
        Ok(transaction.commit()?)
    }

    /// Lines, for each append, that the beginnings of blocks take: their bytes and the trailer, a record, twice.
    fn lines_of_first(&self, window: &Window) -> f64 {
        let lines = 2 * (Self::START / 64 + 1 + 1);
        self.firsts as f64 * lines as f64 / window.operations as f64
    }
}

/// Blocks that the backing has are brought in.
pub fn fills(bench: &Bench) -> Result<Vec<Row>> {
    let members = Members::new(&bench.scratch);
    let pool = Pool::create(&members.mirror(bench.pool_bytes))?;
    let blocks = pool.stats().slots / 2;
    let volume = pool.attach(Backing::memory(blocks * BLOCK_BYTES as u64))?;
    let mut out = vec![0; BLOCK_BYTES];
    pool.checkpoint()?;
    let before = (pool.counters(), pool.stats().totals.fills);
    for block in 0..blocks {
        volume.read(block, &mut out)?;
    }
    pool.checkpoint()?;
    let counted = pool.counters() - before.0;
    let fills = pool.stats().totals.fills - before.1;
    if fills < blocks * 9 / 10 {
        return Err(format!("{fills} of {blocks} blocks were brought in").into());
    }
    let lines = counted.lines() as f64 / fills as f64;
    Ok(vec![Row::new("mirror_fill_lines", lines, "lines")])
}

/// A checkpoint with something to do.
pub fn checkpoints(bench: &Bench) -> Result<Vec<Row>> {
    with_half_full(bench, |cached| {
        let mut payload = Payload::new(65);
        let mut fences = Vec::new();
        for block in 0..8 {
            commit_one(&cached.volume, block, payload.next())?;
            let before = cached.pool.counters().fences;
            cached.pool.checkpoint()?;
            fences.push((cached.pool.counters().fences - before) as f64);
        }
        let most = fences.into_iter().fold(0.0, f64::max);
        Ok(vec![Row::new("checkpoint_fences", most, "fences")])
    })
}

/// Bytes of DRAM held with a full pool open, for each cached block.
pub fn dram(bench: &Bench) -> Result<Vec<Row>> {
    let (members, disk) = (Members::new(&bench.scratch), bench.scratch.file("disk"));
    let options = pools::idle(members.mirror(bench.pool_bytes));
    let pool = Pool::create(&options)?;
    let blocks = pool.stats().slots * pools::FULL_PER_MILLE / 1000;
    std::fs::File::create(disk.path())?.set_len(blocks * BLOCK_BYTES as u64)?;
    let volume = pool.attach(Backing::file(disk.path())?)?;
    pools::fill(&volume, blocks)?;
    drop(volume);
    pool.close()?;
    let before = held_bytes();
    let pool = Pool::open_with(&members.paths(), options.runtime_options().clone())?;
    let _volume = pool.attach(Backing::file(disk.path())?)?;
    let held = held_bytes() - before;
    let stats = pool.stats();
    let each = |bytes: u64| bytes as f64 / stats.cached_blocks as f64;
    // What is mapped and not allocated: the entries.
    let stated = stats.dram_bytes.max(held);
    Ok(vec![Row::new(
        "dram_bytes_per_block_mirror",
        each(stated),
        "bytes",
    )])
}
