//! The shared cache: its directory of who has which line, and what is dirty.

use crate::controller::state::Loss;
use crate::line::{Home, NO_LINE, Words, difference, home};
use crate::machine::state::{Entry, Held, Machine};
use crate::mutants::{Mutant, mutated};

/// The cores of a directory's bits.
fn ones(mut bits: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (first < u16::BITS).then_some(first as usize)
    })
}

impl Machine {
    /// The bank of a line, whose controller serves it.
    pub(in crate::machine) fn bank(&self, line: u32) -> usize {
        self.llc.banks.bank(line)
    }

    fn shared_set(&self, line: u32) -> usize {
        self.llc.banks.set(line)
    }

    /// The slot of a line that a core's cache has.
    pub(in crate::machine) fn shared_slot(&self, line: u32) -> usize {
        let found = self.llc.array.find(self.shared_set(line), line);
        found.expect("the shared cache has what a core's cache has")
    }

    /// A line for a core, to be changed if `is_store`: its slot, and when it is there. The core has it once it [joins](Machine::join).
    pub(in crate::machine) fn reach_shared(
        &mut self,
        core: usize,
        line: u32,
        is_store: bool,
        now: u64,
    ) -> Result<(usize, u64), Loss> {
        let now = now + self.times.llc_cycles;
        let set = self.shared_set(line);
        let found = self.llc.array.find(set, line);
        self.counts.llc.note(found.is_some());
        if let Some(duel) = self.controllers.duel_mut() {
            let is_nvm = matches!(home(line), Home::Data(_));
            duel.looked_up(set, line, is_nvm, now);
        }
        match found {
            Some(slot) => {
                self.llc.array.touch(slot);
                let was_asked = self.settle_others(core, slot, is_store, now);
                Ok((slot, now + u64::from(was_asked) * self.times.l2_cycles))
            }
            None => self.fetch_shared(set, line, now),
        }
    }

    /// A core is to have the line of a slot: how it has it until it changes it.
    pub(in crate::machine) fn join(&mut self, core: usize, slot: usize) -> Held {
        let entry = &mut self.llc.entries[slot];
        entry.sharers |= 1 << core;
        entry.is_owned = entry.sharers == 1 << core;
        match entry.is_owned {
            true => Held::Exclusive,
            false => Held::Shared,
        }
    }

    /// A core that has the line of a slot shared is to change it: when no other has it any more.
    pub(in crate::machine) fn upgrade(&mut self, core: usize, slot: u32, now: u64) -> u64 {
        let now = now + self.times.llc_cycles;
        let slot = slot as usize;
        self.counts.llc.note(true);
        self.llc.array.touch(slot);
        self.settle_others(core, slot, true, now);
        self.llc.entries[slot].is_owned = true;
        now
    }

    /// Takes a line from the other cores: from all for a store, from the one that has it alone for a load.
    /// Whether one had to be asked for its bytes.
    fn settle_others(&mut self, core: usize, slot: usize, is_store: bool, now: u64) -> bool {
        let entry = self.llc.entries[slot];
        let others = entry.sharers & !(1 << core);
        if others == 0 || !is_store && !entry.is_owned || mutated(Mutant::OtherCoresNotAsked) {
            return false;
        }
        let mut was_asked = false;
        for other in ones(others) {
            let second = self.second_of(other, slot);
            self.counts.l2.note(true);
            was_asked |= entry.is_owned && self.collect(other, second, slot, now);
            if is_store {
                self.forget_private(other, second);
                self.llc.entries[slot].sharers &= !(1 << other);
            }
        }
        self.llc.entries[slot].is_owned = false;
        was_asked
    }

    /// The slot of the second cache of a core that has the line of a slot.
    fn second_of(&self, core: usize, slot: usize) -> usize {
        let second = self.second_slot(core, self.llc.array.line(slot));
        second.expect("a core has what the directory says")
    }

    /// What a core changed goes to the shared cache, and it keeps the line shared. Whether it had changed it.
    fn collect(&mut self, core: usize, second: usize, slot: usize, now: u64) -> bool {
        let held = &mut self.cores[core].l2_held[second];
        let was_modified = std::mem::replace(held, Held::Shared) == Held::Modified;
        if was_modified {
            self.absorb(slot, (core, second), now);
        }
        was_modified
    }

    /// Brings a line from memory: its slot, and when it is there.
    fn fetch_shared(&mut self, set: usize, line: u32, now: u64) -> Result<(usize, u64), Loss> {
        let (words, done) = self.read_memory(line, now)?;
        self.divide_anew(set, now);
        if let Some(duel) = self.controllers.duel_mut() {
            let cycles = done.saturating_sub(now);
            match home(line) {
                Home::Data(_) => duel.filled(cycles),
                _ => duel.filled_from_dram(cycles),
            }
        }
        let slot = self.llc.array.victim(set);
        self.evict_shared(slot, now);
        self.llc.array.put(slot, line);
        self.llc.entries[slot] = Entry::default();
        self.llc.data[slot] = words;
        Ok((slot, done))
    }

