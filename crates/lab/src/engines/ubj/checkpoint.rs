//! Room: clean blocks leave by LRU, committed transactions are checkpointed, the oldest one first.
//!
//! C1: an entry is freed only after the disk has durably what it stands for, or a later
//! transaction's version of it is frozen. C2: of two versions of a block, the later one's entry is
//! freed only after the earlier one's is durably free; otherwise recovery would take the earlier
//! one for the newest.

use forebay::{ErrorKind, Result};

use super::Ubj;
use super::state::{Buffer, State};
use crate::mutants::{Mutant, mutated};
use crate::shared::fence;

impl Ubj {
    /// Makes room until so many buffers are free: the least recently used one goes if it is clean. If
    /// it is frozen, or out of date, the oldest transaction is checkpointed.
    pub(super) fn make_room(&self, state: &mut State, wanted: usize) -> Result<()> {
        while state.free_slots() < wanted {
            let Some(oldest) = state.oldest() else {
                return Err(ErrorKind::NoSpace {
                    waited_ms: 0,
                    dirty_blocks: state.frozen_blocks(),
                }
                .into());
            };
            match state.buffer(oldest) {
                Buffer::Clean { .. } => state.evict(oldest),
                _ => self.checkpoint_oldest(state)?,
            }
        }
        Ok(())
    }

    /// Checkpoints one transaction. A block that a later transaction wrote again is not written: its
    /// newer version is as durable, and stays.
    fn checkpoint_oldest(&self, state: &mut State) -> Result<()> {
        let transaction = state.transactions().next();
        let slots = transaction.expect("a frozen buffer has one").slots.clone();
        self.write_back(newest(state, &slots))?;
        // C2: the transaction is the oldest, so none of its blocks has an earlier version.
        self.free_entries(&slots)?;
        state.unfreeze_oldest();
        Ok(())
    }

    /// Checkpoints all transactions with one pass over the disk.
    pub(super) fn checkpoint_all(&self, state: &mut State) -> Result<()> {
        let slots = state.transactions().flat_map(|committed| &committed.slots);
        let (out_of_date, frozen): (Vec<u32>, Vec<u32>) =
            slots.partition(|&&slot| state.buffer(slot) == Buffer::OutOfDate);
        if frozen.is_empty() {
            assert!(out_of_date.is_empty(), "a later version is frozen");
            return Ok(());
        }
        self.write_back(newest(state, &frozen))?;
        if !out_of_date.is_empty() {
            // C2: durable before the entries of the versions that made them out of date go.
            self.free_entries(&out_of_date)?;
        }
        self.free_entries(&frozen)?;
        while state.transactions().next().is_some() {
            state.unfreeze_oldest();
        }
        Ok(())
    }

    /// Writes blocks to the disk and syncs it.
    fn write_back(&self, mut blocks: Vec<(u64, u32)>) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        blocks.sort_unstable();
        self.disk.write(
            &blocks,
            |(block, _)| *block,
            |(block, slot), out| self.read_frozen(*slot, *block, out),
        )?;
        if mutated(Mutant::UbjFreedBeforeSync) {
            return Ok(());
        }
        // C1: what the disk's own cache holds does not survive a power cut.
        self.disk.sync()
    }

    /// Frees the entries of these buffers; durable on return.
    pub(super) fn free_entries(&self, slots: &[u32]) -> Result<()> {
        for &slot in slots {
            self.layout.clear_entry(&self.region, slot);
        }
        self.layout
            .flush_entries(&self.region, slots.iter().copied());
        if mutated(Mutant::UbjVersionsFreedTogether) {
            return Ok(());
        }
        // Orders the freeing before any reuse of the buffers, and before later versions go.
        fence(&self.region)
    }
}

/// Block and buffer of those that hold their block's newest version.
fn newest(state: &State, slots: &[u32]) -> Vec<(u64, u32)> {
    let frozen = slots.iter().filter_map(|&slot| match state.buffer(slot) {
        Buffer::Frozen { block } => Some((block, slot)),
        _ => None,
    });
    frozen.collect()
}
