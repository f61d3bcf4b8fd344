//! Recovery: the entries of committed transactions are the cache.
//!
//! R1: an entry counts if its sequence is at most the commit record's. R2: what counts is never
//! changed here; what does not is durably free before the first commit, since that takes the next
//! sequence, which would make it count. R3: what was believed is durable. After a mere kill the
//! record, or a freed entry, is seen though no fence made it durable: a power cut could take it back
//! when its buffer has been used again.

use std::collections::HashSet;

use forebay::{Region, Result};

use super::layout::{Entry, Layout, damaged};
use super::state::State;
use crate::mutants::{Mutant, mutated};

/// Sequences above this were not counted up from 1.
const SEQUENCE_MAX: u64 = 1 << 62;

/// The state that the region's entries tell, over a disk of so many blocks.
///
/// # Errors
/// `Damaged` where they tell what no crash leaves; the medium's own.
pub(super) fn recover(region: &Region, layout: &Layout, disk_blocks: u64) -> Result<State> {
    let committed = Layout::load_commit_record(region);
    if committed > SEQUENCE_MAX {
        return Err(damaged(region, format!("a commit record of {committed}")));
    }
    let (mut counting, mut leftovers) = (Vec::new(), Vec::new());
    for slot in 0..layout.slots {
        match layout.load_entry(region, slot) {
            Some(entry) if entry.sequence <= committed => counting.push((slot, entry)),
            Some(_) => leftovers.push(slot),
            None => {}
        }
    }
    check(region, &counting, disk_blocks)?;
    for slot in leftovers {
        layout.clear_entry(region, slot);
    }
    if !mutated(Mutant::UbjBeliefNotDurable) {
        layout.flush_metadata(region);
    }
    // R2, R3: orders what counts and what does not before the next transaction.
    region.fence()?;
    let mut state = State::new(layout.slots);
    let used: HashSet<u32> = counting.iter().map(|(slot, _)| *slot).collect();
    state.retain_free(|slot| !used.contains(&slot));
    counting.sort_unstable_by_key(|(slot, entry)| (entry.sequence, *slot));
    // In the order of their commits, each superseding what came before, as when they were made.
    for transaction in counting.chunk_by(|(_, one), (_, next)| one.sequence == next.sequence) {
        let frozen = transaction.iter().map(|(slot, entry)| (entry.block, *slot));
        state.freeze(transaction[0].1.sequence, frozen);
    }
    state.sequence = committed;
    Ok(state)
}

/// Refuses entries of blocks outside the disk, and two of one block from one transaction.
fn check(region: &Region, entries: &[(u32, Entry)], disk_blocks: u64) -> Result<()> {
    let mut seen = HashSet::new();
    for (slot, entry) in entries {
        if entry.block >= disk_blocks || !seen.insert((entry.block, entry.sequence)) {
            let found = format!("buffer {slot} with an entry that cannot be: {entry:?}");
            return Err(damaged(region, found));
        }
    }
    Ok(())
}
