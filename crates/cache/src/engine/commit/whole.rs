//! The commit of whole blocks, which nearly all commits are: the steps of `commit`, with nothing
//! gathered that is not needed.
//!
//! Time matters most between the first locked operation, which waits for the last commit's
//! stores, and the first non-temporal store. After the block's stores, what is loaded must not be
//! wider than the stores that made it: such a load waits until all of them have left the processor.

use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::engine::plan::Effect;
use crate::error::Slim;
use crate::log::lanes::HeldLane;
use crate::log::record::{self, padded, record_bytes};
use crate::media::entry::{Entry, Key};
use crate::mutants::{Mutant, mutated};
use crate::policy::candidates::Sketch;
use crate::table::index::Bucket;
use crate::table::slot_ref::SlotRef;
use crate::table::slots::SlotCache;

/// Where a block's bytes are.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// At this place of the commit's data.
    Data { at: usize },
    /// In the slot already, streamed by this thread, with this CRC.
    Slot { crc: u32 },
}

/// A whole block to commit.
pub(crate) struct Block {
    pub(crate) key: Key,
    pub(crate) bucket: Bucket,
    pub(crate) source: Source,
    /// The private slot that it goes into.
    pub(crate) slot: u32,
    /// What is decided under the lock.
    pub(crate) effect: Effect,
    /// What the block looks like, if that may be looked up.
    pub(crate) sketch: Option<Sketch>,
}

impl Block {
    pub(crate) fn new(key: Key, bucket: Bucket, source: Source, slot: u32) -> Block {
        Block {
            key,
            bucket,
            source,
            slot,
            effect: Effect::default(),
            sketch: None,
        }
    }
}

impl Engine {
    /// Commits blocks of different keys, all or none; what [`Engine::commit`] says holds here.
    pub(crate) fn commit_whole(
        &self,
        blocks: &mut [Block],
        data: &[u8],
        slot_cache: &SlotCache<'_>,
        stripes: &mut Vec<u32>,
    ) -> Slim<Outcome> {
        let bytes = padded(record_bytes(blocks.len(), 0));
        let lane = self.hold_lane(bytes)?;
        stripes.clear();
        stripes.extend(blocks.iter().map(|block| block.bucket.stripe));
        self.table.lock_stripes(stripes);
        let outcome = self.commit_whole_locked(blocks, data, &lane, slot_cache);
        let Ok(Outcome::Done(_)) = outcome else {
            self.table.unlock_stripes(stripes);
            return outcome;
        };
        for stripe in &*stripes {
            self.table.index().begin_change(*stripe);
        }
        for block in &*blocks {
            self.publish_entry(block.bucket, &block.effect);
        }
        lane.publish(bytes);
        for stripe in &*stripes {
            self.table.index().end_change_and_unlock(*stripe);
        }
        for block in &*blocks {
            let effect = &block.effect;
            self.note_block(effect.entry.crc(), effect.index, block.sketch);
        }
        // Step 8, the slots: their last mapping's removal is fenced (I2), readers were told.
        if !mutated(Mutant::SlotFreedBeforeFence) {
            self.release_freed_of(blocks, slot_cache);
        }
        outcome
    }

    /// Steps 4 to 6 with the locks held, which stay held.
    #[inline]
    fn commit_whole_locked(
        &self,
        blocks: &mut [Block],
        data: &[u8],
        lane: &HeldLane<'_>,
        slot_cache: &SlotCache<'_>,
    ) -> Slim<Outcome> {
        self.still_writable()?;
        for number in 0..blocks.len() {
            let chosen = self.choose_entry(&mut blocks[number]);
            if !matches!(chosen, Ok(true)) {
                for block in blocks[..number].iter().filter(|block| block.effect.fresh) {
                    self.table.index().push_free(block.effect.index);
                }
                return chosen.map(|_| Outcome::NoEntry);
            }
        }
        let sequence = self.log.draw(lane);
        // Step 5.
        for block in &mut *blocks {
            block.effect.entry = self.stream_block(block, data);
            self.content.prefetch(block.effect.entry.crc());
        }
        let header = self.log.header(lane, sequence);
        let offset = self.log.record_offset(self.media(), lane);
        let elements = blocks.iter().map(|block| &block.effect);
        let elements = elements.map(|effect| (effect.entry, effect.index));
        record::stream_whole(self.media().main(), offset, &header, blocks.len(), elements);
        // Step 6: as in `commit_locked`.
        if mutated(Mutant::SlotFreedBeforeFence) {
            self.release_freed_of(blocks, slot_cache);
        }
        self.persist(lane, padded(record_bytes(blocks.len(), 0)))?;
        Ok(Outcome::Done(blocks.len()))
    }

    /// Part of step 5: a block goes into its slot, if it is not there yet; returns its entry.
    #[inline]
    pub(super) fn stream_block(&self, block: &Block, data: &[u8]) -> Entry {
        let crc = match block.source {
            Source::Slot { crc } => crc,
            Source::Data { at } => self
                .media()
                .stream_slot(block.slot, &data[at..at + self.block_bytes()]),
        };
        Entry::data(block.key, block.slot, crc)
    }

    /// Finds the entry that the key has, or takes a free one; false if there is none. The caller
    /// holds the stripe's lock.
    #[inline]
    pub(super) fn choose_entry(&self, block: &mut Block) -> Slim<bool> {
        let (key, bucket, effect) = (block.key, block.bucket, &mut block.effect);
        self.attached(key)?;
        effect.fresh = false;
        let Some((index, old)) = self.table.find(bucket, key) else {
            let taken = self.table.pop_free_entry(key);
            effect.index = taken.unwrap_or_default();
            effect.fresh = true;
            effect.freed = None;
            return Ok(taken.is_some());
        };
        if !self.table.is_sound(old) {
            return Err(Box::new(self.corrupt(key)));
        }
        // The publication will look at it after the fence.
        self.table.states().prefetch(index);
        effect.index = index;
        effect.freed = SlotRef::of(old);
        Ok(true)
    }

    #[inline]
    fn release_freed_of(&self, blocks: &[Block], slot_cache: &SlotCache<'_>) {
        for slot_ref in blocks.iter().filter_map(|block| block.effect.freed) {
            self.table.release_slot(slot_ref, slot_cache);
        }
    }
}
