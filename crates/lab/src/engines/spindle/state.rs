//! What is known in DRAM, all of it found again from the entries when a region is opened: the index,
//! the free entries and NVM blocks, what is to be evicted next.

use std::collections::BTreeSet;

use crate::EngineStats;
use crate::cleaner::Level;
use crate::shared::InFlight;
use forebay::unstable::replace::Links;

use super::cuckoo::Cuckoo;
use super::layout::{Cache, Layout, Mapping};

/// Which entry a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An entry of the data cache.
    Data(u32),
    /// An entry of the metadata cache, which has its number in common with its NVM block.
    Metadata(u32),
}

/// A block of the data cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedData {
    pub(super) block: u64,
    pub(super) mapping: Mapping,
}

/// The data cache. At rest every NVM block is free or an entry's.
pub(super) struct DataCache {
    pub(super) entries: Vec<Option<CachedData>>,
    pub(super) free_entries: Vec<u32>,
    pub(super) free_slots: Vec<u32>,
    /// By entry.
    pub(super) lru: Links,
    /// Blocks that the disk lacks.
    dirty: u64,
}

/// A block of the metadata cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedMetadata {
    pub(super) block: u64,
    pub(super) is_dirty: bool,
    accesses: u64,
}

/// The metadata cache.
pub(super) struct MetadataCache {
    entries: Vec<Option<CachedMetadata>>,
    pub(super) free_slots: Vec<u32>,
    /// Accesses and slot of every block, the least accessed one first (§3.3).
    by_accesses: BTreeSet<(u64, u32)>,
    /// Blocks that the disk lacks.
    dirty: u64,
}

/// All of it, under the engine's one lock.
pub(super) struct State {
    pub(super) index: Cuckoo<Place>,
    pub(super) data: DataCache,
    pub(super) metadata: MetadataCache,
    /// The next ring position. Between commits Head and Tail are both here.
    pub(super) position: u64,
    /// Reads of the disk, and what the cleaner is at.
    pub(super) in_flight: InFlight,
    /// What was done since the engine was opened; only the counts kept nowhere else.
    pub(super) tallies: EngineStats,
}

impl State {
    /// Two empty caches in which nothing is free either.
    pub(super) fn new(layout: &Layout) -> State {
        let (data, metadata) = (layout.slots(Cache::Data), layout.slots(Cache::Metadata));
        State {
            index: Cuckoo::new(data as usize + metadata as usize),
            data: DataCache {
                entries: vec![None; data as usize],
                free_entries: Vec::new(),
                free_slots: Vec::new(),
                lru: Links::new(data as usize),
                dirty: 0,
            },
            metadata: MetadataCache {
                entries: vec![None; metadata as usize],
                free_slots: Vec::new(),
                by_accesses: BTreeSet::new(),
                dirty: 0,
            },
            position: 0,
            in_flight: InFlight::default(),
            tallies: EngineStats::default(),
        }
    }

    /// The data cache's entry of a block.
    pub(super) fn data_entry(&self, block: u64) -> Option<(u32, CachedData)> {
        match self.index.get(block) {
            Some(Place::Data(entry)) => Some((entry, self.data.at(entry))),
            _ => None,
        }
    }

    /// The metadata cache's entry of a block.
    pub(super) fn metadata_slot(&self, block: u64) -> Option<u32> {
        match self.index.get(block) {
            Some(Place::Metadata(slot)) => Some(slot),
            _ => None,
        }
    }

    /// Notes what a data entry says now; its block is the most recently used one.
    pub(super) fn set_data(&mut self, entry: u32, cached: CachedData) {
        self.data.replace(entry, Some(cached));
        self.index.insert(cached.block, Place::Data(entry));
        self.data.lru.touch(entry);
    }

    /// Forgets a data entry; it and its NVM block are free.
    pub(super) fn free_data(&mut self, entry: u32) {
        let cached = self.data.at(entry);
        self.data.replace(entry, None);
        self.data.lru.remove(entry);
        self.data.free_entries.push(entry);
        self.data.free_slots.push(cached.mapping.slot);
        self.index.remove(cached.block);
    }

