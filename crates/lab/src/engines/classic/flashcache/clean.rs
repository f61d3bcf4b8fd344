//! Cleaning: dirty blocks to the disk, and their entries clean.
//!
//! Flashcache keeps the dirty blocks of a set below 20 % of it (`dirty_thresh_pct`): a write that
//! exceeds it cleans the set's least recently used dirty ones, and with them whatever dirty blocks
//! of the set lie next to them on the disk, merged into larger writes. Its cleaning of blocks
//! untouched for 15 minutes has no place here: there is no clock.

use std::collections::BTreeSet;

use forebay::Result;

use super::super::layout::{Entry, State};
use super::Flashcache;
use crate::mutants::{Mutant, mutated};

/// Flashcache's default `dirty_thresh_pct`.
const DIRTY_THRESHOLD_PERCENT: usize = 20;

impl Flashcache {
    /// Cleans what the set has above its threshold, which is at least one block.
    pub(super) fn clean_above_threshold(&mut self, set: usize) -> Result<()> {
        let slots = self.geometry.slots_of(set) as usize;
        let threshold = (slots * DIRTY_THRESHOLD_PERCENT / 100).max(1);
        match self.table.dirty_in(set).saturating_sub(threshold) {
            0 => Ok(()),
            excess => self.clean_oldest(set, excess),
        }
    }

    /// Cleans so many of the set's dirty blocks and their dirty neighbours in the set.
    pub(super) fn clean_oldest(&mut self, set: usize, count: usize) -> Result<()> {
        self.write_back(&self.oldest_with_neighbours(set, count))
    }

    /// So many of the set's dirty blocks, the oldest first, and their dirty neighbours in the set.
    pub(super) fn oldest_with_neighbours(&self, set: usize, count: usize) -> BTreeSet<u64> {
        let mut numbers = BTreeSet::new();
        for slot in self.table.oldest_dirty(set).take(count) {
            let number = self.table.entry(slot).number;
            let is_new = |near: &u64| {
                self.geometry.set_of(*near) == set
                    && self.is_dirty(*near)
                    && !numbers.contains(near)
            };
            let below: Vec<u64> = (0..number).rev().take_while(is_new).collect();
            let above: Vec<u64> = (number + 1..).take_while(is_new).collect();
            numbers.extend(below);
            numbers.insert(number);
            numbers.extend(above);
        }
        numbers
    }

    /// Cleans everything.
    pub(in super::super) fn clean_all(&mut self) -> Result<()> {
        let slots = self.table.dirty_slots();
        let numbers = slots.map(|slot| self.table.entry(slot).number).collect();
        self.write_back(&numbers)
    }

    pub(super) fn is_dirty(&self, number: u64) -> bool {
        let slot = self.table.find(number);
        slot.is_some_and(|slot| self.table.entry(slot).state == State::Dirty)
    }

    /// Writes these dirty blocks to the disk, syncs it, and only then writes their entries clean:
    /// from then on their slots may be reused. After an error of the backing all are dirty still.
    fn write_back(&mut self, numbers: &BTreeSet<u64>) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let numbers: Vec<u64> = numbers.iter().copied().collect();
        self.disk.write(
            &numbers,
            |number| *number,
            |number, bytes| self.read_dirty(*number, bytes),
        )?;
        if !mutated(Mutant::ClassicCleanBeforeSync) {
            self.disk.sync()?;
        }
        let mut slots = Vec::with_capacity(numbers.len());
        for number in numbers {
            let slot = self.table.find(number).expect("it is dirty");
            let state = State::Clean;
            self.table.set(slot, Entry { number, state });
            slots.push(slot);
        }
        self.write_metadata_of(&slots)
    }
}
