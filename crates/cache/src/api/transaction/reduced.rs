//! Whole blocks of which less need be stored: the commit of what probing their content found.

use super::private_slots::{give_slots, return_slots};
use crate::api::workspace::{Operation, blocks_in_memory};
use crate::background::Pipeline;
use crate::engine::change::{Action, Change, Outcome, record_bound};
use crate::engine::commit::{Block, NO_SLOT, OneBlock, Source};
use crate::engine::content::{Finding, ProbeResult, Reduced};
use crate::engine::plan::Scratch;
use crate::error::Result;
use crate::policy::candidates::Sketch;
use crate::table::index::Version;
use crate::table::slot_ref::SlotRef;
use crate::table::slots::SlotCache;

/// Probes the blocks; commits them if there is something to gain. False if not, or if that did not
/// go at once: nothing has happened then, and the blocks know what they look like.
pub(super) fn commit_reduced(
    pipeline: &Pipeline,
    operations: &mut [Operation],
    data: &[u8],
    slot_cache: &SlotCache<'_>,
) -> Result<bool> {
    let mut findings = Vec::new();
    let block_bytes = pipeline.engine().block_bytes();
    for (number, block) in blocks_in_memory(operations, data, block_bytes) {
        let Some(at) = block.data_at() else {
            continue;
        };
        let bytes = &data[at..at + block_bytes];
        let probed = pipeline.engine().probe(bytes);
        block.finds_duplicates = probed.finds_duplicates();
        if probed.is_worth_it()
            && let Some(reduced) = reduce(pipeline, block, bytes, probed)
        {
            findings.push((number, reduced));
        }
    }
    if findings.is_empty() {
        return Ok(false);
    }
    let blocks: Vec<Block> = operations.iter().map(|one| one.block).collect();
    commit_findings(pipeline, &blocks, findings, data, slot_cache)
}

/// The same of one block that is worth probing; returns what it looks like, too.
#[cold]
pub(super) fn commit_reduced_one(
    pipeline: &Pipeline,
    block: OneBlock<'_>,
    probed: ProbeResult,
    slot_cache: &SlotCache<'_>,
) -> Result<(bool, Option<Sketch>)> {
    let bytes = block.bytes;
    let mut block = Block::new(block.key, block.bucket);
    let is_done = match reduce(pipeline, &mut block, bytes, probed) {
        Some(reduced) => {
            commit_findings(pipeline, &[block], vec![(0, reduced)], bytes, slot_cache)?
        }
        None => false,
    };
    Ok((is_done, block.sketch))
}

/// What less than all of a block may be stored; the block knows what it looks like afterwards.
fn reduce(
    pipeline: &Pipeline,
    block: &mut Block,
    bytes: &[u8],
    probed: ProbeResult,
) -> Option<Reduced> {
    let engine = pipeline.engine();
    let reduced = engine.reduce(block.key, block.bucket, bytes, probed);
    block.sketch = reduced.sketch;
    (!matches!(reduced.finding, Finding::Whole)).then_some(reduced)
}

/// Probes the blocks that a transaction writes whole beside parts of others, and makes less of those
/// where there is something to gain. What the changes then hold is given back by [`undo`].
pub(super) fn reduce_changes(pipeline: &Pipeline, changes: &mut [Change], data: &[u8]) {
    for change in changes {
        // What was rebuilt from the present block has a version: it is whole because it must be.
        let (
            Action::Fresh {
                at,
                valid_bytes: None,
                ..
            },
            None,
        ) = (&change.action, change.based_on)
        else {
            continue;
        };
        let at = *at;
        let bytes = &data[at..at + pipeline.engine().block_bytes()];
        let probed = pipeline.engine().probe(bytes);
        if probed.is_worth_it() {
            let reduced = pipeline
                .engine()
                .reduce(change.key, change.bucket, bytes, probed);
            (change.action, change.based_on) = action_of(reduced, at);
        }
    }
}

