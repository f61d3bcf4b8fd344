//! What the cleaner does to a Classic: a pool is a set, and a round marks the blocks of several sets clean.
//!
//! The marks of the cleaner stand in for Flashcache's threshold of a set. What a client is about to write is counted
//! before its first store (`flashcache/room.rs`); where a set lacks room the client lets go of the mutex and makes a
//! round. A transaction that needs more than half of a set might never find that: it holds the cleaner off and
//! cleans as it goes, under the mutex.

use std::ops::Range;

use forebay::{Region, Result};

use super::flashcache::Cleaning;
use super::{Classic, State};
use crate::cleaner::{Cleanable, Cleaner, Goal, Level, Picked, Portion, Settled, have_changed};
use crate::mutants::{Mutant, mutated};
use crate::shared::{Disk, ReadThrough};

impl Classic {
    /// Does something to the cache, again from its beginning as often as a set lacked room.
    pub(super) fn with_room(&self, mut work: impl FnMut(&mut State) -> Result<()>) -> Result<()> {
        let Some(cleaner) = &self.cleaner else {
            return work(&mut self.lock());
        };
        loop {
            let mut state = self.lock();
            let done = work(&mut state);
            let touched = state.cache.take_touched().into_iter();
            let is_above_high =
                touched.fold(false, |is_above, level| cleaner.note(&level) | is_above);
            let Some(lacking) = state.cache.take_lacking() else {
                drop(state);
                done?;
                return match is_above_high {
                    true => cleaner.keep_below_high(self),
                    false => Ok(()),
                };
            };
            drop(state);
            if lacking.is_too_many {
                let _round = cleaner.begin_round();
                let mut state = self.lock();
                state.cache.set_cleaning(Cleaning::Alone);
                let done = work(&mut state);
                state.cache.set_cleaning(Cleaning::InBackground);
                return done;
            }
            cleaner.make_room(self, lacking.set, lacking.slots)?;
        }
    }
}

impl Cleanable for Classic {
    const REWRITE_IGNORED: Mutant = Mutant::ClassicCleanerIgnoresRewrite;
    const CLEAN_BEFORE_SYNC: Mutant = Mutant::ClassicCleanerBeforeSync;

    fn cleaner(&self) -> &Cleaner {
        self.cleaner.as_ref().expect("it has one")
    }

    fn disk(&self) -> &Disk {
        &self.disk
    }

    fn levels(&self) -> Vec<Level> {
        let state = self.lock();
        let sets = 0..self.geometry.sets() as usize;
        sets.map(|set| state.cache.level(set)).collect()
    }

    fn region(&self) -> &Region {
        &self.region
    }

    fn pick(&self, goals: &[(usize, Goal)]) -> Vec<Picked> {
        self.lock().cache.pick(goals)
    }

    /// In the order of the slots, so that a metadata block is written once or twice; neighbours on the disk share a set.
    fn dirty_positions(&self) -> Range<u64> {
        0..self.geometry.slots
    }

    fn pick_dirty(&self, positions: Range<u64>, blocks_max: usize) -> Portion {
        self.lock().cache.pick_dirty(positions, blocks_max)
    }

    fn have_changed(&self, picked: &[Picked]) -> Vec<bool> {
        have_changed(picked, self.lock().cache.in_flight())
    }

    fn copy_newest(&self, picked: &Picked, out: &mut [u8]) -> Result<()> {
        self.lock().cache.read_dirty(picked.block, out)
    }

    fn settle(&self, picked: &[Picked]) -> Result<Settled> {
        let mut settled = Settled::default();
        let block_of = |one: &Picked| self.geometry.metadata_block_of(one.place);
        let mut sorted = picked.to_vec();
        sorted.sort_unstable_by_key(block_of);
        // One metadata block at a time, which is written whole: clients go in between.
        for of_block in sorted.chunk_by(|one, next| block_of(one) == block_of(next)) {
            let ignores_rewrite = mutated(Self::REWRITE_IGNORED);
            let some = self.lock().cache.end_round(of_block, ignores_rewrite)?;
            settled.done += some.done;
            settled.changed += some.changed;
        }
        Ok(settled)
    }
}
