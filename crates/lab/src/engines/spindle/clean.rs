//! What the cleaner does to a Spindle, in each of its two caches: entries are marked clean or freed when the disk has
//! synced their blocks, each line once and one fence for all, and NVM blocks are taken again only after that.
//!
//! A block that a commit moves from one cache to the other counts as changed.

use std::ops::Range;

use forebay::{Region, Result};

use super::Spindle;
use super::layout::{Cache, Mapping};
use super::state::{Place, State};
use crate::cleaner::{
    Cleanable, Cleaner, Goal, Level, Picked, Portion, Settled, Standing, have_changed,
};
use crate::mutants::{Mutant, mutated};
use crate::shared::{Disk, ReadThrough, check_alive};

impl State {
    /// The data cache's least recently used entry first, the metadata cache's least accessed.
    fn coldest(&self, cache: Cache) -> Box<dyn Iterator<Item = u32> + '_> {
        match cache {
            Cache::Data => Box::new(self.data.lru.oldest_first()),
            Cache::Metadata => Box::new(self.metadata.least_accessed_first()),
        }
    }

    /// Entries of a cache for a goal.
    fn candidates(&self, cache: Cache, goal: Goal) -> Vec<u32> {
        let coldest = self.coldest(cache);
        let is_dirty = |entry: &u32| self.block_of(cache, *entry).1;
        let level = self.level(cache);
        match goal {
            Goal::Coldest(blocks) => coldest.take(blocks).collect(),
            Goal::ColdestClean(_) if level.free + level.dirty == level.slots => Vec::new(),
            Goal::ColdestClean(blocks) => {
                let clean = coldest.filter(|entry| !is_dirty(entry));
                clean.take(blocks).collect()
            }
            Goal::Clean(blocks) => coldest.filter(is_dirty).take(blocks).collect(),
        }
    }

    /// The block of an entry, and whether the disk lacks it.
    fn block_of(&self, cache: Cache, entry: u32) -> (u64, bool) {
        match cache {
            Cache::Data => {
                let cached = self.data.at(entry);
                (cached.block, cached.mapping.is_dirty)
            }
            Cache::Metadata => {
                let cached = self.metadata.at(entry);
                (cached.block, cached.is_dirty)
            }
        }
    }
}

impl Cleanable for Spindle {
    const REWRITE_IGNORED: Mutant = Mutant::SpindleCleanerIgnoresRewrite;
    const CLEAN_BEFORE_SYNC: Mutant = Mutant::SpindleCleanerBeforeSync;

    fn cleaner(&self) -> &Cleaner {
        self.cleaner.as_ref().expect("it has one")
    }

    fn disk(&self) -> &Disk {
        &self.disk
    }

    fn levels(&self) -> Vec<Level> {
        let state = self.lock();
        Cache::BOTH.map(|cache| state.level(cache)).into()
    }

    fn region(&self) -> &Region {
        &self.media.region
    }

    fn pick(&self, goals: &[(usize, Goal)]) -> Vec<Picked> {
        let mut state = self.lock();
        state.in_flight.begin_round();
        let mut picked = Vec::new();
        for &(pool, goal) in goals {
            let leaves = matches!(goal, Goal::Coldest(_) | Goal::ColdestClean(_));
            for place in state.candidates(Cache::BOTH[pool], goal) {
                let one = self.picked(&state, (pool, place), leaves);
                state.in_flight.claim(one.block);
                picked.push(one);
            }
        }
        picked
    }

    /// In the order of the disk, of both caches together: a block that moves from one to the other is passed once.
    fn dirty_positions(&self) -> Range<u64> {
        0..self.media.layout.disk_blocks()
    }

    fn pick_dirty(&self, positions: Range<u64>, blocks_max: usize) -> Portion {
        let mut state = self.lock();
        let mut dirty = Vec::new();
        for cache in Cache::BOTH {
            let places = state.coldest(cache).filter(|&place| {
                let (block, is_dirty) = state.block_of(cache, place);
                is_dirty && positions.contains(&block)
            });
            dirty.extend(places.map(|place| {
                let one = self.picked(&state, (cache as usize, place), false);
                (one.block, one)
            }));
        }
        Portion::claimed(dirty, blocks_max, &mut state.in_flight)
    }

    fn have_changed(&self, picked: &[Picked]) -> Vec<bool> {
        have_changed(picked, &self.lock().in_flight)
    }

    fn copy_newest(&self, picked: &Picked, out: &mut [u8]) -> Result<()> {
        let state = self.lock();
        let (cache, slot) = match state
            .index
            .get(picked.block)
            .expect("a claimed block stays")
        {
            Place::Data(entry) => (Cache::Data, state.data.at(entry).mapping.slot),
            Place::Metadata(slot) => (Cache::Metadata, slot),
        };
        self.media.read_slot(cache, slot, picked.block, out)
    }

    fn settle(&self, picked: &[Picked]) -> Result<Settled> {
        let mut state = self.lock();
        check_alive(&self.media.region)?;
        let mut settled = Settled::default();
        let (mut leaving, mut cleaned) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for one in picked {
            let is_same = state.in_flight.release(one.block) || mutated(Self::REWRITE_IGNORED);
            match one.standing {
                Standing::Dirty => {}
                _ if !is_same => settled.changed += 1,
                _ if one.leaves => leaving[one.pool].push(one.place),
                _ => cleaned[one.pool].push(one.place),
            }
        }
        for cache in Cache::BOTH {
            self.store_settled(&mut state, cache, &mut leaving[cache as usize], false);
            self.store_settled(&mut state, cache, &mut cleaned[cache as usize], true);
        }
        settled.done = leaving
            .iter()
            .chain(&cleaned)
            .map(|of| of.len() as u64)
            .sum();
        if settled.done > 0 {
            // Entries are durably free before their NVM blocks have other bytes; what is clean is so after a restart too.
            self.media.fence()?;
        }
        for entry in &leaving[Cache::Data as usize] {
            state.free_data(*entry);
        }
        for slot in &leaving[Cache::Metadata as usize] {
            state.free_metadata(*slot);
        }
        state.tallies.evictions += leaving.iter().map(|of| of.len() as u64).sum::<u64>();
        state.assert_at_rest();
        Ok(settled)
    }
}

impl Spindle {
    fn picked(&self, state: &State, (pool, place): (usize, u32), leaves: bool) -> Picked {
        let cache = Cache::BOTH[pool];
        let (block, is_dirty) = state.block_of(cache, place);
        let slot = match cache {
            Cache::Data => state.data.at(place).mapping.slot,
            Cache::Metadata => place,
        };
        Picked {
            block,
            place,
            offset: self.media.layout.slot(cache, slot),
            pool,
            leaves,
            standing: Standing::before(is_dirty),
        }
    }

    /// Stores and flushes the mappings of entries that stay, clean, or of those that go; not fenced.
    fn store_settled(&self, state: &mut State, cache: Cache, entries: &mut [u32], stay: bool) {
        for &entry in &*entries {
            let slot = match cache {
                Cache::Data => state.data.at(entry).mapping.slot,
                Cache::Metadata => entry,
            };
            let mapping = stay.then_some(Mapping {
                slot,
                is_dirty: false,
            });
            self.media.store_mapping(cache, entry, mapping);
            match (cache, mapping) {
                (_, None) => {}
                (Cache::Data, Some(mapping)) => state.data.set_mapping(entry, mapping),
                (Cache::Metadata, Some(_)) => state.metadata.set_dirty(entry, false),
            }
        }
        self.media.flush_entries(cache, entries);
    }
}
