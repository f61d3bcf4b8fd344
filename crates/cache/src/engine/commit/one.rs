//! The commit of one whole block, the most frequent one; its decisions stay in registers.
//!
//! Time matters most between the first locked operation, which waits for the last commit's
//! stores, and the first non-temporal store.

use super::shape::Shape;
use super::whole::{Block, Chosen};
use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::error::Result;
use crate::log::lanes::HeldLane;
use crate::log::record::{self, padded, record_bytes};
use crate::media::entry::Entry;
use crate::table::slots::SlotCache;

/// A block, and the entry chosen for it.
struct One<'a> {
    slot_cache: &'a SlotCache<'a>,
    block: &'a Block,
    data: &'a [u8],
    chosen: Chosen,
    entry: Entry,
}

impl Engine {
    /// Commits a block under the rules of [`Engine::commit`].
    #[inline]
    pub(crate) fn commit_one(
        &self,
        block: &Block,
        data: &[u8],
        slot_cache: &SlotCache<'_>,
    ) -> Result<Outcome> {
        let shape = One {
            slot_cache,
            block,
            data,
            chosen: Chosen {
                index: 0,
                fresh: false,
                freed: None,
            },
            entry: Entry::FREE,
        };
        self.commit_batch(shape)
    }
}

impl Shape for One<'_> {
    type Stripes = u32;

    #[inline(always)]
    fn record_bytes(&self) -> u64 {
        padded(record_bytes(1, 0))
    }

    #[inline(always)]
    fn stripes(&mut self) -> u32 {
        self.block.bucket.stripe
    }

    #[inline(always)]
    fn plan(&mut self, engine: &Engine) -> Result<Option<Outcome>> {
        let Some(chosen) = engine.choose_entry(self.block.key, self.block.bucket)? else {
            return Ok(Some(Outcome::NoEntry));
        };
        self.chosen = chosen;
        Ok(None)
    }

    #[inline(always)]
    fn stream(&mut self, engine: &Engine, lane: &HeldLane<'_>, sequence: u64) -> u64 {
        let header = engine.log.header(lane, sequence);
        let block = self.block;
        self.entry = engine.stream_block(block.key, block.slot, block.source, self.data);
        engine.content.prefetch(self.entry.crc());
        let offset = engine.log.record_offset(engine.media(), lane);
        let main = engine.media().main();
        record::stream_one(main, offset, &header, self.entry, self.chosen.index);
        self.record_bytes()
    }

    #[inline(always)]
    fn publish(&self, engine: &Engine) {
        let Chosen { index, fresh, .. } = self.chosen;
        engine.publish_block(self.block.bucket, index, self.entry, fresh);
    }

    #[inline(always)]
    fn note(&self, engine: &Engine) {
        engine.note_block(self.entry.crc(), self.chosen.index, self.block.sketch);
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
