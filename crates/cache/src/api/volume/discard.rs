//! Discards of whole ranges: zero entries for what is cached, zeroes behind the cache for the rest.
//!
//! No lock is held while the backing zeroes; `docs/inside/protocol.md` says what orders it against
//! write-back, fills, changes of part of a block, and detach.

use std::ops::Range;

use super::MemoryVolume;
use crate::background::health::SyncEpoch;
use crate::error::Result;
use crate::mutants::{Mutant, mutated};

/// Blocks that one bulk discard handles at once: the write-back of one of them waits for all of them.
const DISCARD_BLOCKS_MAX: u64 = 256;
/// What is under way while the zeroes are synced: no block, so that only a wait for all waits for it.
const SYNCED: Range<u64> = u64::MAX - 1..u64::MAX;

impl MemoryVolume {
    /// Makes a range of blocks read as zeroes, durably, and gives its room back, also behind the
    /// cache. Not atomic as a whole: a crash may leave part of it done.
    ///
    /// # Errors
    /// As [`MemoryVolume::read`], where the range is outside the volume or the backing cannot zero; as
    /// [`MemoryTransaction::commit`](crate::Transaction::commit).
    pub fn discard(&self, blocks: Range<u64>) -> Result<()> {
        let count = blocks.end.saturating_sub(blocks.start);
        let len = count.saturating_mul(self.block_size() as u64);
        self.check_blocks(blocks.start, usize::try_from(len).unwrap_or(usize::MAX))?;
        self.pipeline.engine().check_writable()?;
        // Until the sync, the zeroes that a reader finds behind the cache may go again in a crash.
        let zeroing = self.state.zeroings.begin(blocks.clone());
        let result = self.discard_all(blocks);
        self.state.zeroings.end(zeroing, result.is_ok());
        result
    }

    fn discard_all(&self, blocks: Range<u64>) -> Result<()> {
        let (first, mut start) = (blocks.start, blocks.start);
        let mut zeroed_behind = false;
        let epoch = self.state.health.sync_epoch();
        while start < blocks.end {
            let end = (start + DISCARD_BLOCKS_MAX).min(blocks.end);
            zeroed_behind |= self.discard_some(start..end)?;
            start = end;
        }
        if zeroed_behind {
            let zeroings = &self.state.zeroings;
            zeroings.zero(SYNCED, || self.sync_zeroes(first, epoch))?;
        }
        Ok(())
    }

    /// The caller has listed this as under way: the volume goes before or afterwards. A failure
    /// reported here once it has gone would be missed by the next volume of this backing.
    fn sync_zeroes(&self, block: u64, epoch: SyncEpoch) -> Result<()> {
        let key = self.key(block);
        let stripe = self.pipeline.table().bucket(key).stripe;
        self.pipeline.table().index().lock(stripe);
        let attached = self.pipeline.engine().check_attached(key);
        self.pipeline.table().index().unlock(stripe);
        attached?;
        let backing = self.state.backing()?;
        let synced = self.state.health.sync_all_since(epoch, backing);
        synced.map_err(|source| self.state.backing_error(source))
    }

    /// What is not cached is zeroed behind the cache, cached blocks become zero entries, a record each.
    fn discard_some(&self, blocks: Range<u64>) -> Result<bool> {
        let cached = self
            .state
            .zeroings
            .zero(blocks.clone(), || self.zero_uncached(blocks.clone()))?;
        // Their write-back zeroes the backing.
        for &block in &cached {
            let mut transaction = self.begin();
            transaction.discard(block..block + 1)?;
            transaction.commit()?;
        }
        Ok((cached.len() as u64) < blocks.end - blocks.start)
    }

    /// Has the backing zero what is not cached, and returns the other blocks. The caller has listed the
    /// blocks as under way.
    fn zero_uncached(&self, blocks: Range<u64>) -> Result<Vec<u64>> {
        let pipeline = &*self.pipeline;
        pipeline.table().pins().disturb(self.id(), &blocks);
        let mut cached = Vec::new();
        for block in blocks.clone() {
            if self.is_cached_or_else_new(block)? {
                cached.push(block);
            }
        }
        pipeline.engine().check_table_whole()?;
        let backing = self.state.backing()?;
        let block_bytes = self.block_size() as u64;
        let mut start = blocks.start;
        for &end in cached.iter().chain([&blocks.end]) {
            if start < end {
                backing
                    .zero_range(start * block_bytes, (end - start) * block_bytes)
                    .map_err(|source| self.state.backing_error(source))?;
            }
            start = end + 1;
        }
        Ok(cached)
    }

    /// Whether the block is cached. If it is not, its stripe gets a new version: no thread brings in,
    /// or builds on, what was read before. From here on no write-back of the block is under way.
    fn is_cached_or_else_new(&self, block: u64) -> Result<bool> {
        let pipeline = &*self.pipeline;
        let key = self.key(block);
        let bucket = pipeline.table().bucket(key);
        crate::sync::look_hint();
        pipeline.table().index().lock(bucket.stripe);
        // A detach strikes the volume off, takes every lock, and then waits for what is listed.
        let attached = pipeline.engine().check_attached(key);
        let is_cached = pipeline.table().find(bucket, key).is_some();
        if is_cached || attached.is_err() || mutated(Mutant::ZeroedUnderReaders) {
            pipeline.table().index().unlock(bucket.stripe);
        } else {
            pipeline.table().index().begin_change(bucket.stripe);
            pipeline
                .table()
                .index()
                .end_change_and_unlock(bucket.stripe);
        }
        attached.map(|()| is_cached)
    }
}