    /// A line of the shared cache, which looks it up, gets what a core made of it, which is in that slot of its second one. With diffs,
    /// that of another line may have to go.
    pub(in crate::machine) fn absorb(
        &mut self,
        slot: usize,
        (core, second): (usize, usize),
        now: u64,
    ) {
        let line = self.llc.array.line(slot);
        let has_diff = self.has_diff(slot);
        self.counts.llc.note(true);
        self.llc.entries[slot].is_dirty = true;
        self.note_changed(line);
        let words = &self.cores[core].l2_data[second];
        if !has_diff {
            self.llc.data[slot] = *words;
            return;
        }
        let change = difference(&self.llc.data[slot], words);
        self.llc.data[slot] = *words;
        let diffs = self.controllers.diffs.as_mut();
        let went = diffs.and_then(|diffs| diffs.add(line, &change));
        if let Some((line, diff)) = went {
            self.clean(line, Some(diff), now);
        }
    }

    /// A dirty line is written back, clean, and kept (§3.4).
    pub(in crate::machine) fn clean(&mut self, line: u32, diff: Option<Words>, now: u64) {
        let slot = self.shared_slot(line);
        self.counts.llc.note(true);
        self.llc.entries[slot].is_dirty = mutated(Mutant::CleanedLineLeftDirty);
        let words = self.llc.data[slot];
        self.write_memory(line, &words, diff, now);
        self.nvm.fuse.step();
    }

    /// Tells the duel of a line of the file that becomes dirty.
    fn note_changed(&mut self, line: u32) {
        let set = self.shared_set(line);
        if matches!(home(line), Home::Data(line) if self.controllers.covers(line))
            && let Some(duel) = self.controllers.duel_mut()
        {
            duel.changed(set, line);
        }
    }

    /// Whether what becomes of a line is told by its diff: not of one that became dirty while its set had no ways for diffs.
    ///
    /// # Panics
    /// A line is dirty without a diff, and sets always had ways for one.
    fn has_diff(&self, slot: usize) -> bool {
        let line = self.llc.array.line(slot);
        let diffs = self.controllers.diffs.as_ref();
        let Some(diffs) = diffs.filter(|diffs| diffs.keeps(line)) else {
            return false;
        };
        if !matches!(home(line), Home::Data(line) if self.controllers.covers(line)) {
            return false;
        }
        let is_whole = !self.llc.entries[slot].is_dirty || diffs.has(line);
        assert!(
            is_whole || self.controllers.duel().is_some(),
            "a dirty line has a diff where ways are fixed"
        );
        is_whole || mutated(Mutant::DiffOfDirtyLine)
    }

    /// The shared cache needs a slot: the line leaves all caches, and goes to memory if it was changed.
    pub(in crate::machine) fn evict_shared(&mut self, slot: usize, now: u64) {
        let line = self.llc.array.line(slot);
        if line == NO_LINE {
            return;
        }
        let newest = self.take_from_cores(slot);
        let diff = self.diff_of(slot, newest.as_ref());
        if let Some(words) = newest {
            self.llc.data[slot] = words;
            self.note_changed(line);
        }
        let entry = &mut self.llc.entries[slot];
        entry.is_dirty |= newest.is_some();
        entry.sharers = 0;
        if entry.is_dirty {
            let words = self.llc.data[slot];
            // The line is there until it is written: power may fail in the recovery of its old data.
            self.write_memory(line, &words, diff, now);
            self.llc.array.clear(slot);
            self.nvm.fuse.step();
        } else {
            self.llc.array.clear(slot);
        }
    }

    /// The line of a slot leaves the cores' caches; its bytes if one had changed it.
    fn take_from_cores(&mut self, slot: usize) -> Option<Words> {
        let sharers = self.llc.entries[slot].sharers;
        let mut newest = None;
        for core in ones(sharers) {
            let second = self.second_of(core, slot);
            self.counts.l2.note(true);
            if self.cores[core].l2_held[second] == Held::Modified {
                newest = Some(self.cores[core].l2_data[second]);
            }
            self.forget_private(core, second);
        }
        newest
    }

    /// By what a line that leaves differs from NVM, with diffs: what it did so far, and what a core made of it since.
    fn diff_of(&mut self, slot: usize, newest: Option<&Words>) -> Option<Words> {
        let line = self.llc.array.line(slot);
        if !self.has_diff(slot) {
            return None;
        }
        let mut diff = None;
        if self.llc.entries[slot].is_dirty {
            let diffs = self.controllers.diffs.as_mut();
            diff = diffs.and_then(|diffs| diffs.take(line));
        }
        match newest {
            None => diff,
            Some(_) if mutated(Mutant::NewestCopyNotInDiff) => diff.or(Some([0; 8])),
            Some(words) => {
                let change = difference(&self.llc.data[slot], words);
                Some(diff.map_or(change, |diff| difference(&diff, &change)))
            }
        }
    }
}
