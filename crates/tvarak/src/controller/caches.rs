//! Redundancy in caches (§3.4): a small one on each controller, and the partition of the LLC behind them.
//!
//! The partition holds every line that a controller's cache holds, and which controllers do: MESI between them.
//! A line is dirty where it differs from NVM: in the one controller that has it `Modified`, or else in the partition.

use crate::array::Array;
use crate::banks::Banks;
use crate::controller::duel::Duel;
use crate::counts::LookUps;
use crate::line::{NO_LINE, Words};
use crate::mutants::{Mutant, mutated};
use crate::nvm::Nvm;

/// How a controller's cache has a line. What it lacks, is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Shared,
    Exclusive,
    Modified,
}

/// The cache on one controller.
#[derive(Debug)]
struct Own {
    array: Array,
    states: Vec<State>,
    data: Vec<Words>,
}

/// What the partition knows of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// A bit for each controller that has it.
    sharers: u16,
    /// The one that does has it exclusive or modified.
    is_owned: bool,
    is_dirty: bool,
}

/// The sizes and times of these caches.
#[derive(Clone, Copy, Debug)]
pub struct CacheShape {
    /// The LLC's banks, each with a controller.
    pub banks: Banks,
    /// Ways of the partition.
    pub partition_ways: u32,
    /// Sets of a controller's cache.
    pub own_sets: u32,
    /// Its ways.
    pub own_ways: u32,
    /// A look-up in a controller's cache.
    pub own_cycles: u64,
    /// One in the LLC.
    pub llc_cycles: u64,
}

/// All of them.
#[derive(Debug)]
pub struct Caches {
    shape: CacheShape,
    own: Vec<Own>,
    partition: Array,
    entries: Vec<Entry>,
    data: Vec<Words>,
    /// How sets divide the LLC's ways, in the design that adapts.
    pub duel: Option<Duel>,
    /// Look-ups on the controllers.
    pub own_look_ups: LookUps,
    /// Look-ups of the partition.
    pub partition_look_ups: LookUps,
}

impl Caches {
    /// Empty ones.
    pub fn new(shape: CacheShape) -> Caches {
        let own = |_| {
            let array = Array::new(shape.own_sets as usize, shape.own_ways as usize);
            let slots = array.slots();
            Own {
                array,
                states: vec![State::Shared; slots],
                data: vec![[0; 8]; slots],
            }
        };
        let partition = Array::new(shape.banks.sets(), shape.partition_ways as usize);
        Caches {
            own: (0..shape.banks.count()).map(own).collect(),
            entries: vec![Entry::default(); partition.slots()],
            data: vec![[0; 8]; partition.slots()],
            partition,
            shape,
            duel: None,
            own_look_ups: LookUps::default(),
            partition_look_ups: LookUps::default(),
        }
    }

    /// Has sets divide the LLC's ways by a duel, from so many for redundancy on.
    pub fn adapt(&mut self, duel: Duel) {
        self.partition.limit_each(|_| duel.wanted().redundancy);
        self.duel = Some(duel);
    }

    /// A set has so many ways from now on: what does not fit any more leaves it.
    pub fn divide(&mut self, set: usize, ways: u32, nvm: &mut Nvm, now: u64) {
        while let Some(place) = self.partition.over(set, ways) {
            self.evict(place, nvm, now);
        }
        self.partition.limit(set, ways);
    }

    fn set(&self, line: u32) -> usize {
        self.shape.banks.set(line)
    }

    fn note_asked(&mut self, line: u32, is_change: bool) {
        let set = self.set(line);
        if let Some(duel) = &mut self.duel {
            duel.asked_for_redundancy(set, line, is_change);
        }
    }

    /// NVM is read or written for a line.
    fn note(&mut self, is_write: bool) {
        if let Some(duel) = &mut self.duel {
            duel.accessed_redundancy(is_write);
        }
    }

