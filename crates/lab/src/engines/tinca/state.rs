//! What Tinca keeps in DRAM (§4.6): a hash table, an LRU list and the free block monitor. All of it is
//! made anew from the entries when the engine is opened.

use std::collections::{HashMap, VecDeque};

use crate::EngineStats;
use forebay::unstable::replace::Links;

use super::layout::Entry;
use crate::cleaner::Level;
use crate::shared::InFlight;

/// Guarded by the engine's mutex.
///
/// Between operations, as long as no fence has failed: `entries` is what the media holds durably, Head
/// and Tail are both `head`, no entry is a log block, and every slot is either the current one of
/// exactly one entry or free.
pub(super) struct State {
    /// The entries by index; none for a free one.
    pub(super) entries: Vec<Option<Entry>>,
    /// The entry of each cached disk block.
    pub(super) index: HashMap<u64, u32>,
    /// Entries in use.
    pub(super) lru: Links,
    /// Slots that no entry names, the longest unused first, which spreads the wear.
    pub(super) free_slots: VecDeque<u32>,
    /// Entries that are free.
    pub(super) free_entries: Vec<u32>,
    /// The position of Head.
    pub(super) head: u64,
    /// Modified blocks.
    pub(super) dirty_blocks: u64,
    /// Reads of the disk, and what the cleaner is at.
    pub(super) in_flight: InFlight,
    /// What was done since the engine was opened; only the counts kept nowhere else.
    pub(super) tally: EngineStats,
}

impl State {
    /// Nothing cached in so many slots.
    pub(super) fn empty(slots: u32, head: u64) -> State {
        State {
            entries: vec![None; slots as usize],
            index: HashMap::new(),
            lru: Links::new(slots as usize),
            free_slots: (0..slots).collect(),
            // The first is taken first.
            free_entries: (0..slots).rev().collect(),
            head,
            dirty_blocks: 0,
            in_flight: InFlight::default(),
            tally: EngineStats::default(),
        }
    }

    /// How the slots stand.
    pub(super) fn level(&self) -> Level {
        Level {
            slots: self.entries.len() as u64,
            free: self.free_slots.len() as u64,
            dirty: self.dirty_blocks,
            free_least: 1,
        }
    }

    /// The entry of a disk block.
    pub(super) fn entry_of(&self, disk_block: u64) -> Option<(u32, Entry)> {
        let index = *self.index.get(&disk_block)?;
        let entry = self.entries[index as usize].expect("an indexed entry is in use");
        Some((index, entry))
    }

    /// Notes what the media now says, and makes the block the most recently used one.
    pub(super) fn put(&mut self, index: u32, entry: Entry) {
        self.dirty_blocks += u64::from(entry.is_modified);
        let before = self.entries[index as usize].replace(entry);
        if let Some(before) = before {
            assert_eq!(
                before.disk_block, entry.disk_block,
                "an entry changed its block"
            );
            self.dirty_blocks -= u64::from(before.is_modified);
        } else {
            let double = self.index.insert(entry.disk_block, index);
            assert_eq!(double, None, "a block has two entries");
        }
        self.lru.touch(index);
    }

    /// Notes that the disk has the block as its entry says, and the media says so.
    pub(super) fn set_clean(&mut self, index: u32, entry: Entry) {
        let before = self.entries[index as usize].replace(entry);
        let was_dirty = before.is_some_and(|before| before.is_modified);
        self.dirty_blocks -= u64::from(was_dirty);
    }

    /// Notes that the media has the entry free; its slot and it may be used again.
    pub(super) fn remove(&mut self, index: u32) {
        let entry = self.entries[index as usize].take();
        let entry = entry.expect("an entry that is removed was in use");
        self.index.remove(&entry.disk_block);
        self.lru.remove(index);
        self.dirty_blocks -= u64::from(entry.is_modified);
        self.free_entries.push(index);
        self.free_slots.push_back(entry.current);
    }
}