    /// Notes that a block is in the metadata cache from now on.
    pub(super) fn set_metadata(&mut self, slot: u32, block: u64, is_dirty: bool) {
        let cached = CachedMetadata {
            block,
            is_dirty,
            accesses: 0,
        };
        let before = self.metadata.entries[slot as usize].replace(cached);
        assert!(before.is_none(), "metadata slot {slot} held {before:?}");
        self.metadata.dirty += u64::from(is_dirty);
        self.metadata.by_accesses.insert((0, slot));
        self.index.insert(block, Place::Metadata(slot));
    }

    /// Forgets a metadata entry; its NVM block is free.
    pub(super) fn free_metadata(&mut self, slot: u32) {
        let cached = self.metadata.at(slot);
        self.metadata.entries[slot as usize] = None;
        self.metadata.dirty -= u64::from(cached.is_dirty);
        self.metadata.by_accesses.remove(&(cached.accesses, slot));
        self.metadata.free_slots.push(slot);
        // A block that was written as data meanwhile keeps its entry there.
        if self.index.get(cached.block) == Some(Place::Metadata(slot)) {
            self.index.remove(cached.block);
        }
    }

    /// Blocks that are cached, and blocks of these that the disk lacks.
    pub(super) fn counts(&self) -> (u64, u64) {
        let dirty = self.data.dirty + self.metadata.dirty;
        (self.index.len() as u64, dirty)
    }

    /// How a cache stands.
    pub(super) fn level(&self, cache: Cache) -> Level {
        let (slots, free, dirty) = match cache {
            Cache::Data => (
                self.data.entries.len(),
                self.data.free_slots.len(),
                self.data.dirty,
            ),
            Cache::Metadata => (
                self.metadata.entries.len(),
                self.metadata.free_slots.len(),
                self.metadata.dirty,
            ),
        };
        Level {
            slots: slots as u64,
            free: free as u64,
            dirty,
            free_least: 1,
        }
    }

    /// What must hold between commits: nothing is lost, nothing is used twice.
    pub(super) fn assert_at_rest(&self) {
        let slots = self.data.entries.len();
        assert_eq!(self.data.lru.len() + self.data.free_entries.len(), slots);
        assert_eq!(self.data.free_slots.len(), self.data.free_entries.len());
        let metadata = self.metadata.by_accesses.len();
        let metadata_slots = self.metadata.entries.len();
        assert_eq!(metadata + self.metadata.free_slots.len(), metadata_slots);
        assert_eq!(self.data.lru.len() + metadata, self.index.len());
    }
}

impl DataCache {
    /// What an entry in use says.
    pub(super) fn at(&self, entry: u32) -> CachedData {
        self.entries[entry as usize].expect("an entry in use")
    }

    /// Gives an entry's block another mapping.
    pub(super) fn set_mapping(&mut self, entry: u32, mapping: Mapping) {
        let block = self.at(entry).block;
        self.replace(entry, Some(CachedData { block, mapping }));
    }

    fn replace(&mut self, entry: u32, cached: Option<CachedData>) {
        let is_dirty = |cached: &CachedData| cached.mapping.is_dirty;
        self.dirty += u64::from(cached.as_ref().is_some_and(is_dirty));
        let before = std::mem::replace(&mut self.entries[entry as usize], cached);
        self.dirty -= u64::from(before.as_ref().is_some_and(is_dirty));
    }
}

impl MetadataCache {
    /// What an entry in use says.
    pub(super) fn at(&self, slot: u32) -> CachedMetadata {
        self.entries[slot as usize].expect("an entry in use")
    }

    /// Notes whether the disk has a block.
    pub(super) fn set_dirty(&mut self, slot: u32, is_dirty: bool) {
        let cached = self.entries[slot as usize].as_mut();
        let was_dirty = &mut cached.expect("an entry in use").is_dirty;
        self.dirty += u64::from(is_dirty);
        self.dirty -= u64::from(std::mem::replace(was_dirty, is_dirty));
    }

    /// Counts accesses to a block's inodes.
    pub(super) fn access(&mut self, slot: u32, inodes: u64) {
        let cached = self.entries[slot as usize].as_mut();
        let cached = cached.expect("an entry in use");
        self.by_accesses.remove(&(cached.accesses, slot));
        cached.accesses += inodes;
        self.by_accesses.insert((cached.accesses, slot));
    }

    /// Slots in use, the least accessed first.
    pub(super) fn least_accessed_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_accesses.iter().map(|&(_, slot)| slot)
    }
}
