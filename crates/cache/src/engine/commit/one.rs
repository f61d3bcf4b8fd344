//! The commit of one whole block, the most frequent one; its decisions stay in registers.
//!
//! Time matters most between the first locked operation, which waits for the last commit's
//! stores, and the first non-temporal store.

use super::shape::Shape;
use super::whole::Chosen;
use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::error::Result;
use crate::log::lanes::HeldLane;
use crate::log::record::{self, padded, record_bytes};
use crate::media::entry::{Entry, Key};
use crate::policy::candidates::Sketch;
use crate::table::index::{Bucket, StripeLock};
use crate::table::slots::SlotCache;

/// A whole block to commit alone.
#[derive(Clone, Copy)]
pub(crate) struct OneBlock<'a> {
    pub(crate) key: Key,
    pub(crate) bucket: Bucket,
    pub(crate) bytes: &'a [u8],
    /// The private slot that it is streamed into.
    pub(crate) slot: u32,
    /// The block's sketch, if similar blocks may be looked for.
    pub(crate) sketch: Option<Sketch>,
    /// Probes for duplicates pay, so the block is remembered whatever its CRC.
    pub(crate) finds_duplicates: bool,
}

/// A block, and the entry chosen for it.
struct One<'a> {
    slot_cache: &'a SlotCache<'a>,
    block: OneBlock<'a>,
    stripe: StripeLock<'a>,
    chosen: Chosen,
    entry: Entry,
    crc: u32,
}

impl Engine {
    /// Commits a block under the rules of [`Engine::commit`].
    #[inline(always)]
    pub(crate) fn commit_one(
        &self,
        block: OneBlock<'_>,
        slot_cache: &SlotCache<'_>,
    ) -> Result<Outcome> {
        let shape = One {
            slot_cache,
            block,
            stripe: self.table.index().stripe(block.bucket.stripe),
            chosen: Chosen::NOTHING,
            entry: Entry::FREE,
            crc: 0,
        };
        self.commit_batch(shape)
    }
}

impl<'a> Shape for One<'a> {
    type Stripes = StripeLock<'a>;

    #[inline(always)]
    fn record_bytes(&self) -> u64 {
        padded(record_bytes(1, 0))
    }

    #[inline(always)]
    fn stripes(&mut self) -> StripeLock<'a> {
        self.stripe
    }

    #[inline(always)]
    fn plan(&mut self, engine: &Engine) -> Result<Option<Outcome>> {
        engine.check_attached(self.block.key)?;
        let is_chosen = engine.choose_entry(self.block.key, self.block.bucket, &mut self.chosen)?;
        Ok((!is_chosen).then_some(Outcome::NoEntry))
    }

    #[inline(always)]
    fn stream(&mut self, engine: &Engine, lane: &HeldLane<'_>, sequence: u64) -> u64 {
        let header = engine.log.header(lane, sequence);
        let OneBlock {
            key,
            bucket,
            bytes,
            slot,
            ..
        } = self.block;
        self.crc = engine.media().stream_slot(slot, bytes);
        self.entry = Entry::hashed_data(key, bucket.hash_bits, slot, self.crc);
        engine.content.prefetch(self.crc);
        let offset = engine.log.record_offset(engine.media(), lane);
        let (media, index) = (engine.media(), self.chosen.index);
        if media.is_mirrored() {
            record::stream_one_to_each(media, offset, header, self.entry, index);
        } else {
            record::stream_one(media.main(), offset, &header, self.entry, index);
        }
        self.record_bytes()
    }

    #[inline(always)]
    fn publish(&self, engine: &Engine) {
        let Chosen { index, fresh, .. } = self.chosen;
        engine.publish_block(self.block.bucket, index, self.entry, fresh);
    }

    #[inline(always)]
    fn note(&self, engine: &Engine) {
        let OneBlock {
            sketch,
            finds_duplicates,
            ..
        } = self.block;
        engine.note_block(self.crc, self.chosen.index, sketch, finds_duplicates);
    }

    #[inline(always)]
    fn release_freed(&self, engine: &Engine) {
        if let Some(slot_ref) = self.chosen.freed {
            engine.table.release_slot(slot_ref, self.slot_cache);
        }
    }

    #[inline(always)]
    fn effects(&self) -> usize {
        1
    }
}
