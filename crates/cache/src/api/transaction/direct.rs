//! Transactions of whole blocks: the caller's memory or the transaction's goes straight to the
//! commit, without the preparations that parts of blocks need.

use super::reduced::{commit_reduced, commit_reduced_one};
use crate::api::volume::MemoryVolume;
use crate::api::workspace::{Base, Operation, Work, Workspace, blocks_in_memory};
use crate::background::Pipeline;
use crate::engine::Need;
use crate::engine::change::Outcome;
use crate::engine::commit::{Block, NO_SLOT, OneBlock};
use crate::engine::plan::Scratch;
use crate::error::Result;
use crate::log::lanes::thread_hint;
use crate::media::entry::Key;
use crate::table::index::Bucket;
use crate::table::slots::SlotCache;

/// Commits whole blocks straight from the caller's memory.
pub(crate) fn write_blocks(volume: &MemoryVolume, block: u64, data: &[u8]) -> Result<()> {
    let pipeline = &*volume.pipeline;
    volume.keep_pace();
    pipeline.engine().check_writable()?;
    volume.check_blocks(block, data.len())?;
    pipeline
        .engine()
        .check_transaction_bytes(data.len() as u64)?;
    let block_bytes = pipeline.engine().block_bytes();
    let place_of = |block| {
        let key = volume.key(block);
        let bucket = pipeline.table().bucket(key);
        pipeline.table().prefetch(bucket);
        (key, bucket)
    };
    if data.len() == block_bytes {
        let (key, bucket) = place_of(block);
        return until_done(pipeline, |slot_cache| {
            attempt_one(pipeline, key, bucket, data, slot_cache)
        });
    }
    let mut work = Work::borrow();
    let Workspace {
        operations,
        scratch,
        ..
    } = &mut *work;
    for (block, at) in (block..).zip((0..data.len()).step_by(block_bytes)) {
        let (key, bucket) = place_of(block);
        operations.add(key, bucket, Base::Buffered { at });
    }
    until_done(pipeline, |slot_cache| {
        attempt(pipeline, operations, data, slot_cache, scratch)
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
        tally(pipeline, 1);
        return Ok(None);
    }
    engine.give_unused(slot_cache, slot);
    outcome.map(|_| Some(Need::Entry))
}

/// The same for several, all of which are whole.
fn attempt(
    pipeline: &Pipeline,
    operations: &mut [Operation],
    data: &[u8],
    slot_cache: &SlotCache<'_>,
    scratch: &mut Scratch,
) -> Result<Option<Need>> {
    let engine = pipeline.engine();
    if engine.content().is_on() && commit_reduced(pipeline, operations, data, slot_cache)? {
        return Ok(None);
    }
    let mut given = 0;
    let mut supply = match engine.media().fills_rows() {
        true => {
            let blocks = blocks_in_memory(operations, data, engine.block_bytes());
            Supply::of_rows(pipeline, slot_cache, blocks.count())
        }
        false => Supply::of_pairs(slot_cache),
    };
    for (_, block) in blocks_in_memory(operations, data, engine.block_bytes()) {
        let Some(slot) = supply.take() else {
            break;
        };
        block.slot = slot;
        given += 1;
    }
    let missing = blocks_in_memory(operations, data, engine.block_bytes()).nth(given);
    let outcome = if missing.is_none() {
        let outcome = engine.commit_whole(operations, data, slot_cache, scratch);
        if matches!(outcome, Ok(Outcome::Done(_))) {
            tally(pipeline, operations.len());
            return Ok(None);
        }
        outcome.map(|_| Some(Need::Entry))
    } else {
        Ok(Some(Need::Slots(operations.len() as u64)))
    };
    let waiting = blocks_in_memory(operations, data, engine.block_bytes());
    for (_, block) in waiting.take(given) {
        engine.give_unused(slot_cache, block.slot);
    }
    outcome
}

/// Slots for the blocks of a transaction: in a pool with rows the columns of as many free rows as these fill.
struct Supply<'s> {
    slot_cache: &'s SlotCache<'s>,
    columns: Option<std::iter::Flatten<std::vec::IntoIter<std::ops::Range<u32>>>>,
}

impl<'s> Supply<'s> {
    fn of_pairs(slot_cache: &'s SlotCache<'s>) -> Supply<'s> {
        Supply {
            slot_cache,
            columns: None,
        }
    }
    #[cold]
    fn of_rows(pipeline: &Pipeline, slot_cache: &'s SlotCache<'s>, blocks: usize) -> Supply<'s> {
        let geometry = &pipeline.media().geometry;
        let rows = std::iter::from_fn(|| slot_cache.take_row());
        let rows = rows.take(blocks / geometry.row_width() as usize);
        let columns: Vec<_> = rows.map(|row| geometry.columns(row)).collect();
        Supply {
            slot_cache,
            columns: Some(columns.into_iter().flatten()),
        }
    }
    #[inline(always)]
    fn take(&mut self) -> Option<u32> {
        let column = self.columns.as_mut().and_then(Iterator::next);
        column.or_else(|| self.slot_cache.take())
    }
}

#[inline]
fn tally(pipeline: &Pipeline, blocks: usize) {
    let payload_bytes = blocks * pipeline.engine().block_bytes();
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
        && let Base::Buffered { at } = operation.base()
    {
        let Block { key, bucket, .. } = operation.block;
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
        data,
        scratch,
        ..
    } = work;
    if !operations.iter().all(Operation::is_whole) {
        return Ok(false);
    }
    let slot_cache = held(slot_cache, pipeline);
    Ok(attempt(pipeline, operations, data, slot_cache, scratch)?.is_none())
}

/// The transaction's slot cache, taken if it holds none yet.
#[inline(always)]
pub(super) fn held<'s, 'v>(
    slot_cache: &'s mut Option<SlotCache<'v>>,
    pipeline: &'v Pipeline,
) -> &'s SlotCache<'v> {
    slot_cache.get_or_insert_with(|| pipeline.table().slots().slot_cache(thread_hint()))
}
