//! Which slot holds which block, in DRAM, with each set's order of use.

use std::collections::HashMap;

use forebay::unstable::replace::Links;

use super::super::layout::{Entry, Geometry, State};

struct Set {
    first_slot: u32,
    /// Slots that hold nothing, numbered from the set's first, the next one to use last.
    free: Vec<u32>,
    /// Those that hold something, by use, numbered likewise.
    used: Links,
    /// The dirty ones of these, by use.
    dirty: Links,
}

/// The table. Its entries are what the metadata blocks have, or will have when next written.
pub(super) struct Table {
    entries: Vec<Entry>,
    set_of_slot: Vec<u32>,
    slots: HashMap<u64, u32>,
    sets: Vec<Set>,
    dirty: u64,
}

impl Table {
    pub(super) fn new(geometry: &Geometry) -> Table {
        let mut set_of_slot = Vec::with_capacity(geometry.slots as usize);
        let sets = 0..geometry.sets() as usize;
        let sets = sets.map(|set| {
            let slots = geometry.slots_of(set);
            set_of_slot.extend((0..slots).map(|_| set as u32));
            Set {
                first_slot: geometry.first_slot(set),
                free: (0..slots).rev().collect(),
                used: Links::new(slots as usize),
                dirty: Links::new(slots as usize),
            }
        });
        let sets = sets.collect();
        Table {
            entries: vec![Entry::default(); geometry.slots as usize],
            set_of_slot,
            slots: HashMap::new(),
            sets,
            dirty: 0,
        }
    }

    pub(super) fn cached(&self) -> u64 {
        self.slots.len() as u64
    }

    pub(super) fn dirty(&self) -> u64 {
        self.dirty
    }

    pub(super) fn find(&self, number: u64) -> Option<u32> {
        self.slots.get(&number).copied()
    }

    pub(super) fn entry(&self, slot: u32) -> Entry {
        self.entries[slot as usize]
    }

    /// All slots that are dirty.
    pub(super) fn dirty_slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.sets.iter().flat_map(|set| {
            let slots = set.dirty.oldest_first();
            slots.map(|slot| set.first_slot + slot)
        })
    }

    pub(super) fn free_slot(&self, set: usize) -> Option<u32> {
        let set = &self.sets[set];
        set.free.last().map(|slot| set.first_slot + slot)
    }

    /// The set's least recently used clean slot.
    pub(super) fn oldest_clean(&self, set: usize) -> Option<u32> {
        let set = &self.sets[set];
        let mut slots = set.used.oldest_first().map(|slot| set.first_slot + slot);
        slots.find(|&slot| self.entry(slot).state == State::Clean)
    }

    /// The set's dirty slots from the least recently used one on.
    pub(super) fn oldest_dirty(&self, set: usize) -> impl Iterator<Item = u32> + '_ {
        let set = &self.sets[set];
        let slots = set.dirty.oldest_first();
        slots.map(|slot| set.first_slot + slot)
    }

    pub(super) fn dirty_in(&self, set: usize) -> usize {
        self.sets[set].dirty.len()
    }

    /// Makes a slot the most recently used one of its set.
    pub(super) fn touch(&mut self, slot: u32) {
        let state = self.entry(slot).state;
        let (set, within) = self.place(slot);
        set.used.touch(within);
        if state == State::Dirty {
            set.dirty.touch(within);
        }
    }

    /// Gives a slot another entry. A slot is emptied before it takes another block, and one that
    /// was dirty is clean before it is emptied.
    pub(super) fn set(&mut self, slot: u32, entry: Entry) {
        let old = std::mem::replace(&mut self.entries[slot as usize], entry);
        self.dirty += u64::from(entry.state == State::Dirty);
        self.dirty -= u64::from(old.state == State::Dirty);
        if old.state != State::Invalid && entry.state != State::Invalid {
            assert!(old.number == entry.number, "a slot is emptied before reuse");
        }
        let (set, within) = self.place(slot);
        match (old.state, entry.state) {
            (State::Invalid, State::Invalid) => {}
            (State::Invalid, _) => {
                match set.free.last() {
                    Some(&last) if last == within => drop(set.free.pop()),
                    _ => set.free.retain(|&free| free != within),
                }
                set.used.touch(within);
            }
            (State::Dirty, State::Invalid) => panic!("a dirty slot is emptied"),
            (State::Clean, State::Invalid) => {
                set.used.remove(within);
                set.free.push(within);
            }
            (State::Clean | State::Dirty, State::Clean | State::Dirty) => {}
        }
        match entry.state {
            State::Dirty if old.state != State::Dirty => set.dirty.touch(within),
            State::Dirty => {}
            State::Invalid | State::Clean => set.dirty.remove(within),
        }
        match entry.state {
            State::Invalid if old.state != State::Invalid => {
                self.slots.remove(&old.number);
            }
            State::Invalid => {}
            State::Clean | State::Dirty => {
                let before = self.slots.insert(entry.number, slot);
                assert!(
                    before.is_none_or(|before| before == slot),
                    "one slot a block"
                );
            }
        }
    }

    fn place(&mut self, slot: u32) -> (&mut Set, u32) {
        let set = &mut self.sets[self.set_of_slot[slot as usize] as usize];
        let within = slot - set.first_slot;
        (set, within)
    }
}
