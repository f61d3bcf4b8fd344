//! Transactions of whole blocks: the caller's memory or the transaction's goes straight to the
//! commit, without the preparations that parts of blocks need.

use super::reduced::{commit_reduced, commit_reduced_one};
use crate::api::volume::Volume;
use crate::api::workspace::{Base, NO_SLOT, Operation, Work, Workspace};
use crate::background::Pipeline;
use crate::engine::Need;
use crate::engine::change::Outcome;
use crate::engine::commit::{Block, OneBlock, Source};
use crate::engine::plan::Scratch;
use crate::error::Result;
use crate::log::lanes::thread_hint;
use crate::media::entry::Key;
use crate::table::index::Bucket;
use crate::table::slots::SlotCache;

/// Commits whole blocks straight from the caller's memory.
pub(crate) fn write_blocks(volume: &Volume, block: u64, data: &[u8]) -> Result<()> {
    let pipeline = &*volume.pipeline;
    volume.keep_pace();
    pipeline.engine().writable()?;
    volume.check_blocks(block, data.len())?;
    pipeline
        .engine()
        .check_transaction_bytes(data.len() as u64)?;
    let block_bytes = pipeline.engine().block_bytes();
    let block_of = |block, at| {
        let key = volume.key(block);
        let bucket = pipeline.table().bucket(key);
        pipeline.table().prefetch(bucket);
        Block::new(key, bucket, Source::Data { at }, NO_SLOT)
    };
    if data.len() == block_bytes {
        let Block { key, bucket, .. } = block_of(block, 0);
        return until_done(pipeline, |slot_cache| {
            attempt_one(pipeline, key, bucket, data, slot_cache)
        });
    }
    let mut work = Work::borrow();
    let Workspace {
        blocks, scratch, ..
    } = &mut *work;
    let places = (block..).zip((0..data.len()).step_by(block_bytes));
    blocks.extend(places.map(|(block, at)| block_of(block, at)));
    until_done(pipeline, |slot_cache| {
        attempt(pipeline, blocks, data, slot_cache, scratch)
    })
}