#[cold]
fn commit_findings(
    pipeline: &Pipeline,
    blocks: &[Block],
    findings: Vec<(usize, Reduced)>,
    data: &[u8],
    slot_cache: &SlotCache<'_>,
) -> Result<bool> {
    let mut changes = changes_of(blocks, findings);
    let mut scratch = Scratch::default();
    let fits = record_bound(&changes) <= pipeline.engine().log().lanes().lane_bytes() / 2;
    let outcome = if fits && give_slots(&mut changes, slot_cache, &mut Vec::new()) {
        pipeline
            .engine()
            .commit(&changes, data, slot_cache, &mut scratch)
    } else {
        Ok(Outcome::Stale)
    };
    if !matches!(outcome, Ok(Outcome::Done(_))) {
        undo(pipeline, &mut changes, slot_cache);
        return outcome.map(|_| false);
    }
    let engine = pipeline.engine();
    for step in &scratch.plan.steps {
        if matches!(changes[step.change].action, Action::Delta { .. }) {
            // A slot that was changed in place is not shared.
            continue;
        }
        let sketch = blocks[step.change].sketch;
        let (crc, index) = (step.effect.entry.crc(), step.effect.index);
        let finds_duplicates = engine.content().finds_duplicates();
        engine.note_block(crc, index, sketch, finds_duplicates);
    }
    tally(pipeline, &changes);
    Ok(true)
}

/// A change for each block, in their order; fresh ones have no slots yet.
fn changes_of(blocks: &[Block], findings: Vec<(usize, Reduced)>) -> Vec<Change> {
    let mut findings = findings.into_iter().peekable();
    let change = |(number, block): (usize, &Block)| {
        let found = findings.next_if(|(found, _)| *found == number);
        let (action, based_on) = match (block.source, found) {
            (Source::Data { at }, Some((_, reduced))) => action_of(reduced, at),
            (Source::Data { at }, None) => (whole(at), None),
            (Source::Slot { crc }, _) => {
                let slot = block.slot;
                (Action::Block { slot, crc }, None)
            }
        };
        Change {
            key: block.key,
            bucket: block.bucket,
            action,
            based_on,
        }
    };
    blocks.iter().enumerate().map(change).collect()
}

/// What becomes of a probed block at `data[at..]`, and the version that this is based on.
fn action_of(reduced: Reduced, at: usize) -> (Action, Option<Version>) {
    let crc = reduced.crc;
    match reduced.finding {
        Finding::Duplicate(held) => (Action::Share { held, crc }, None),
        Finding::Packed(packing) => {
            let action = Action::Packed {
                slot: NO_SLOT,
                at,
                packing,
                crc,
            };
            (action, None)
        }
        Finding::Patches(patches, version) => {
            let crc = Some(crc);
            (Action::Delta { patches, crc }, Some(version))
        }
        Finding::Whole => (whole(at), None),
    }
}

fn whole(at: usize) -> Action {
    Action::Fresh {
        slot: NO_SLOT,
        at,
        valid_bytes: None,
    }
}

/// Gives back what is held for changes that were not made. Not once a fence has failed: recovery may
/// find the record, and with it mappings to these very slots.
pub(super) fn undo(pipeline: &Pipeline, changes: &mut [Change], slot_cache: &SlotCache<'_>) {
    return_slots(pipeline, changes, slot_cache);
    if pipeline.engine().check_writable().is_err() {
        return;
    }
    for change in changes {
        let held = match change.action {
            Action::Share { held, .. } => Some(held),
            Action::Packed { packing, .. } => packing.base.map(SlotRef::plain),
            _ => None,
        };
        if let Some(held) = held {
            pipeline.table().release_slot(held, slot_cache);
        }
    }
}

fn tally(pipeline: &Pipeline, changes: &[Change]) {
    let tallies = pipeline.engine().tallies().mine();
    tallies.commits(1);
    tallies.payload_bytes((changes.len() * pipeline.engine().block_bytes()) as u64);
    for change in changes {
        match change.action {
            Action::Share { .. } => tallies.blocks_shared(1),
            Action::Packed { .. } => tallies.blocks_packed(1),
            Action::Delta { .. } => {
                tallies.deltas_written(1);
                tallies.deltas_found(1);
            }
            _ => tallies.blocks_written(1),
        }
    }
}
