//! The commit of several whole blocks, without the gathering that changes of all kinds need.

use super::shape::{Ascending, Shape};
use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::engine::plan::Effect;
use crate::error::Result;
use crate::log::lanes::HeldLane;
use crate::log::record::{self, padded, record_bytes};
use crate::media::entry::{Entry, Key};
use crate::policy::candidates::Sketch;
use crate::table::index::Bucket;
use crate::table::slot_ref::SlotRef;
use crate::table::slots::SlotCache;

/// Where a block's bytes are.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// In the commit's data, from byte `at` on.
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
    /// The block's sketch, if similar blocks may be looked for.
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

/// The entry chosen for a block.
pub(super) struct Chosen {
    pub(super) index: u32,
    pub(super) fresh: bool,
    pub(super) freed: Option<SlotRef>,
}

/// Whole blocks of different keys.
struct Whole<'a> {
    slot_cache: &'a SlotCache<'a>,
    blocks: &'a mut [Block],
    data: &'a [u8],
    /// Memory for the stripes; taken by `stripes`.
    stripes: Option<&'a mut Vec<u32>>,
}

impl Engine {
    /// Commits blocks of different keys, all or none, under the rules of [`Engine::commit`].
    pub(crate) fn commit_whole(
        &self,
        blocks: &mut [Block],
        data: &[u8],
        slot_cache: &SlotCache<'_>,
        stripes: &mut Vec<u32>,
    ) -> Result<Outcome> {
        let shape = Whole {
            slot_cache,
            blocks,
            data,
            stripes: Some(stripes),
        };
        self.commit_batch(shape)
    }

    /// Streams a block into its slot unless it is there already; returns its entry.
    #[inline(always)]
    pub(super) fn stream_block(&self, key: Key, slot: u32, source: Source, data: &[u8]) -> Entry {
        let crc = match source {
            Source::Slot { crc } => crc,
            Source::Data { at } => {
                let media = self.media();
                media.stream_slot(slot, &data[at..at + media.block_bytes()])
            }
        };
        Entry::data(key, slot, crc)
    }

    /// Finds the key's entry or takes a free one; `None` if there is none. The caller holds the stripe's
    /// lock.
    #[inline(always)]
    pub(super) fn choose_entry(&self, key: Key, bucket: Bucket) -> Result<Option<Chosen>> {
        self.attached(key)?;
        let Some((index, raw)) = self.table.find(bucket, key) else {
            let taken = self.table.pop_free_entry(bucket);
            return Ok(taken.map(|index| Chosen {
                index,
                fresh: true,
                freed: None,
            }));
        };
        let Some(old) = self.media().sound(raw) else {
            return Err(self.corrupt(key));
        };
        // The publication reads it after the fence.
        self.table.states().prefetch(index);
        Ok(Some(Chosen {
            index,
            fresh: false,
            freed: SlotRef::of(old),
        }))
    }
}

impl<'a> Shape for Whole<'a> {
    type Stripes = Ascending<'a>;

    #[inline(always)]
    fn record_bytes(&self) -> u64 {
        padded(record_bytes(self.blocks.len(), 0))
    }

    #[inline(always)]
    fn stripes(&mut self) -> Ascending<'a> {
        let memory = self.stripes.take().expect("they are asked for once");
        let stripes = self.blocks.iter().map(|block| block.bucket.stripe);
        Ascending::of(stripes, memory)
    }

    #[inline(always)]
    fn plan(&mut self, engine: &Engine) -> Result<Option<Outcome>> {
        for number in 0..self.blocks.len() {
            let block = &mut self.blocks[number];
            let chosen = engine.choose_entry(block.key, block.bucket);
            let Ok(Some(chosen)) = chosen else {
                let taken = self.blocks[..number].iter();
                for block in taken.filter(|block| block.effect.fresh) {
                    engine.table.index().push_free(block.effect.index);
                }
                return chosen.map(|_| Some(Outcome::NoEntry));
            };
            let effect = &mut block.effect;
            (effect.index, effect.fresh, effect.freed) = (chosen.index, chosen.fresh, chosen.freed);
        }
        Ok(None)
    }

    #[inline(always)]
    fn stream(&mut self, engine: &Engine, lane: &HeldLane<'_>, sequence: u64) -> u64 {
        for block in &mut *self.blocks {
            let entry = engine.stream_block(block.key, block.slot, block.source, self.data);
            block.effect.entry = entry;
            engine.content.prefetch(entry.crc());
        }
        let header = engine.log.header(lane, sequence);
        let offset = engine.log.record_offset(engine.media(), lane);
        let elements = self.blocks.iter().map(|block| &block.effect);
        let elements = elements.map(|effect| (effect.entry, effect.index));
        let count = self.blocks.len();
        record::stream_whole(engine.media().main(), offset, &header, count, elements);
        self.record_bytes()
    }

    #[inline(always)]
    fn publish(&self, engine: &Engine) {
        for block in &*self.blocks {
            engine.publish_entry(block.bucket, &block.effect);
        }
    }

    #[inline(always)]
    fn note(&self, engine: &Engine) {
        for block in &*self.blocks {
            let effect = &block.effect;
            engine.note_block(effect.entry.crc(), effect.index, block.sketch);
        }
    }

    #[inline(always)]
    fn release_freed(&self, engine: &Engine) {
        let freed = self.blocks.iter().filter_map(|block| block.effect.freed);
        freed.for_each(|slot_ref| engine.table.release_slot(slot_ref, self.slot_cache));
    }

    #[inline(always)]
    fn effects(&self) -> usize {
        self.blocks.len()
    }
}
