//! Committing a transaction (§4.4).
//!
//! Before: Head = Tail. For each block its data, its entry as a log block, its number in the ring and
//! Head become durable in this order; then each entry as a buffer block; then Tail := Head, which is
//! the commit. Until then both versions of every block are kept, so that recovery finds everything it
//! takes to go back: a block of the transaction is in the ring between Tail and Head, or its entry is a
//! log block, or nothing of it but data in a free slot is durable.

use forebay::Result;

use super::Tinca;
use super::layout::Entry;
use super::state::State;
use crate::mutants::{Mutant, mutated};
use crate::shared::{ChangedBlock, check_alive};

/// A block that has taken steps 1 to 3.
struct Written {
    index: u32,
    entry: Entry,
}

impl Tinca {
    /// All five steps. After an error of the backing nothing has changed; after one of the medium the
    /// slots and entries taken stay out of use until the next recovery has classified them.
    pub(super) fn commit_locked(&self, state: &mut State, blocks: &[ChangedBlock]) -> Result<()> {
        check_alive(&self.media.region)?;
        assert!(
            !blocks.is_empty() && blocks.len() <= self.media.geometry.transaction_blocks_max(),
            "a transaction of {} blocks",
            blocks.len()
        );
        let write_hits = self.reserve(state, blocks)?;
        for block in blocks {
            state.in_flight.note_change(block.number);
        }
        let tail = state.head;
        let mut written = Vec::with_capacity(blocks.len());
        for block in blocks {
            written.push(self.write_log_block(state, block)?);
        }
        assert_eq!(state.head - tail, blocks.len() as u64);
        if mutated(Mutant::TincaTailBeforeRoles) {
            self.media.move_tail(state.head)?;
        }
        // Step 4: every block is in the ring, so that recovery goes back whatever its role.
        for Written { index, entry } in &mut written {
            entry.is_log = false;
            self.media.write_entry(*index, entry)?;
        }
        // Step 5: Head is durable, and so are all roles.
        self.media.move_tail(state.head)?;
        for Written { index, entry } in written {
            // Rule 2b of §4.6: only now is a previous version free.
            state.free_slots.extend(entry.previous);
            state.put(index, entry);
        }
        state.tally.commits += 1;
        state.tally.blocks_committed += blocks.len() as u64;
        state.tally.write_hits += write_hits;
        Ok(())
    }

    /// Makes free slots for all blocks at once, so that nothing has been stored where there is no
    /// room, and returns how many of the blocks are cached. These are made the most recently used
    /// ones first, which they will be anyhow: so no victim is one of them (rule 2 of §4.6). With a cleaner there is
    /// room.
    fn reserve(&self, state: &mut State, blocks: &[ChangedBlock]) -> Result<u64> {
        let mut write_hits = 0;
        for block in blocks {
            if let Some(&index) = state.index.get(&block.number) {
                state.lru.touch(index);
                write_hits += 1;
            }
        }
        self.make_room(state, blocks.len(), write_hits)?;
        Ok(write_hits as u64)
    }

    /// Steps 1 to 3 for one block.
    fn write_log_block(&self, state: &mut State, block: &ChangedBlock) -> Result<Written> {
        let slot = state.free_slots.pop_front().expect("room was made");
        let (index, previous) = match state.entry_of(block.number) {
            Some((index, entry)) => (index, Some(entry.current)),
            None => {
                let index = state.free_entries.pop();
                (index.expect("as many entries as slots"), None)
            }
        };
        let entry = Entry {
            disk_block: block.number,
            is_log: true,
            is_modified: true,
            previous,
            current: slot,
        };
        self.media.write_block(slot, &block.bytes)?;
        self.media.write_entry(index, &entry)?;
        self.media.write_element(state.head, block.number)?;
        state.head += 1;
        self.media.move_head(state.head)?;
        Ok(Written { index, entry })
    }
}
