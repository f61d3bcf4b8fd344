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
