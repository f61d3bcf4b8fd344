//! The commit of several whole blocks, without the gathering that changes of all kinds need.

use super::shape::{Ascending, Shape};
use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::engine::plan::Scratch;
use crate::error::Result;
use crate::log::lanes::HeldLane;
use crate::log::record::{self, RecordHeader, padded, record_bytes};
use crate::media::Media;
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

/// The slot of a fresh block before it has one.
pub(crate) const NO_SLOT: u32 = u32::MAX;

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
    /// It was probed for duplicates, so it is remembered whatever its CRC.
    pub(crate) finds_duplicates: bool,
    /// Decided under the locks.
    chosen: Chosen,
    /// What goes there, once the block is streamed.
    entry: Entry,
}

impl Block {
    /// A block at the start of the commit's data.
    #[inline]
    pub(crate) fn new(key: Key, bucket: Bucket) -> Block {
        Block {
            key,
            bucket,
            source: Source::Data { at: 0 },
            slot: NO_SLOT,
            sketch: None,
            finds_duplicates: false,
            chosen: Chosen::NOTHING,
            entry: Entry::FREE,
        }
    }

    /// The same in the memory of another one, but for where it is. What a commit decides stays until it does.
    #[inline(always)]
    pub(crate) fn renew(&mut self, key: Key, bucket: Bucket) {
        self.key = key;
        self.bucket = bucket;
        self.slot = NO_SLOT;
        self.sketch = None;
        self.finds_duplicates = false;
    }

    /// Where it is in the commit's data, if it is there.
    #[inline(always)]
    pub(crate) fn data_at(&self) -> Option<usize> {
        match self.source {
            Source::Data { at } => Some(at),
            Source::Slot { .. } => None,
        }
    }
}

/// The entry chosen for a block.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    pub(super) index: u32,
    pub(super) fresh: bool,
    pub(super) freed: Option<SlotRef>,
}

impl Chosen {
    /// None yet.
    pub(super) const NOTHING: Chosen = Chosen {
        index: 0,
        fresh: false,
        freed: None,
    };
}

/// Whole blocks of different keys of one volume, where the caller has them.
struct Whole<'a, B> {
    slot_cache: &'a SlotCache<'a>,
    blocks: &'a mut [B],
    data: &'a [u8],
    /// Probes for duplicates pay, so all blocks are remembered whatever their CRC.
    finds_duplicates: bool,
    /// Memory for the record.
    record: &'a mut Vec<u64>,
    /// Memory for where the blocks of the row that is being filled are.
    row: &'a mut Vec<usize>,
    /// Memory for the stripes; taken by `stripes`.
    stripes: Option<&'a mut Vec<u32>>,
}

impl Engine {
    /// Commits blocks of different keys of one volume, all or none, under the rules of [`Engine::commit`].
    pub(crate) fn commit_whole<B: AsRef<Block> + AsMut<Block>>(
        &self,
        blocks: &mut [B],
        data: &[u8],
        slot_cache: &SlotCache<'_>,
        scratch: &mut Scratch,
    ) -> Result<Outcome> {
        let Scratch {
            stripes,
            record,
            row,
            ..
        } = scratch;
        // Not under the locks.
        record::reserve_whole(record, blocks.len());
        let shape = Whole {
            slot_cache,
            blocks,
            data,
            finds_duplicates: self.content.finds_duplicates(),
            record,
            row,
            stripes: Some(stripes),
        };
        self.commit_batch(shape)
    }

    /// Finds the key's entry or takes a free one; false if there is none. The caller holds the stripe's lock,
    /// and has seen under it that the volume is attached.
    #[inline(always)]
    pub(super) fn choose_entry(
        &self,
        key: Key,
        bucket: Bucket,
        chosen: &mut Chosen,
    ) -> Result<bool> {
        let Some((index, raw)) = self.table.find(bucket, key) else {
            let taken = self.table.pop_free_entry(bucket);
            chosen.index = taken.unwrap_or(0);
            chosen.fresh = true;
            chosen.freed = None;
            return Ok(taken.is_some());
        };
        let Some(old) = self.media().sound(raw) else {
            return Err(self.corrupt(key));
        };
        // The publication reads it after the fence.
        self.table.states().prefetch(index);
        chosen.index = index;
        chosen.fresh = false;
        chosen.freed = SlotRef::of(old);
        Ok(true)
    }
}

impl<'a, B: AsRef<Block> + AsMut<Block>> Whole<'a, B> {
    #[cold]
    fn stream_record_to_each(&mut self, media: &Media, offset: u64, header: RecordHeader) {
        media.on_metadata(|region| {
            let elements = self.blocks.iter().map(AsRef::as_ref);
            let elements = elements.map(|block: &Block| (block.entry, block.chosen.index));
            record::stream_whole(region, offset, &header, elements, self.record);
        });
    }