    fn own_slot(&self, bank: usize, line: u32) -> Option<usize> {
        let set = (line % self.shape.own_sets) as usize;
        self.own[bank].array.find(set, line)
    }

    /// A line of redundancy for a bank's controller, and when it has it; none where its DIMM is dead.
    pub fn read(
        &mut self,
        bank: usize,
        line: u32,
        nvm: &mut Nvm,
        now: u64,
    ) -> (Option<Words>, u64) {
        self.note_asked(line, false);
        let (slot, done) = self.reach(bank, line, false, nvm, now);
        (slot.map(|slot| self.own[bank].data[slot]), done)
    }

    /// The same, changed; nothing where its DIMM is dead.
    pub fn update(
        &mut self,
        bank: usize,
        line: u32,
        nvm: &mut Nvm,
        now: u64,
        change: impl FnOnce(&mut Words),
    ) {
        self.note_asked(line, true);
        let (slot, _) = self.reach(bank, line, true, nvm, now);
        if let Some(slot) = slot {
            let own = &mut self.own[bank];
            change(&mut own.data[slot]);
            own.states[slot] = State::Modified;
        }
    }

    /// Brings a line into a controller's cache, to be changed if `is_write`.
    fn reach(
        &mut self,
        bank: usize,
        line: u32,
        is_write: bool,
        nvm: &mut Nvm,
        now: u64,
    ) -> (Option<usize>, u64) {
        let now = now + self.shape.own_cycles;
        let found = self.own_slot(bank, line);
        self.own_look_ups.note(found.is_some());
        if let Some(slot) = found {
            self.own[bank].array.touch(slot);
            if !is_write || self.own[bank].states[slot] != State::Shared {
                return (found, now);
            }
        }
        let now = now + self.shape.llc_cycles;
        let place = self.partition.find(self.set(line), line);
        self.partition_look_ups.note(place.is_some());
        let (place, now) = match place {
            Some(place) => {
                self.partition.touch(place);
                (place, now)
            }
            None => match self.fetch(line, nvm, now) {
                (Some(place), now) => (place, now),
                (None, now) => return (None, now),
            },
        };
        let was_asked = self.settle_others(bank, place, is_write);
        let slot = self.take_own(bank, line, place);
        (
            Some(slot),
            now + u64::from(was_asked) * self.shape.own_cycles,
        )
    }

    /// Reads a line from NVM into the partition.
    fn fetch(&mut self, line: u32, nvm: &mut Nvm, now: u64) -> (Option<usize>, u64) {
        self.note(false);
        if let Some(duel) = &mut self.duel {
            duel.lacked();
        }
        let (words, done) = nvm.read(line, now);
        let Some(words) = words else {
            return (None, done);
        };
        let place = self.partition.victim(self.set(line));
        self.evict(place, nvm, now);
        self.partition.put(place, line);
        self.entries[place] = Entry::default();
        self.data[place] = words;
        (Some(place), done)
    }

    /// Takes a line from the other controllers: from all for a change, from the one that has it alone for a read. Whether one was asked,
    /// which looks it up.
    fn settle_others(&mut self, bank: usize, place: usize, is_write: bool) -> bool {
        let others = self.entries[place].sharers & !(1 << bank);
        let is_owned = self.entries[place].is_owned;
        let is_asked = others != 0 && (is_owned || is_write);
        for other in (0..self.own.len()).filter(|other| others & 1 << other != 0) {
            if is_asked {
                self.own_look_ups.note(true);
            }
            if is_owned && !mutated(Mutant::OwnerNotAsked) {
                self.collect(other, place);
            }
            if is_write && !mutated(Mutant::SharersNotInvalidated) {
                self.drop_own(other, place);
            }
        }
        if others != 0 {
            self.entries[place].is_owned = false;
        }
        if is_write {
            self.entries[place].is_owned = true;
        }
        is_asked
    }

