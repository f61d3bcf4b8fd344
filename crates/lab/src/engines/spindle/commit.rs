//! The commit of §3.2 with one commit point for data and metadata.
//!
//! Head and Tail are positions that only grow. While no commit runs they are equal (to `position`).
//!
//! 1. Every sub-block that is about to change is copied to the log, under the position of the
//!    transaction's start; a metadata block that comes in is logged as free.
//! 2. For each data block in turn: its old entry goes into the ring; fence; its bytes go to a free NVM
//!    block, its entry is pointed there, Tail moves on; fence. The metadata is updated in place between
//!    the first two of these fences, or its own.
//! 3. Head moves, and with it the transaction is committed: ring elements before Head and log records
//!    of another position than Head's count for nothing.
//!
//! Invariants:
//!
//! * until Head has moved, everything that the transaction replaced can be found: an entry's old NVM
//!   block is in the ring (at a position from Head to Tail) and is not reused, a sub-block's old
//!   content is in the log;
//! * after Head has moved, nothing of what it replaced is restored by any later recovery;
//! * Head moves at every commit, so that no two transactions have log records of one position.

use forebay::Result;

use super::Spindle;
use super::layout::{Cache, Mapping};
use super::prepare::Plan;
use super::state::{CachedData, State};
use crate::mutants::{Mutant, mutated};
use crate::shared::ChangedBlock;

/// A data block that is written and not yet committed.
struct Written {
    entry: u32,
    cached: CachedData,
    /// The NVM block that it had.
    old_slot: Option<u32>,
}

impl Spindle {
    /// Commits the blocks, all or none.
    pub(super) fn commit_locked(&self, state: &mut State, blocks: &[ChangedBlock]) -> Result<()> {
        // Before anything moves: `prepare` may take a block from one cache to the other and then fail, and a round that has
        // claimed the block must not settle what it left. That a block is noted which stays as it is costs a round.
        for changed in blocks {
            state.in_flight.note_change(changed.number);
        }
        let plan = match self.prepare(state, blocks) {
            Ok(plan) => plan,
            Err(error) => {
                // Another thread may use what was freed, and its fences are not for our flushes.
                self.media.fence()?;
                return Err(error);
            }
        };
        let start = state.position;
        let records = self.log_metadata(start, &plan);
        let written = self.write_blocks(state, &plan)?;
        // A transaction of metadata alone passes over one ring element, whose lap tells that it is old.
        let moves_by = (plan.data.len() as u64).max(1);
        let is_printed = self.media.layout.as_printed;
        if !is_printed || !plan.data.is_empty() {
            self.media.move_tail_and_head(start + moves_by);
            // The commit point: everything above is durable before Head moves, and Head before the
            // caller hears of it and before anything old is reused.
            self.media.fence()?;
            state.position = start + moves_by;
        }
        if is_printed && records > 0 {
            // As printed, metadata commits when its records are removed, after the data.
            self.media.remove_log_records(records);
            // They are gone before the caller hears of the commit.
            self.media.fence()?;
        }
        self.finish(state, &plan, written)
    }

    /// Step 1, not fenced yet. Returns how many records there are.
    fn log_metadata(&self, position: u64, plan: &Plan<'_>) -> u32 {
        let sub_blocks = self.media.layout.sub_blocks() as u32;
        let mut record = 0;
        for update in &plan.updates {
            for sub_block in &update.sub_blocks {
                let number = update.slot * sub_blocks + sub_block;
                self.media.log_sub_block(record, position, number);
                record += 1;
            }
        }
        for &(slot, _) in &plan.fresh {
            self.media.log_fresh(record, position, slot);
            record += 1;
        }
        assert_eq!(record, plan.log_records());
        if record > 0 {
            self.media.flush_log_headers(record);
        }
        record
    }

    /// Step 2. Everything but Head is durable on return; the state in DRAM is as before.
    fn write_blocks(&self, state: &mut State, plan: &Plan<'_>) -> Result<Vec<Written>> {
        if plan.data.is_empty() {
            // The log is whole, and what was evicted is gone, before anything is overwritten.
            if !mutated(Mutant::SpindleLogUnordered) {
                self.media.fence()?;
            }
            self.update_metadata(state, plan);
            // The metadata is in place before Head says that it counts.
            self.media.fence()?;
        }
        let mut written = Vec::with_capacity(plan.data.len());
        for (number, changed) in plan.data.iter().enumerate() {
            let position = state.position + number as u64;
            let old = state.data_entry(changed.number);
            let old_mapping = old.map(|(_, cached)| cached.mapping);
            self.media
                .put_element(position, changed.number, old_mapping);
            // The way back (element and log) is there before there is anything to go back from; for
            // the first block, what was evicted is gone before its NVM block has other bytes; for the
            // others, Tail is at their element before their entry changes.
            if !mutated(Mutant::SpindleElementUnordered) {
                self.media.fence()?;
            }
            if number == 0 {
                self.update_metadata(state, plan);
            }
            written.push(self.write_data(state, changed, old));
            if number + 1 < plan.data.len() {
                self.media.move_tail(position + 1);
            }
            // Block and entry are there before Head counts them; Tail is past this element before the
            // next one's entry changes, since recovery looks at one element past Tail and no more.
            self.media.fence()?;
        }
        Ok(written)
    }

