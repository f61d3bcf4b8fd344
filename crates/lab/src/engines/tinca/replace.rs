//! What comes into the cache besides commits and what leaves it: fills, eviction (§4.6), write-back.
//!
//! A slot is free only when the deletion of the entry that named it is durable, and a modified block's
//! entry is deleted or marked clean only when the disk has synced the block. So whatever a power cut
//! leaves of these steps, each entry in use names a slot with the block's newest bytes, and where there
//! is none the disk has them.

use forebay::{ErrorKind, Result};

use super::layout::Entry;
use super::state::State;
use super::{Tinca, corrupt};
use crate::mutants::{Mutant, mutated};
use crate::shared::check_alive;

impl Tinca {
    /// Evicts the least recently used block until so many slots are free. The `pinned` most recently
    /// used blocks stay.
    pub(super) fn make_room(&self, state: &mut State, slots: usize, pinned: usize) -> Result<()> {
        while state.free_slots.len() < slots {
            let is_any = state.lru.len() > pinned;
            let victim = state.lru.oldest_first().next().filter(|_| is_any);
            let Some(victim) = victim else {
                return Err(ErrorKind::NoSpace {
                    waited_ms: 0,
                    dirty_blocks: state.dirty_blocks,
                }
                .into());
            };
            self.evict(state, victim)?;
        }
        Ok(())
    }

    fn evict(&self, state: &mut State, index: u32) -> Result<()> {
        check_alive(&self.media.region)?;
        let entry = state.entries[index as usize].expect("a listed entry is in use");
        if entry.is_modified {
            self.write_back(&[entry])?;
        }
        self.media.delete_entry(index, &entry)?;
        state.remove(index);
        state.tally.evictions += 1;
        Ok(())
    }

    /// Brings a block that was read from the disk in, clean. With a cleaner it does so only where there is room.
    pub(super) fn fill_locked(
        &self,
        state: &mut State,
        disk_block: u64,
        bytes: &[u8],
    ) -> Result<()> {
        check_alive(&self.media.region)?;
        match &self.cleaner {
            None => self.make_room(state, 1, 0)?,
            Some(cleaner) => {
                // The cleaner works by how that leaves it.
                cleaner.note(&state.level());
                if state.free_slots.is_empty() {
                    return Ok(());
                }
            }
        }
        let slot = state.free_slots.pop_front().expect("room was made");
        self.media.write_block(slot, bytes)?;
        let index = state.free_entries.pop().expect("as many entries as slots");
        let entry = Entry {
            disk_block,
            is_log: false,
            is_modified: false,
            previous: None,
            current: slot,
        };
        self.media.write_entry(index, &entry)?;
        state.put(index, entry);
        Ok(())
    }

    /// Writes all modified blocks to the disk and syncs it, then marks them clean.
    pub(super) fn flush_locked(&self, state: &mut State) -> Result<()> {
        let mut dirty = Vec::with_capacity(state.dirty_blocks as usize);
        if state.dirty_blocks > 0 {
            let entries = state.entries.iter().flatten();
            dirty.extend(entries.filter(|entry| entry.is_modified).copied());
            dirty.sort_unstable_by_key(|entry| entry.disk_block);
        }
        assert_eq!(dirty.len() as u64, state.dirty_blocks);
        self.write_back(&dirty)?;
        if dirty.is_empty() {
            return Ok(());
        }
        check_alive(&self.media.region)?;
        let modified = state
            .entries
            .iter_mut()
            .zip(0..)
            .filter_map(|(entry, index)| {
                let entry = entry.as_mut().filter(|entry| entry.is_modified)?;
                entry.is_modified = false;
                Some((index, *entry))
            });
        let clean: Vec<(u32, Entry)> = modified.collect();
        // In DRAM they are clean even if this fails, rightly: the disk has them. Nothing is stored
        // after a failed fence.
        state.dirty_blocks = 0;
        self.media.write_entries(&clean)
    }

    /// Writes blocks, given by ascending number, to the disk and syncs it.
    fn write_back(&self, entries: &[Entry]) -> Result<()> {
        let number = |entry: &Entry| entry.disk_block;
        let read = |entry: &Entry, bytes: &mut [u8]| self.read_cached(entry, bytes);
        self.disk.write(entries, number, read)?;
        if mutated(Mutant::TincaFreedBeforeSync) {
            return Ok(());
        }
        self.disk.sync()
    }

    /// Copies a cached block out. A clean one that the medium lost comes from the disk.
    pub(super) fn read_cached(&self, entry: &Entry, out: &mut [u8]) -> Result<()> {
        if self.media.read_block(entry.current, out) {
            return Ok(());
        }
        if entry.is_modified {
            return Err(corrupt(entry.disk_block));
        }
        self.disk.read(entry.disk_block, out)
    }
}
