//! What a commit does before anything of its transaction is on the media: it decides which block goes
//! to which cache, and makes room. All that needs the disk is here, so that an error of the disk leaves
//! everything as it was.
//!
//! A disk block is at rest in one of the caches at most. What is written as data goes to the data
//! cache; if it was metadata, its old copy is dropped after the commit. What is updated as metadata
//! goes to the metadata cache; if it was cached as data, it moves there before the transaction. A
//! crash in between leaves both copies: the one in the data cache is then at least as new, and stays.
//!
//! An update that the metadata cache or its log has no room for in this transaction is written as data.

use std::collections::HashSet;

use crate::Engine;
use forebay::Result;

use super::Spindle;
use super::layout::{Cache, Mapping};
use super::state::{CachedData, State};
use crate::shared::ChangedBlock;

/// What a commit does with each block.
pub(super) struct Plan<'b> {
    /// Blocks for the data cache.
    pub(super) data: Vec<&'b ChangedBlock>,
    /// Blocks that are in the metadata cache.
    pub(super) updates: Vec<Update<'b>>,
    /// Blocks that come into the metadata cache, each with its NVM block.
    pub(super) fresh: Vec<(u32, &'b ChangedBlock)>,
}

/// A block in the metadata cache that is updated in place.
pub(super) struct Update<'b> {
    pub(super) slot: u32,
    pub(super) changed: &'b ChangedBlock,
    /// Which of its sub-blocks change.
    pub(super) sub_blocks: Vec<u32>,
}

/// A metadata block and which of its sub-blocks change.
type Change<'b> = (&'b ChangedBlock, Vec<u32>);

impl Plan<'_> {
    /// Records that the metadata log gets.
    pub(super) fn log_records(&self) -> u32 {
        let updated = self.updates.iter().map(|update| update.sub_blocks.len());
        (updated.sum::<usize>() + self.fresh.len()) as u32
    }
}