    /// Writes one block to a free NVM block and its entry, not fenced.
    fn write_data(
        &self,
        state: &mut State,
        changed: &ChangedBlock,
        old: Option<(u32, CachedData)>,
    ) -> Written {
        let block = changed.number;
        let (entry, slot) = match old {
            Some((entry, _)) => {
                let slot = state.data.free_slots.pop().expect("room was made");
                let mapping = Mapping {
                    slot,
                    is_dirty: true,
                };
                self.media.map_entry(Cache::Data, entry, Some(mapping));
                (entry, slot)
            }
            None => {
                let (entry, cached) = self.take_data(state, block, true);
                self.media
                    .create_entry(Cache::Data, entry, block, cached.mapping);
                self.media.flush_entries(Cache::Data, &mut [entry]);
                (entry, cached.mapping.slot)
            }
        };
        self.media.write_slot(Cache::Data, slot, &changed.bytes);
        let mapping = Mapping {
            slot,
            is_dirty: true,
        };
        Written {
            entry,
            cached: CachedData { block, mapping },
            old_slot: old.map(|(_, cached)| cached.mapping.slot),
        }
    }

    /// Overwrites the sub-blocks that change, brings in the blocks that are not there, and marks all
    /// of them dirty, not fenced. The log of it is durable.
    fn update_metadata(&self, state: &State, plan: &Plan<'_>) {
        let layout = &self.media.layout;
        let inode_bytes = layout.inode_bytes as usize;
        let mut entries = Vec::new();
        for update in &plan.updates {
            let slot = update.slot;
            for &sub_block in &update.sub_blocks {
                let start = sub_block as usize * inode_bytes;
                let offset = layout.slot(Cache::Metadata, slot) + start as u64;
                let bytes = &update.changed.bytes[start..start + inode_bytes];
                let media = &self.media;
                media.content.write(&media.region, offset, bytes);
            }
            if !update.sub_blocks.is_empty() && !state.metadata.at(slot).is_dirty {
                let mapping = Mapping {
                    slot,
                    is_dirty: true,
                };
                self.media
                    .store_mapping(Cache::Metadata, slot, Some(mapping));
                entries.push(slot);
            }
        }
        for &(slot, changed) in &plan.fresh {
            let mapping = Mapping {
                slot,
                is_dirty: true,
            };
            self.media.write_slot(Cache::Metadata, slot, &changed.bytes);
            self.media
                .create_entry(Cache::Metadata, slot, changed.number, mapping);
            entries.push(slot);
        }
        self.media.flush_entries(Cache::Metadata, &mut entries);
    }

    /// After the commit point: DRAM follows, and what was replaced is free.
    fn finish(&self, state: &mut State, plan: &Plan<'_>, written: Vec<Written>) -> Result<()> {
        let mut hits = plan.updates.len();
        let mut overwritten_metadata = Vec::new();
        for of_block in written {
            overwritten_metadata.extend(state.metadata_slot(of_block.cached.block));
            if let Some(slot) = of_block.old_slot {
                hits += 1;
                state.data.free_slots.push(slot);
            }
            state.set_data(of_block.entry, of_block.cached);
        }
        hits += overwritten_metadata.len();
        for update in &plan.updates {
            if !update.sub_blocks.is_empty() {
                state.metadata.set_dirty(update.slot, true);
            }
            let inodes = update.sub_blocks.len() as u64;
            state.metadata.access(update.slot, inodes);
        }
        for &(slot, changed) in &plan.fresh {
            state.set_metadata(slot, changed.number, true);
            state.metadata.access(slot, 1);
        }
        state.tallies.commits += 1;
        state.tallies.blocks_committed +=
            (plan.data.len() + plan.updates.len() + plan.fresh.len()) as u64;
        state.tallies.write_hits += hits as u64;
        if !overwritten_metadata.is_empty() {
            for &slot in &overwritten_metadata {
                self.media.store_mapping(Cache::Metadata, slot, None);
                state.free_metadata(slot);
            }
            self.media
                .flush_entries(Cache::Metadata, &mut overwritten_metadata);
            // The older copy is gone before the newer one can be evicted and leave it alone.
            self.media.fence()?;
        }
        state.assert_at_rest();
        Ok(())
    }
}
