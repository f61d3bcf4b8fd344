//! The commit of several whole blocks, without the gathering that changes of all kinds need.

use super::shape::{Ascending, Shape};
use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::engine::plan::{Effect, Scratch};
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
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) key: Key,
    pub(crate) bucket: Bucket,
    pub(crate) source: Source,
    /// The private slot that it goes into.
    pub(crate) slot: u32,
    /// The block's sketch, if similar blocks may be looked for.
    pub(crate) sketch: Option<Sketch>,
    /// Probes for duplicates pay, so the block is remembered whatever its CRC.
    pub(crate) finds_duplicates: bool,
}

impl Block {
    #[inline]
    pub(crate) fn new(key: Key, bucket: Bucket, source: Source, slot: u32) -> Block {
        Block {
            key,
            bucket,
            source,
            slot,
            sketch: None,
            finds_duplicates: false,
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
    blocks: &'a [Block],
    data: &'a [u8],
    /// Each block's effect, decided under the locks.
    effects: &'a mut Vec<Effect>,
    /// Memory for the stripes; taken by `stripes`.
    stripes: Option<&'a mut Vec<u32>>,
}

impl Engine {
    /// Commits blocks of different keys, all or none, under the rules of [`Engine::commit`].
    pub(crate) fn commit_whole(
        &self,
        blocks: &[Block],
        data: &[u8],
        slot_cache: &SlotCache<'_>,
        scratch: &mut Scratch,
    ) -> Result<Outcome> {
        let Scratch {
            stripes, effects, ..
        } = scratch;
        effects.clear();
        // Not under the locks.
        effects.reserve(blocks.len());
        let shape = Whole {
            slot_cache,
            blocks,
            data,
            effects,
            stripes: Some(stripes),
        };
        self.commit_batch(shape)
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
        for block in self.blocks {
            let chosen = engine.choose_entry(block.key, block.bucket);
            let Ok(Some(chosen)) = chosen else {
                for effect in self.effects.iter().filter(|effect| effect.fresh) {
                    engine.table.index().push_free(effect.index);
                }
                return chosen.map(|_| Some(Outcome::NoEntry));
            };
            self.effects.push(Effect {
                entry: Entry::FREE,
                index: chosen.index,
                fresh: chosen.fresh,
                freed: chosen.freed,
            });
        }
        Ok(None)
    }

    #[inline(always)]
    fn stream(&mut self, engine: &Engine, lane: &HeldLane<'_>, sequence: u64) -> u64 {
        for (block, effect) in self.blocks.iter().zip(&mut *self.effects) {
            let crc = match block.source {
                Source::Slot { crc } => crc,
                Source::Data { at } => {
                    let bytes = &self.data[at..at + engine.block_bytes()];
                    engine.media().stream_slot(block.slot, bytes)
                }
            };
            effect.entry = Entry::hashed_data(block.key, block.bucket.hash_bits, block.slot, crc);
            engine.content.prefetch(crc);
        }
        let header = engine.log.header(lane, sequence);
        let offset = engine.log.record_offset(engine.media(), lane);
        let elements = self.effects.iter();
        let elements = elements.map(|effect| (effect.entry, effect.index));
        let count = self.blocks.len();
        record::stream_whole(engine.media().main(), offset, &header, count, elements);
        self.record_bytes()
    }

    #[inline(always)]
    fn publish(&self, engine: &Engine) {
        for (block, effect) in self.blocks.iter().zip(&*self.effects) {
            engine.publish_block(block.bucket, effect.index, effect.entry, effect.fresh);
        }
    }

    #[inline(always)]
    fn note(&self, engine: &Engine) {
        for (block, effect) in self.blocks.iter().zip(&*self.effects) {
            let crc = effect.entry.crc();
            engine.note_block(crc, effect.index, block.sketch, block.finds_duplicates);
        }
    }

    #[inline(always)]
    fn release_freed(&self, engine: &Engine) {
        let freed = self.effects.iter().filter_map(|effect| effect.freed);
        freed.for_each(|slot_ref| engine.table.release_slot(slot_ref, self.slot_cache));
    }

    #[inline(always)]
    fn effects(&self) -> usize {
        self.blocks.len()
    }
}
