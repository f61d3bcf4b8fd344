//! Recovery (§3.4): entries, ring, log, in this order.
//!
//! Everything that it restores is durable before Head moves, and restoring twice is as good as once,
//! so it can be cut off anywhere and begun again. At its end Head and Tail move past the one element
//! that was looked at beyond Tail, so that no log record and no ring element of the transaction that was
//! undone counts again.
//!
//! A process that was killed leaves stores that are seen and not durable. Whatever recovery believes
//! without restoring it (the header, the entries) it flushes, so that no later power cut takes it back.

use std::collections::HashSet;

use forebay::{Error, ErrorKind, Result};

use super::layout::{Cache, LogPlace, Mapping, NON, mapping_of};
use super::media::Media;
use super::state::{CachedData, State};
use crate::mutants::{Mutant, mutated};
use crate::shared::check_medium;

/// More than any cache lives to see.
const POSITIONS_MAX: u64 = 1 << 62;

impl Media {
    /// Brings the region to the state after the last committed transaction; DRAM's follows.
    pub(super) fn recover(&self) -> Result<State> {
        let mut state = State::new(&self.layout);
        self.scan_data_entries(&mut state)?;
        let tail = self.undo_ring(&mut state)?;
        self.undo_log(tail.0)?;
        if !self.layout.as_printed && !mutated(Mutant::SpindleBeliefNotDurable) {
            // Finding 5.
            self.flush_believed();
        }
        // Entries and sub-blocks are durably restored before Head moves and their old state is
        // forgotten.
        self.fence()?;
        state.position = self.settle(tail)?;
        self.scan_metadata_entries(&mut state)?;
        check_medium(&self.region)?;
        self.find_free(&mut state)?;
        state.assert_at_rest();
        Ok(state)
    }

    fn scan_data_entries(&self, state: &mut State) -> Result<()> {
        for entry in 0..self.layout.data_slots {
            let Some((block, mapping)) = self.checked_entry(Cache::Data, entry)? else {
                continue;
            };
            if state.data_entry(block).is_some() {
                return Err(self.damaged(format!("two data entries for block {block}")));
            }
            state.set_data(entry, CachedData { block, mapping });
        }
        Ok(())
    }

    /// Goes through the ring from Head to one element past Tail. Returns both, Tail at least Head.
    fn undo_ring(&self, state: &mut State) -> Result<(u64, u64)> {
        let (head, tail) = self.pointers();
        // Recovery moves Head before Tail; cut off between them, it leaves nothing to undo.
        let ahead = tail.saturating_sub(head);
        let tail = tail.max(head);
        if ahead > self.layout.ring_elements || tail > POSITIONS_MAX {
            let found = format!("ring pointers that cannot be: Head {head}, Tail {tail}");
            return Err(self.damaged(found));
        }
        for position in head..=tail {
            let Some((block, word)) = self.element(position) else {
                continue;
            };
            let old = mapping_of(word, self.layout.data_slots)
                .map_err(|word| self.damaged(format!("a ring element with mapping {word:#x}")))?;
            self.check_block(block)?;
            // Without an entry the crash was before it was made, and there is nothing to do.
            let Some((entry, _)) = state.data_entry(block) else {
                continue;
            };
            self.restore_entry(Cache::Data, entry, old);
            match old {
                Some(mapping) => state.set_data(entry, CachedData { block, mapping }),
                None => state.free_data(entry),
            }
        }
        Ok((head, tail))
    }

    fn undo_log(&self, head: u64) -> Result<()> {
        for record in 0..self.layout.log_records {
            let found = self.log_record(record);
            // As printed, whatever is in the log counts, wherever in it.
            let is_live = |position| self.layout.as_printed || position == head;
            let Some((_, place, content)) = found.filter(|found| is_live(found.0)) else {
                if self.layout.as_printed {
                    continue;
                }
                // Records fill the log from its start. Where one is missing, the fence after them
                // did not happen, and nothing was overwritten.
                return Ok(());
            };
            let slots = self.layout.metadata_slots;
            match place {
                LogPlace::SubBlock(number)
                    if u64::from(number) < u64::from(slots) * self.layout.sub_blocks() =>
                {
                    self.region.stream(self.layout.sub_block(number), &content);
                }
                LogPlace::Fresh(slot) if slot < slots => {
                    self.restore_entry(Cache::Metadata, slot, None);
                }
                beyond => {
                    return Err(
                        self.damaged(format!("a log record of {beyond:?} of {slots} blocks"))
                    );
                }
            }
        }
        Ok(())
    }