    #[cold]
    fn complete(&self, engine: &Engine) -> Result<()> {
        self.blocks()
            .try_for_each(|block| engine.complete_block(block))
    }

    #[inline(always)]
    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().map(AsRef::as_ref)
    }
}

impl<'a, B: AsRef<Block> + AsMut<Block>> Shape for Whole<'a, B> {
    type Stripes = Ascending<'a>;

    #[inline(always)]
    fn record_bytes(&self) -> u64 {
        padded(record_bytes(self.blocks.len(), 0))
    }

    #[inline(always)]
    fn stripes(&mut self) -> Ascending<'a> {
        let memory = self.stripes.take().expect("they are asked for once");
        let stripes = self.blocks().map(|block| block.bucket.stripe);
        Ascending::of(stripes, memory)
    }

    #[inline(always)]
    fn plan(&mut self, engine: &Engine) -> Result<Option<Outcome>> {
        let Some(Block { key, .. }) = self.blocks().next() else {
            return Ok(None);
        };
        let is_of_volume = |block: &Block| block.key.volume() == key.volume();
        debug_assert!(self.blocks().all(is_of_volume), "blocks of one volume");
        // All locks are held: what one look says holds for every block.
        engine.check_attached(*key)?;
        if engine.media().is_mirrored() {
            self.complete(engine)?;
        }
        for (number, block) in self.blocks.iter_mut().map(AsMut::as_mut).enumerate() {
            let is_chosen = engine.choose_entry(block.key, block.bucket, &mut block.chosen);
            if !matches!(is_chosen, Ok(true)) {
                let planned = self.blocks().take(number).map(|block| block.chosen);
                for chosen in planned.filter(|chosen| chosen.fresh) {
                    engine.table.index().push_free(chosen.index);
                }
                return is_chosen.map(|_| Some(Outcome::NoEntry));
            }
        }
        Ok(None)
    }

    #[inline(always)]
    fn stream(&mut self, engine: &Engine, lane: &HeldLane<'_>, sequence: u64) -> u64 {
        for block in self.blocks.iter_mut().map(AsMut::as_mut) {
            let crc = match block.source {
                Source::Slot { crc } => crc,
                Source::Data { at } => match engine.media().column_of(block.slot) {
                    None => {
                        let bytes = &self.data[at..at + engine.block_bytes()];
                        engine.media().stream_slot(block.slot, bytes)
                    }
                    Some(column) => (engine.media()).stream_column(column, self.data, at, self.row),
                },
            };
            block.entry = Entry::hashed_data(block.key, block.bucket.hash_bits, block.slot, crc);
            engine.content.prefetch(crc);
        }
        let header = engine.log.header(lane, sequence);
        let offset = engine.log.record_offset(engine.media(), lane);
        if engine.media().is_mirrored() {
            self.stream_record_to_each(engine.media(), offset, header);
        } else {
            let elements = self.blocks.iter().map(AsRef::as_ref);
            let elements = elements.map(|block: &Block| (block.entry, block.chosen.index));
            record::stream_whole(
                engine.media().main(),
                offset,
                &header,
                elements,
                self.record,
            );
        }
        self.record_bytes()
    }

    #[inline(always)]
    fn publish(&self, engine: &Engine) {
        let hits = engine.replacement.hits();
        if engine.media().geometry.has_rows {
            (self.blocks()).for_each(|block| {
                engine.table.note_column(block.slot, block.chosen.index);
            });
        }
        for block in self.blocks() {
            // As `publish_block`, but for the look at which policy is told of hits.
            let Chosen { index, fresh, .. } = block.chosen;
            let dirtied = engine
                .table
                .install(block.bucket, index, block.entry, fresh);
            if fresh {
                engine.replacement.on_insert(index);
            } else {
                hits.on_hit(index);
            }
            engine.note_dirtied(dirtied);
        }
    }

    #[inline(always)]
    fn note(&self, engine: &Engine) {
        for block in self.blocks() {
            let crc = block.entry.hashed_crc(block.bucket.hash_bits);
            let index = block.chosen.index;
            let finds_duplicates = self.finds_duplicates | block.finds_duplicates;
            engine.note_block(crc, index, block.sketch, finds_duplicates);
        }
    }

    #[inline(always)]
    fn release_freed(&self, engine: &Engine) {
        let freed = self.blocks().filter_map(|block| block.chosen.freed);
        engine.table.release_slots(freed, self.slot_cache);
    }

    #[inline(always)]
    fn effects(&self) -> usize {
        self.blocks.len()
    }
}