impl Spindle {
    /// Makes room for a transaction and decides what to do with its blocks. What it persists changes
    /// no block's content; entries that it freed may not be durably free before the next fence.
    pub(super) fn prepare<'b>(
        &self,
        state: &mut State,
        blocks: &'b [ChangedBlock],
    ) -> Result<Plan<'b>> {
        let (data, metadata) = self.divide(blocks);
        // Blocks of the committing transaction are not swapped out (§3.3). A copy in the metadata
        // cache of what it writes as data may be.
        let updated: HashSet<u64> = metadata.iter().map(|(changed, _)| changed.number).collect();
        let written: HashSet<u64> = data.iter().map(|changed| changed.number).collect();
        let arriving = metadata
            .iter()
            .filter(|(changed, _)| state.metadata_slot(changed.number).is_none());
        let slots_needed = arriving.count();
        while state.metadata.free_slots.len() < slots_needed {
            self.evict_metadata(state, &|block| updated.contains(&block))?;
        }
        for (changed, _) in &metadata {
            self.leave_data_cache(state, changed.number)?;
        }
        while state.data.free_slots.len() < data.len() {
            self.evict_data(state, &|block| written.contains(&block))?;
        }
        let mut plan = Plan {
            data,
            updates: Vec::new(),
            fresh: Vec::new(),
        };
        for (changed, sub_blocks) in metadata {
            match state.metadata_slot(changed.number) {
                Some(slot) => plan.updates.push(Update {
                    slot,
                    changed,
                    sub_blocks,
                }),
                None => {
                    let slot = state.metadata.free_slots.pop().expect("room was made");
                    plan.fresh.push((slot, changed));
                }
            }
        }
        Ok(plan)
    }

    /// Which cache lacks room for the transaction, and how many free slots it needs: with a cleaner nothing is evicted
    /// here.
    pub(super) fn lacking(&self, state: &State, blocks: &[ChangedBlock]) -> Option<(Cache, usize)> {
        let (data, metadata) = self.divide(blocks);
        let is_arriving =
            |(changed, _): &&Change<'_>| state.metadata_slot(changed.number).is_none();
        let arriving = metadata.iter().filter(is_arriving).count();
        if state.metadata.free_slots.len() < arriving {
            return Some((Cache::Metadata, arriving));
        }
        (state.data.free_slots.len() < data.len()).then_some((Cache::Data, data.len()))
    }

    /// Blocks for the data cache; blocks for the metadata cache with the sub-blocks that change.
    fn divide<'b>(&self, blocks: &'b [ChangedBlock]) -> (Vec<&'b ChangedBlock>, Vec<Change<'b>>) {
        let layout = &self.media.layout;
        let (mut data, mut metadata) = (Vec::new(), Vec::new());
        let mut records = 0;
        for changed in blocks {
            let Some(sub_blocks) = self.changed_sub_blocks(changed) else {
                data.push(changed);
                continue;
            };
            // A block that is not there yet needs one record whatever changes in it.
            let needed = sub_blocks.len().max(1);
            let has_room = metadata.len() < layout.metadata_slots as usize
                && records + needed <= layout.log_records as usize;
            if has_room {
                records += needed;
                metadata.push((changed, sub_blocks));
            } else {
                data.push(changed);
            }
        }
        (data, metadata)
    }

    /// Which sub-blocks of a metadata block change; none for data.
    fn changed_sub_blocks(&self, changed: &ChangedBlock) -> Option<Vec<u32>> {
        let inode_bytes = self.media.layout.inode_bytes as usize;
        let mut sub_blocks = Vec::new();
        for range in changed.changed.as_ref()? {
            assert!(range.end <= changed.bytes.len(), "{range:?} of a block");
            if !range.is_empty() {
                let end = range.end.div_ceil(inode_bytes) as u32;
                sub_blocks.extend((range.start / inode_bytes) as u32..end);
            }
        }
        sub_blocks.sort_unstable();
        sub_blocks.dedup();
        Some(sub_blocks)
    }

    /// Sees to it that a block that is about to be metadata is not in the data cache: a clean copy is
    /// dropped, a dirty one moves to the metadata cache, which has room.
    fn leave_data_cache(&self, state: &mut State, block: u64) -> Result<()> {
        let Some((entry, cached)) = state.data_entry(block) else {
            return Ok(());
        };
        if !cached.mapping.is_dirty {
            self.media.map_entry(Cache::Data, entry, None);
            state.free_data(entry);
            return Ok(());
        }
        let slot = *state.metadata.free_slots.last().expect("room was made");
        let mut bytes = vec![0; self.block_bytes()];
        let from = cached.mapping.slot;
        self.media.read_slot(Cache::Data, from, block, &mut bytes)?;
        // The block evicted from the slot is durably gone before the slot has other bytes.
        self.media.fence()?;
        self.media.write_slot(Cache::Metadata, slot, &bytes);
        let mapping = Mapping {
            slot,
            is_dirty: true,
        };
        self.media
            .create_entry(Cache::Metadata, slot, block, mapping);
        self.media.flush_entries(Cache::Metadata, &mut [slot]);
        // The new copy is whole before the old entry goes, whose own copy counts until then.
        self.media.fence()?;
        self.media.map_entry(Cache::Data, entry, None);
        state.free_data(entry);
        state.metadata.free_slots.pop();
        state.set_metadata(slot, block, true);
        Ok(())
    }

    /// A free data entry and NVM block for a block that is not in the data cache.
    pub(super) fn take_data(
        &self,
        state: &mut State,
        block: u64,
        is_dirty: bool,
    ) -> (u32, CachedData) {
        let entry = state.data.free_entries.pop().expect("room was made");
        let slot = state.data.free_slots.pop().expect("room was made");
        let mapping = Mapping { slot, is_dirty };
        (entry, CachedData { block, mapping })
    }
}
