//! The private slots that a commit's changes stream their blocks into.

use crate::background::Pipeline;
use crate::engine::change::{Action, Change};
use crate::engine::commit::NO_SLOT;
use crate::table::slots::SlotCache;

/// Every change that streams a block gets a private slot, or none does. `spare` is empty memory.
pub(super) fn give_slots(
    changes: &mut [Change],
    slot_cache: &SlotCache<'_>,
    spare: &mut Vec<u32>,
) -> bool {
    let wanted = changes.iter_mut().filter_map(private_slot).count();
    if !slot_cache.take_many(wanted, spare) {
        return false;
    }
    for slot in changes.iter_mut().filter_map(private_slot) {
        *slot = spare.pop().expect("one was taken for each");
    }
    true
}

/// Takes those slots back for changes that were not made.
pub(super) fn return_slots(
    pipeline: &Pipeline,
    changes: &mut [Change],
    slot_cache: &SlotCache<'_>,
) {
    let given = |slot: &&mut u32| **slot != NO_SLOT;
    for slot in changes.iter_mut().filter_map(private_slot).filter(given) {
        pipeline
            .engine()
            .give_unused(slot_cache, std::mem::replace(slot, NO_SLOT));
    }
}

/// Where the number of the slot stands that a change streams its block into.
fn private_slot(change: &mut Change) -> Option<&mut u32> {
    match &mut change.action {
        Action::Fresh { slot, .. } | Action::Packed { slot, .. } => Some(slot),
        _ => None,
    }
}
