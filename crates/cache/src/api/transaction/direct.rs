//! Transactions of whole blocks: the caller's memory or the transaction's goes straight to the
//! commit, without the preparations that parts of blocks need.

use super::reduced::commit_reduced;
use crate::api::volume::Volume;
use crate::api::workspace::{Base, NO_SLOT, Operation, Work, Workspace};
use crate::background::Pipeline;
use crate::engine::Need;
use crate::engine::change::Outcome;
use crate::engine::commit::{Block, Source};
use crate::error::Result;
use crate::log::lanes::thread_hint;
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
        return write_all(pipeline, &mut [block_of(block, 0)], data, &mut Vec::new());
    }
    let mut work = Work::borrow();
    let Workspace {
        blocks, scratch, ..
    } = &mut *work;
    let places = (block..).zip((0..data.len()).step_by(block_bytes));
    blocks.extend(places.map(|(block, at)| block_of(block, at)));
    write_all(pipeline, blocks, data, &mut scratch.stripes)
}

fn write_all(
    pipeline: &Pipeline,
    blocks: &mut [Block],
    data: &[u8],
    stripes: &mut Vec<u32>,
) -> Result<()> {
    loop {
        let slot_cache = pipeline.table().slots().slot_cache(thread_hint());
        let Some(need) = attempt(pipeline, blocks, data, &slot_cache, stripes)? else {
            return Ok(());
        };
        drop(slot_cache);
        pipeline.make_space(need)?;
    }
}

/// One try; says what is missing. Slots that the data went into are free again then.
#[inline]
fn attempt(
    pipeline: &Pipeline,
    blocks: &mut [Block],
    data: &[u8],
    slot_cache: &SlotCache<'_>,
    stripes: &mut Vec<u32>,
) -> Result<Option<Need>> {
    if pipeline.engine().content().is_on() && commit_reduced(pipeline, blocks, data, slot_cache)? {
        return Ok(None);
    }
    attempt_whole(pipeline, blocks, data, slot_cache, stripes)
}

/// The same for blocks that go whole.
#[inline]
fn attempt_whole(
    pipeline: &Pipeline,
    blocks: &mut [Block],
    data: &[u8],
    slot_cache: &SlotCache<'_>,
    stripes: &mut Vec<u32>,
) -> Result<Option<Need>> {
    let give_back = |blocks: &[Block]| {
        let fresh = |block: &&Block| matches!(block.source, Source::Data { .. });
        for block in blocks.iter().filter(fresh) {
            pipeline.engine().give_unused(slot_cache, block.slot);
        }
    };
    for number in 0..blocks.len() {
        if matches!(blocks[number].source, Source::Data { .. }) {
            let Some(slot) = slot_cache.take() else {
                give_back(&blocks[..number]);
                return Ok(Some(Need::Slots(blocks.len() as u64)));
            };
            blocks[number].slot = slot;
        }
    }
    let outcome = match blocks {
        [block] => pipeline.engine().commit_one(block, data, slot_cache),
        _ => pipeline
            .engine()
            .commit_whole(blocks, data, slot_cache, stripes),
    };
    if matches!(outcome, Ok(Outcome::Done(_))) {
        let tallies = pipeline.engine().tallies().mine();
        tallies.commits(1);
        tallies.blocks_written(blocks.len() as u64);
        tallies.payload_bytes((blocks.len() * pipeline.engine().block_bytes()) as u64);
        return Ok(None);
    }
    give_back(blocks);
    outcome.map(|_| Some(Need::Entry))
}

/// Commits what a transaction has gathered if it is whole blocks only. False if it is not, or if
/// it did not go at once; nothing has happened then.
#[inline(always)]
pub(crate) fn commit_gathered<'v>(
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
    if let [operation] = &operations[..] {
        let Some(block) = whole(operation) else {
            return Ok(false);
        };
        let slot_cache =
            slot_cache.get_or_insert_with(|| pipeline.table().slots().slot_cache(thread_hint()));
        let need = attempt(
            pipeline,
            &mut [block],
            data,
            slot_cache,
            &mut scratch.stripes,
        )?;
        return Ok(need.is_none());
    }
    blocks.clear();
    for operation in operations.iter() {
        let Some(block) = whole(operation) else {
            return Ok(false);
        };
        blocks.push(block);
    }
    let slot_cache =
        slot_cache.get_or_insert_with(|| pipeline.table().slots().slot_cache(thread_hint()));
    let need = attempt(pipeline, blocks, data, slot_cache, &mut scratch.stripes)?;
    Ok(need.is_none())
}

fn whole(operation: &Operation) -> Option<Block> {
    let (source, slot) = match operation.base {
        Base::Buffered { at } => (Source::Data { at }, NO_SLOT),
        Base::Staged { slot, crc } => (Source::Slot { crc }, slot),
        Base::Current | Base::Zero => return None,
    };
    Some(Block::new(operation.key, operation.bucket, source, slot))
}
