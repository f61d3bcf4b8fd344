//! What the cleaner does to a Tinca. A round's entries are changed like those of a flush: in no order among each
//! other, each line once and one fence, when the disk has synced their blocks. Entries are freed in the same way as
//! in an eviction, and their slots are taken again only after that fence.

use std::ops::Range;

use forebay::{Region, Result};

use super::layout::Entry;
use super::state::State;
use super::{Tinca, corrupt};
use crate::cleaner::{
    Cleanable, Cleaner, Goal, Level, Picked, Portion, Settled, Standing, have_changed,
};
use crate::mutants::{Mutant, mutated};
use crate::shared::{Disk, ReadThrough, check_alive};

impl State {
    /// Entries for a goal.
    fn candidates(&self, goal: Goal) -> Vec<u32> {
        let coldest = self.lru.oldest_first();
        let is_modified = |index: &u32| self.at(*index).is_modified;
        let is_any_clean = self.dirty_blocks < self.lru.len() as u64;
        match goal {
            Goal::Coldest(blocks) => coldest.take(blocks).collect(),
            Goal::ColdestClean(_) if !is_any_clean => Vec::new(),
            Goal::ColdestClean(blocks) => {
                let clean = coldest.filter(|index| !is_modified(index));
                clean.take(blocks).collect()
            }
            Goal::Clean(blocks) => coldest.filter(is_modified).take(blocks).collect(),
        }
    }

    fn at(&self, index: u32) -> Entry {
        self.entries[index as usize].expect("a listed entry is in use")
    }
}

impl Tinca {
    fn picked(&self, place: u32, entry: Entry, (pool, leaves): (usize, bool)) -> Picked {
        Picked {
            block: entry.disk_block,
            place,
            offset: self.media.geometry.slot(entry.current),
            pool,
            leaves,
            standing: Standing::before(entry.is_modified),
        }
    }
}

impl Cleanable for Tinca {
    const REWRITE_IGNORED: Mutant = Mutant::TincaCleanerIgnoresRewrite;
    const CLEAN_BEFORE_SYNC: Mutant = Mutant::TincaCleanerBeforeSync;

    fn cleaner(&self) -> &Cleaner {
        self.cleaner.as_ref().expect("it has one")
    }

    fn disk(&self) -> &Disk {
        &self.disk
    }

    fn levels(&self) -> Vec<Level> {
        vec![self.lock().level()]
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
            for place in state.candidates(goal) {
                let entry = state.at(place);
                state.in_flight.claim(entry.disk_block);
                picked.push(self.picked(place, entry, (pool, leaves)));
            }
        }
        picked
    }

    /// In the order of the disk.
    fn dirty_positions(&self) -> Range<u64> {
        0..self.media.geometry.disk_blocks
    }

    fn pick_dirty(&self, positions: Range<u64>, blocks_max: usize) -> Portion {
        let mut state = self.lock();
        let entries = (0..).zip(&state.entries);
        let dirty = entries.filter_map(|(place, entry)| {
            let entry = entry.filter(|entry| entry.is_modified)?;
            let is_asked = positions.contains(&entry.disk_block);
            is_asked.then(|| (entry.disk_block, self.picked(place, entry, (0, false))))
        });
        let dirty = dirty.collect();
        Portion::claimed(dirty, blocks_max, &mut state.in_flight)
    }

    fn have_changed(&self, picked: &[Picked]) -> Vec<bool> {
        have_changed(picked, &self.lock().in_flight)
    }

    fn copy_newest(&self, picked: &Picked, out: &mut [u8]) -> Result<()> {
        let state = self.lock();
        let entry = state.at(picked.place);
        assert_eq!(entry.disk_block, picked.block, "a claimed block stays");
        match self.media.read_block(entry.current, out) {
            true => Ok(()),
            false => Err(corrupt(picked.block)),
        }
    }

    fn settle(&self, picked: &[Picked]) -> Result<Settled> {
        let mut state = self.lock();
        check_alive(&self.media.region)?;
        let mut settled = Settled::default();
        let (mut leaving, mut cleaned) = (Vec::new(), Vec::new());
        for one in picked {
            let is_same = state.in_flight.release(one.block) || mutated(Self::REWRITE_IGNORED);
            let mut entry = state.at(one.place);
            match one.standing {
                Standing::Dirty => {}
                _ if !is_same => settled.changed += 1,
                _ if one.leaves => leaving.push((one.place, entry)),
                _ => {
                    entry.is_modified = false;
                    cleaned.push((one.place, entry));
                }
            }
        }
        leaving.sort_unstable_by_key(|(index, _)| *index);
        cleaned.sort_unstable_by_key(|(index, _)| *index);
        if !leaving.is_empty() {
            self.media.delete_entries(&leaving)?;
        }
        if !cleaned.is_empty() {
            self.media.write_entries(&cleaned)?;
        }
        for (index, _) in &leaving {
            state.remove(*index);
        }
        for (index, entry) in &cleaned {
            state.set_clean(*index, *entry);
        }
        state.tally.evictions += leaving.len() as u64;
        settled.done = (leaving.len() + cleaned.len()) as u64;
        Ok(settled)
    }
}
