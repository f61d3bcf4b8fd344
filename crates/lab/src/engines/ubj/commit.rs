//! The commit: blocks are frozen where they are.
//!
//! I1: a transaction is committed when the commit record has its sequence, and the record has it
//! only after every block and entry of it is durable. I2: no byte of a buffer changes while its
//! entry may be used, so a frozen block is written elsewhere; one of which a part changes after a copy of what it holds.

use forebay::Result;

use super::Ubj;
use super::layout::{Entry, Layout};
use super::state::{Buffer, State};
use crate::mutants::{Mutant, mutated};
use crate::shared::{ChangedBlock, CommitBlocks, ContentBy, ReadThrough, check_alive, fence};

/// Where a block of the transaction goes.
struct Placed {
    slot: u32,
    /// The frozen version, which is copied there first if it is needed.
    copied_from: Option<u32>,
}

impl CommitBlocks for Ubj {
    fn commit_blocks(&self, blocks: &[ChangedBlock]) -> Result<()> {
        let Some(cleaner) = &self.cleaner else {
            return self.commit_locked(&mut self.lock(), blocks);
        };
        loop {
            let mut state = self.lock();
            check_alive(&self.region)?;
            let wanted = wanted(&state, blocks);
            if state.free_slots() >= wanted {
                self.commit_locked(&mut state, blocks)?;
                let is_above_high = cleaner.note(&state.level());
                drop(state);
                return match is_above_high {
                    true => cleaner.keep_below_high(self),
                    false => Ok(()),
                };
            }
            drop(state);
            cleaner.make_room(self, 0, wanted as u64)?;
        }
    }
}

impl Ubj {
    fn commit_locked(&self, state: &mut State, blocks: &[ChangedBlock]) -> Result<()> {
        check_alive(&self.region)?;
        let cached = |block: &&ChangedBlock| state.place_of(block.number).is_some();
        let hits = blocks.iter().filter(cached).count() as u64;
        self.make_room_for(state, blocks)?;
        for block in blocks {
            state.in_flight.note_change(block.number);
        }
        // From here on only a fence can fail, after which nothing is written any more.
        let sequence = state.sequence + 1;
        let placed: Vec<Placed> = blocks
            .iter()
            .map(|block| place(state, block.number))
            .collect();
        for (block, placed) in blocks.iter().zip(&placed) {
            self.write_buffer(placed, block);
        }
        for (block, placed) in blocks.iter().zip(&placed) {
            let entry = Entry {
                block: block.number,
                sequence,
            };
            self.layout.store_entry(&self.region, placed.slot, entry);
        }
        let slots = placed.iter().map(|placed| placed.slot);
        self.layout.flush_entries(&self.region, slots.clone());
        // I1: orders blocks and entries before the record that makes them count.
        if !mutated(Mutant::UbjRecordUnordered) {
            fence(&self.region)?;
        }
        Layout::store_commit_record(&self.region, sequence);
        // Orders the record before the caller's acknowledgement, and before the next transaction.
        fence(&self.region)?;
        let numbers = blocks.iter().map(|block| block.number);
        state.freeze(sequence, numbers.zip(slots));
        state.stats.commits += 1;
        state.stats.blocks_committed += blocks.len() as u64;
        state.stats.write_hits += hits;
        Ok(())
    }

    /// Makes room for all blocks that cannot be written where they are; with a cleaner there is.
    fn make_room_for(&self, state: &mut State, blocks: &[ChangedBlock]) -> Result<()> {
        for block in blocks {
            if let Some(slot) = state.place_of(block.number) {
                state.touch(slot);
            }
        }
        loop {
            let wanted = wanted(state, blocks);
            if state.free_slots() >= wanted {
                return Ok(());
            }
            // That may evict a block of this transaction, or make one clean: look again.
            self.make_room(state, wanted)?;
        }
    }

    /// Writes a block's new bytes, over a copy of its frozen ones where they are a part of it, and flushes them.
    fn write_buffer(&self, placed: &Placed, block: &ChangedBlock) {
        let bytes = &block.bytes;
        let offset = self.layout.buffer(placed.slot);
        let copies = self.copies_whole_blocks || block.changed.is_some();
        if let Some(frozen) = placed.copied_from.filter(|_| copies) {
            // The memory copy on the writer's way for which Tinca §1 and Spindle §1 blame the design.
            let mut copy = vec![0; bytes.len()];
            self.region.read(self.layout.buffer(frozen), &mut copy);
            match self.content {
                ContentBy::Flushes => self.region.store(offset, &copy),
                // What is streamed is put together before.
                ContentBy::Streams => {
                    copy.copy_from_slice(bytes);
                    return self.content.write(&self.region, offset, &copy);
                }
            }
        }
        self.content.write(&self.region, offset, bytes);
    }
}

/// Free buffers that the blocks take.
fn wanted(state: &State, blocks: &[ChangedBlock]) -> usize {
    let blocks = blocks.iter();
    blocks
        .filter(|block| !is_clean(state, block.number))
        .count()
}

fn is_clean(state: &State, block: u64) -> bool {
    let slot = state.place_of(block);
    slot.is_some_and(|slot| matches!(state.buffer(slot), Buffer::Clean { .. }))
}

/// A clean block is overwritten where it is; any other gets a free buffer.
fn place(state: &mut State, block: u64) -> Placed {
    match state.place_of(block) {
        Some(slot) if is_clean(state, block) => {
            state.take_clean(slot);
            Placed {
                slot,
                copied_from: None,
            }
        }
        copied_from => Placed {
            slot: state.take_free(),
            copied_from,
        },
    }
}