/// Tries, and makes room where that lacks, holding nothing.
#[inline(always)]
fn until_done(
    pipeline: &Pipeline,
    mut attempt: impl FnMut(&SlotCache<'_>) -> Result<Option<Need>>,
) -> Result<()> {
    loop {
        let slot_cache = pipeline.table().slots().slot_cache(thread_hint());
        let Some(need) = attempt(&slot_cache)? else {
            return Ok(());
        };
        drop(slot_cache);
        pipeline.make_space(need)?;
    }
}

/// One try to commit a block; says what is missing. A slot that the data went into is free again then.
#[inline(always)]
fn attempt_one(
    pipeline: &Pipeline,
    key: Key,
    bucket: Bucket,
    bytes: &[u8],
    slot_cache: &SlotCache<'_>,
) -> Result<Option<Need>> {
    let engine = pipeline.engine();
    let mut block = OneBlock {
        key,
        bucket,
        bytes,
        slot: NO_SLOT,
        sketch: None,
        finds_duplicates: false,
    };
    if engine.content().is_on() {
        let probed = engine.probe(bytes);
        if probed.is_worth_it() {
            let (is_done, sketch) = commit_reduced_one(pipeline, block, probed, slot_cache)?;
            if is_done {
                return Ok(None);
            }
            block.sketch = sketch;
        }
        block.finds_duplicates = probed.finds_duplicates();
    }
    let Some(slot) = slot_cache.take() else {
        return Ok(Some(Need::Slots(1)));
    };
    block.slot = slot;
    let outcome = engine.commit_one(block, slot_cache);
    if matches!(outcome, Ok(Outcome::Done(_))) {
        tally(pipeline, 1, bytes.len());
        return Ok(None);
    }
    engine.give_unused(slot_cache, slot);
    outcome.map(|_| Some(Need::Entry))
}

/// The same for several.
fn attempt(
    pipeline: &Pipeline,
    blocks: &mut [Block],
    data: &[u8],
    slot_cache: &SlotCache<'_>,
    scratch: &mut Scratch,
) -> Result<Option<Need>> {
    let engine = pipeline.engine();
    if engine.content().is_on() && commit_reduced(pipeline, blocks, data, slot_cache)? {
        return Ok(None);
    }
    let is_fresh = |block: &Block| matches!(block.source, Source::Data { .. });
    let give_back = |blocks: &[Block]| {
        for block in blocks.iter().filter(|block| is_fresh(block)) {
            engine.give_unused(slot_cache, block.slot);
        }
    };
    let finds_duplicates = engine.content().finds_duplicates();
    for number in 0..blocks.len() {
        if !is_fresh(&blocks[number]) {
            blocks[number].finds_duplicates = finds_duplicates;
        } else {
            let Some(slot) = slot_cache.take() else {
                give_back(&blocks[..number]);
                return Ok(Some(Need::Slots(blocks.len() as u64)));
            };
            blocks[number].slot = slot;
        }
    }
    let outcome = engine.commit_whole(blocks, data, slot_cache, scratch);
    if matches!(outcome, Ok(Outcome::Done(_))) {
        let payload_bytes = blocks.len() << pipeline.media().geometry.block_shift();
        tally(pipeline, blocks.len(), payload_bytes);
        return Ok(None);
    }
    give_back(blocks);
    outcome.map(|_| Some(Need::Entry))
}

#[inline]
fn tally(pipeline: &Pipeline, blocks: usize, payload_bytes: usize) {
    let tally = pipeline.engine().tallies().mine();
    tally.whole_blocks_committed(blocks as u64, payload_bytes as u64);
}

/// Commits what a transaction has gathered if it is whole blocks only. False if it is not, or if
/// it did not go at once; nothing has happened then.
#[inline(always)]
pub(crate) fn commit_gathered<'v>(
    pipeline: &'v Pipeline,
    work: &mut Workspace,
    slot_cache: &mut Option<SlotCache<'v>>,
) -> Result<bool> {
    if let ([operation], None) = (&work.operations[..], &slot_cache)
        && let Base::Buffered { at } = operation.base
    {
        let (key, bucket) = (operation.key, operation.bucket);
        let bytes = &work.data[at..at + pipeline.engine().block_bytes()];
        let slot_cache = pipeline.table().slots().slot_cache(thread_hint());
        return Ok(attempt_one(pipeline, key, bucket, bytes, &slot_cache)?.is_none());
    }
    commit_several(pipeline, work, slot_cache)
}

/// Apart, so that the commit of one has the registers to itself.
#[inline(never)]
fn commit_several<'v>(
    pipeline: &'v Pipeline,
    work: &mut Workspace,
    slot_cache: &mut Option<SlotCache<'v>>,
) -> Result<bool> {
    let Workspace {
        operations,
        blocks,
        data,
        scratch,
        ..
    } = work;
    blocks.clear();
    for operation in operations.iter() {
        let Some(block) = whole(operation) else {
            return Ok(false);
        };
        blocks.push(block);
    }
    let slot_cache = held(slot_cache, pipeline);
    Ok(attempt(pipeline, blocks, data, slot_cache, scratch)?.is_none())
}

/// The transaction's slot cache, taken if it holds none yet.
#[inline(always)]
pub(super) fn held<'s, 'v>(
    slot_cache: &'s mut Option<SlotCache<'v>>,
    pipeline: &'v Pipeline,
) -> &'s SlotCache<'v> {
    slot_cache.get_or_insert_with(|| pipeline.table().slots().slot_cache(thread_hint()))
}

#[inline]
fn whole(operation: &Operation) -> Option<Block> {
    let (source, slot) = match operation.base {
        Base::Buffered { at } => (Source::Data { at }, NO_SLOT),
        Base::Staged { slot, crc } => (Source::Slot { crc }, slot),
        Base::Current | Base::Zero => return None,
    };
    Some(Block::new(operation.key, operation.bucket, source, slot))
}
