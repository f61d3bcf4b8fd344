//! Diffs of dirty lines of the LLC, in a partition of its ways (§3.4): what a line differs by from NVM.
//!
//! A line of the file is dirty in the LLC exactly while its diff is here. A diff that has to go takes the line's dirt
//! with it: the caller writes the line back and keeps it, clean.

use crate::array::Array;
use crate::banks::Banks;
use crate::counts::LookUps;
use crate::line::{NO_LINE, Words, difference};
use crate::mutants::{Mutant, mutated};

/// The partition.
#[derive(Debug)]
pub struct Diffs {
    array: Array,
    data: Vec<Words>,
    banks: Banks,
    /// Look-ups of the partition.
    pub look_ups: LookUps,
}

impl Diffs {
    /// An empty one of so many ways.
    pub fn new(banks: Banks, ways: u32) -> Diffs {
        let array = Array::new(banks.sets(), ways as usize);
        Diffs {
            data: vec![[0; 8]; array.slots()],
            array,
            banks,
            look_ups: LookUps::default(),
        }
    }

    /// Lets each set have other numbers of diffs, so many at first.
    pub fn adapt(&mut self, ways: impl Fn(usize) -> u32) {
        self.array.limit_each(ways);
    }

    /// A line and its diff that do not fit a set which is to have so many.
    #[must_use]
    pub fn take_over(&mut self, set: usize, ways: u32) -> Option<(u32, Words)> {
        let slot = self.array.over(set, ways)?;
        let line = self.array.line(slot);
        self.array.clear(slot);
        Some((line, self.data[slot]))
    }

    /// A set has so many from now on.
    pub fn divide(&mut self, set: usize, ways: u32) {
        self.array.limit(set, ways);
    }

    /// How many a set may have.
    pub fn limit_of(&self, set: usize) -> usize {
        self.array.limit_of(set)
    }

    /// Whether a line has a diff when it is dirty.
    #[inline]
    pub fn keeps(&self, line: u32) -> bool {
        self.array.limit_of(self.set(line)) > 0
    }

    fn set(&self, line: u32) -> usize {
        self.banks.set(line)
    }

    /// A line of the LLC changes by `change`. Returns the line whose diff went, and its diff: to be written back.
    #[must_use]
    pub fn add(&mut self, line: u32, change: &Words) -> Option<(u32, Words)> {
        let found = self.array.find(self.set(line), line);
        self.look_ups.note(found.is_some());
        if let Some(slot) = found {
            self.array.touch(slot);
            self.data[slot] = match mutated(Mutant::DiffReplaced) {
                true => *change,
                false => difference(&self.data[slot], change),
            };
            return None;
        }
        let slot = self.array.victim(self.set(line));
        let before = self.array.line(slot);
        let went = (before != NO_LINE).then_some((before, self.data[slot]));
        self.array.put(slot, line);
        self.data[slot] = *change;
        went.filter(|_| !mutated(Mutant::EvictedDiffDropped))
    }

    /// Takes the diff of a line that leaves the LLC or is written back.
    pub fn take(&mut self, line: u32) -> Option<Words> {
        let found = self.array.find(self.set(line), line);
        self.look_ups.note(found.is_some());
        let slot = found?;
        if !mutated(Mutant::DiffKeptAfterEviction) {
            self.array.clear(slot);
        }
        Some(self.data[slot])
    }

    /// Whether a line has one.
    pub fn has(&self, line: u32) -> bool {
        self.array.find(self.set(line), line).is_some()
    }
}