    fn restore_entry(&self, cache: Cache, number: u32, mapping: Option<Mapping>) {
        if self.layout.as_printed {
            self.map_entry(cache, number, mapping);
        } else {
            // It is flushed with all the others.
            self.store_mapping(cache, number, mapping);
        }
    }

    /// Leaves Head and Tail at one position, which no transaction had, and returns it.
    fn settle(&self, (head, tail): (u64, u64)) -> Result<u64> {
        if self.layout.as_printed {
            // As printed (§3.4), Head becomes Tail, and the log is not needed any more.
            if head != tail {
                self.move_tail_and_head(tail);
            }
            self.remove_log_records(self.layout.log_records);
            self.fence()?;
            return Ok(tail);
        }
        self.move_head_and_tail(tail + 1);
        // A new position before anything is written for a transaction of that position.
        self.fence()?;
        Ok(tail + 1)
    }

    /// Metadata entries, without those of blocks that the data cache has too: see `prepare`.
    fn scan_metadata_entries(&self, state: &mut State) -> Result<()> {
        let mut superseded = Vec::new();
        for slot in (0..self.layout.metadata_slots).rev() {
            let Some((block, mapping)) = self.checked_entry(Cache::Metadata, slot)? else {
                state.metadata.free_slots.push(slot);
                continue;
            };
            if mapping.slot != slot {
                let found = format!("metadata entry {slot} with NVM block {}", mapping.slot);
                return Err(self.damaged(found));
            }
            if state.metadata_slot(block).is_some() {
                return Err(self.damaged(format!("two metadata entries for block {block}")));
            }
            if state.data_entry(block).is_some() {
                self.store_mapping(Cache::Metadata, slot, None);
                superseded.push(slot);
            } else {
                state.set_metadata(slot, block, mapping.is_dirty);
            }
        }
        if !superseded.is_empty() {
            state.metadata.free_slots.extend(&superseded);
            self.flush_entries(Cache::Metadata, &mut superseded);
            // The older copy is gone before the newer one can be evicted and leave it alone.
            self.fence()?;
        }
        Ok(())
    }

    fn find_free(&self, state: &mut State) -> Result<()> {
        let mut used = HashSet::new();
        state.data.free_entries.clear();
        state.data.free_slots.clear();
        // Taken from the end: neighbours share lines when a flush marks them clean.
        for (entry, cached) in (0..self.layout.data_slots).zip(&state.data.entries).rev() {
            match cached {
                None => state.data.free_entries.push(entry),
                Some(cached) if !used.insert(cached.mapping.slot) => {
                    let slot = cached.mapping.slot;
                    return Err(self.damaged(format!("two data entries for NVM block {slot}")));
                }
                Some(_) => {}
            }
        }
        let slots = 0..self.layout.data_slots;
        state
            .data
            .free_slots
            .extend(slots.rev().filter(|slot| !used.contains(slot)));
        Ok(())
    }

    /// The block and the mapping of an entry in use.
    fn checked_entry(&self, cache: Cache, number: u32) -> Result<Option<(u64, Mapping)>> {
        let (block, word) = self.entry(cache, number);
        if word == NON {
            return Ok(None);
        }
        let mapping = mapping_of(word, self.layout.slots(cache)).map_err(|word| {
            self.damaged(format!("{cache:?} entry {number} with mapping {word:#x}"))
        })?;
        self.check_block(block)?;
        Ok(mapping.map(|mapping| (block, mapping)))
    }

    fn check_block(&self, block: u64) -> Result<()> {
        if block < self.layout.disk_blocks() {
            return Ok(());
        }
        Err(self.damaged(format!(
            "block {block} of a disk of {} blocks",
            self.layout.disk_blocks()
        )))
    }

    fn damaged(&self, found: String) -> Error {
        ErrorKind::Damaged {
            path: self.region.path().to_path_buf(),
            found,
        }
        .into()
    }
}