    /// What a controller changed goes to the partition, and it keeps the line shared.
    fn collect(&mut self, bank: usize, place: usize) {
        let Some(slot) = self.own_slot(bank, self.partition.line(place)) else {
            return;
        };
        let own = &mut self.own[bank];
        if own.states[slot] == State::Modified {
            self.partition_look_ups.note(true);
            self.data[place] = own.data[slot];
            self.entries[place].is_dirty = true;
        }
        own.states[slot] = State::Shared;
    }

    fn drop_own(&mut self, bank: usize, place: usize) {
        if let Some(slot) = self.own_slot(bank, self.partition.line(place)) {
            self.own[bank].array.clear(slot);
        }
        self.entries[place].sharers &= !(1 << bank);
    }

    /// Puts the partition's line into a controller's cache, which had it shared or not at all.
    fn take_own(&mut self, bank: usize, line: u32, place: usize) -> usize {
        let slot = match self.own_slot(bank, line) {
            Some(slot) => slot,
            None => {
                let set = (line % self.shape.own_sets) as usize;
                let slot = self.own[bank].array.victim(set);
                self.give_up_own(bank, slot);
                slot
            }
        };
        let entry = &mut self.entries[place];
        entry.sharers |= 1 << bank;
        entry.is_owned |= entry.sharers == 1 << bank;
        let is_alone = entry.is_owned;
        let own = &mut self.own[bank];
        own.array.put(slot, line);
        own.data[slot] = self.data[place];
        own.states[slot] = if is_alone {
            State::Exclusive
        } else {
            State::Shared
        };
        slot
    }

    /// A controller's cache needs a slot: what it changed goes to the partition.
    fn give_up_own(&mut self, bank: usize, slot: usize) {
        let line = self.own[bank].array.line(slot);
        if line == NO_LINE {
            return;
        }
        let place = self.partition.find(self.set(line), line);
        let place = place.expect("the partition has what a controller has");
        if !mutated(Mutant::OwnCopyDropped) {
            self.collect(bank, place);
        }
        self.drop_own(bank, place);
        self.entries[place].is_owned = false;
    }

    /// The partition needs a place: the line leaves all caches, and goes to NVM if it was changed.
    fn evict(&mut self, place: usize, nvm: &mut Nvm, now: u64) {
        let line = self.partition.line(place);
        if line == NO_LINE {
            return;
        }
        for bank in 0..self.own.len() {
            if self.entries[place].sharers & 1 << bank != 0 {
                self.own_look_ups.note(true);
                self.collect(bank, place);
                self.drop_own(bank, place);
            }
        }
        if self.entries[place].is_dirty && !mutated(Mutant::DirtyRedundancyDropped) {
            self.note(true);
            nvm.write(line, &self.data[place], now);
        }
        self.partition.clear(place);
    }

    /// Every changed line goes to NVM, and the caches are empty.
    pub fn flush(&mut self, nvm: &mut Nvm, now: u64) {
        for place in self.partition.taken() {
            self.evict(place, nvm, now);
        }
    }

    /// A line as the controllers have it, whether or not NVM has it yet; none where no cache has it.
    pub fn peek(&self, line: u32) -> Option<Words> {
        let place = self.partition.find(self.set(line), line)?;
        let entry = self.entries[place];
        let mut owners = (0..self.own.len()).filter(|bank| entry.sharers & 1 << bank != 0);
        let owner = owners.next().filter(|_| entry.is_owned);
        let slot = owner.and_then(|bank| Some((bank, self.own_slot(bank, line)?)));
        Some(slot.map_or(self.data[place], |(bank, slot)| self.own[bank].data[slot]))
    }

    /// Forgets a line, in all caches, changed or not.
    pub fn forget(&mut self, line: u32) {
        if let Some(place) = self.partition.find(self.set(line), line) {
            for bank in 0..self.own.len() {
                self.drop_own(bank, place);
            }
            self.partition.clear(place);
        }
    }
}
