//! Free slots: magazines of a few for each committing thread, a shared set behind them.
//!
//! I2: a slot comes in here only when the record that removed its last mapping is fenced. Between
//! that and any thread's non-temporal stores into it stands the locked operation by which a magazine
//! or a word of the set changes hands.
//!
//! A slot that is retired while it is in use is not free when it is given back; one that is free is taken out of
//! all this.
//!
//! Of a pool with rows what is behind the magazines are its groups (`groups`), and magazines hold slots of pairs.
//!
//! A transaction holds a magazine while it streams: locked operations between non-temporal stores
//! would make each of them wait for the memory.

use std::num::NonZeroU32;

use super::groups::Groups;
use super::retired::Retired;
use super::word_set_queue::{WordSetQueue, numbers};
use crate::media::geometry::Geometry;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// Magazines: as many as threads can usefully commit at once.
const MAGAZINES_MAX: u32 = 16;
/// Slots a magazine holds at most: a word of the set and as many again.
const MAGAZINE_SLOTS_MAX: u32 = 128;
/// Slots that it is given at once of a pool with rows.
const REFILL_MAX: u32 = 63;

/// A small cache of free slots, used by one thread at a time.
#[repr(align(128))]
struct Magazine {
    busy: AtomicBool,
    len: AtomicU32,
    slots: Box<[AtomicU32]>,
}

/// All free slots of a pool.
pub(crate) struct Slots {
    shared: WordSetQueue,
    shared_count: AtomicU64,
    magazines: Box<[Magazine]>,
    /// How many, for a short division without a check.
    magazine_count: NonZeroU32,
    retired: Retired,
    /// A magazine was refilled since a thread last asked.
    was_refilled: AtomicBool,
    /// Of a pool with rows, in place of the shared set.
    groups: Option<Box<Groups>>,
    /// All of them.
    slots: u32,
    /// Those that are no columns of rows.
    pairs: u32,
}

/// A thread's way to the free slots, with a magazine of its own if one was to be had.
pub(crate) struct SlotCache<'a> {
    slots: &'a Slots,
    magazine: Option<&'a Magazine>,
}

impl Slots {
    /// The slots that `used` does not name are free.
    pub(crate) fn new(slots: u32, lanes: u32, used: impl Fn(u32) -> bool) -> Slots {
        let all = Slots {
            shared: WordSetQueue::new(slots),
            ..Slots::empty(slots, slots, lanes)
        };
        for word in 0..slots.div_ceil(64) {
            let in_word = word * 64..(word * 64 + 64).min(slots);
            let bits = in_word
                .filter(|slot| !used(*slot))
                .fold(0, |bits, slot| bits | 1 << (slot % 64));
            all.give_word(word, bits);
        }
        all
    }

    /// The same of a pool with rows: what no entry leads to is free, but for what is in a row with something that is.
    pub(crate) fn with_rows(geometry: &Geometry, used: impl Fn(u32) -> bool) -> Slots {
        Slots {
            groups: Some(Box::new(Groups::new(geometry, used))),
            ..Slots::empty(geometry.slots(), geometry.pairs(), geometry.lanes)
        }
    }

    /// None are free yet.
    fn empty(slots: u32, pairs: u32, lanes: u32) -> Slots {
        let magazines = lanes.clamp(1, MAGAZINES_MAX);
        let magazine_count = NonZeroU32::new(magazines).expect("at least one");
        let magazine_slots = (pairs / magazines / 8).clamp(1, MAGAZINE_SLOTS_MAX);
        Slots {
            shared: WordSetQueue::new(0),
            shared_count: AtomicU64::new(0),
            magazines: (0..magazines)
                .map(|_| Magazine::new(magazine_slots))
                .collect(),
            magazine_count,
            retired: Retired::default(),
            was_refilled: AtomicBool::new(false),
            groups: None,
            slots,
            pairs,
        }
    }

    /// Whether a magazine was refilled since this was last asked: once in some tens of slots that were taken, a committer is
    /// to look how many are left.
    #[inline(always)]
    pub(crate) fn were_refilled(&self) -> bool {
        self.was_refilled.load(Ordering::Relaxed) && self.forget_refill()
    }

    #[cold]
    fn forget_refill(&self) -> bool {
        self.was_refilled.swap(false, Ordering::Relaxed)
    }

    /// A slot cache for a thread, preferring the magazine that `hint` names. Never waits.
    #[inline]
    pub(crate) fn slot_cache(&self, hint: usize) -> SlotCache<'_> {
        let preferred = &self.magazines[(hint as u32 % self.magazine_count) as usize];
        let magazine = match preferred.try_hold() {
            true => Some(preferred),
            false => self.hold_another(hint),
        };
        SlotCache {
            slots: self,
            magazine,
        }
    }

    #[cold]
    fn hold_another(&self, hint: usize) -> Option<&Magazine> {
        let count = self.magazines.len();
        let mut others = (1..count).map(|turn| &self.magazines[(hint + turn) % count]);
        others.find(|magazine| magazine.try_hold())
    }

    #[cold]
    fn give_word(&self, word: u32, bits: u64) {
        // Counted before it can be taken, so that the count never runs below zero.
        self.shared_count
            .fetch_add(u64::from(bits.count_ones()), Ordering::Relaxed);
        let before = self.shared.insert_word(word, bits);
        assert_eq!(before & bits, 0, "a slot is freed once (word {word})");
    }

    #[cold]
    fn give_one(&self, slot: u32) {
        match &self.groups {
            Some(groups) => groups.give_pair(slot),
            None => self.give_word(slot / 64, 1 << (slot % 64)),
        }
    }

    /// Takes a word of the set; what does not fit the magazine goes back.
    #[cold]
    fn refill(&self, magazine: Option<&Magazine>) -> Option<u32> {
        let taken = match &self.groups {
            Some(groups) => refill_from(groups, magazine),
            None => self.refill_by_words(magazine),
        };
        // After the count sank: the committer that is told of it looks at that.
        self.was_refilled.store(true, Ordering::Relaxed);
        taken
    }

    fn refill_by_words(&self, magazine: Option<&Magazine>) -> Option<u32> {
        loop {
            let found = self.refill_by_word(magazine)?;
            if found.is_some() {
                return found;
            }
        }
    }

    /// The same with one word, of which nothing may be left; `None` if there is no word.
    fn refill_by_word(&self, magazine: Option<&Magazine>) -> Option<Option<u32>> {
        let (word, bits) = self.shared.take_word()?;
        self.shared_count
            .fetch_sub(u64::from(bits.count_ones()), Ordering::Relaxed);
        let bits = bits & !self.retired.kept_of(word, bits);
        let mut rest = bits;
        let mut taken = None;
        for slot in numbers(word, bits) {
            if taken.is_none() {
                taken = Some(slot);
            } else if !magazine.is_some_and(|magazine| magazine.push(slot)) {
                break;
            }
            rest &= rest - 1;
        }
        if rest != 0 {
            self.give_word(word, rest);
        }
        Some(taken)
    }

    /// Retires a slot, whether it is free or not: no thread takes it any more.
    #[cold]
    pub(crate) fn retire(&self, slot: u32) {
        self.retired.add(slot, self.slots);
    }

    /// Takes the retired ones out of those that are free, but for what threads hold at this moment.
    #[cold]
    pub(crate) fn drop_retired(&self) {
        for _ in 0..self.slots.div_ceil(64) {
            let Some((word, bits)) = self.shared.take_word() else {
                break;
            };
            self.shared_count
                .fetch_sub(u64::from(bits.count_ones()), Ordering::Relaxed);
            self.give_word(word, bits & !self.retired.kept_of(word, bits));
        }
        for magazine in self.magazines.iter().filter(|one| one.try_hold()) {
            let held: Vec<u32> = std::iter::from_fn(|| magazine.pop()).collect();
            // As they were: the last one out is the first one in.
            for slot in held
                .into_iter()
                .rev()
                .filter(|slot| !self.retired.keeps(*slot))
            {
                assert!(magazine.push(slot), "it had the room");
            }
            magazine.release();
        }
    }

    /// Whether a slot was retired, and no block and no thread has it.
    pub(crate) fn is_gone(&self, slot: u32) -> bool {
        self.retired.is_gone(slot)
    }
    /// How many were retired.
    pub(crate) fn retired_count(&self) -> u64 {
        self.retired.count()
    }

    /// The last resort: magazines that no thread holds.
    fn steal(&self) -> Option<u32> {
        self.magazines.iter().find_map(|magazine| {
            if magazine.len.load(Ordering::Relaxed) == 0 || !magazine.try_hold() {
                return None;
            }
            let slot =
                std::iter::from_fn(|| magazine.pop()).find(|slot| !self.retired.keeps(*slot));
            magazine.release();
            slot
        })
    }

    /// Free slots that any thread could take now: not those in magazines that a thread holds.
    pub(crate) fn free_count(&self) -> u64 {
        let in_reach = |magazine: &&Magazine| !magazine.busy.load(Ordering::Relaxed);
        let stocked: u64 = self
            .magazines
            .iter()
            .filter(in_reach)
            .map(|m| u64::from(m.len.load(Ordering::Relaxed)))
            .sum();
        let in_groups = self.groups.as_ref().map_or(0, |groups| groups.free_pairs());
        self.shared_count.load(Ordering::Relaxed) + in_groups + stocked
    }

    /// Whether a column is the first of its row that an entry or a thread has.
    pub(crate) fn is_first_of_row(&self, slot: u32, row: u32) -> bool {
        let groups = self.groups.as_ref();
        groups.is_some_and(|groups| groups.first_held_of(row) == Some(slot))
    }

    /// Bytes of DRAM.
    pub(crate) fn dram_bytes(&self) -> u64 {
        let magazines = self.magazines.iter();
        let stocked: usize = magazines
            .map(|m| size_of::<Magazine>() + 4 * m.slots.len())
            .sum();
        let groups = self.groups.as_ref().map_or(0, |groups| groups.dram_bytes());
        self.shared.dram_bytes() + stocked as u64 + self.retired.dram_bytes() + groups
    }
}

/// Takes slots of pairs from groups; what is more than one goes into the magazine.
fn refill_from(groups: &Groups, magazine: Option<&Magazine>) -> Option<u32> {
    let room = magazine.map_or(0, Magazine::room);
    let mut taken = None;
    groups.take_pairs(1 + room.min(REFILL_MAX), |slot| match taken {
        None => taken = Some(slot),
        Some(_) => {
            let pushed = magazine.is_some_and(|magazine| magazine.push(slot));
            assert!(pushed, "it has the room");
        }
    });
    taken
}

impl SlotCache<'_> {
    /// Takes a free row of a pool with rows. Never waits for space.
    pub(crate) fn take_row(&self) -> Option<u32> {
        let row = self.slots.groups.as_ref()?.take_row();
        self.slots.was_refilled.store(true, Ordering::Relaxed);
        row
    }

    /// Takes a slot, of a pool with rows one of a pair. Never waits for space.
    #[inline(always)]
    pub(crate) fn take(&self) -> Option<u32> {
        match self.magazine.and_then(Magazine::pop) {
            Some(slot) if !self.slots.retired.are_any() => Some(slot),
            popped => self.take_sound(popped),
        }
    }

    #[cold]
    fn take_sound(&self, popped: Option<u32>) -> Option<u32> {
        let more = std::iter::from_fn(|| self.magazine.and_then(Magazine::pop));
        let mut stocked = popped.into_iter().chain(more);
        let sound = stocked.find(|slot| !self.slots.retired.keeps(*slot));
        sound.or_else(|| self.take_elsewhere())
    }

    #[cold]
    fn take_elsewhere(&self) -> Option<u32> {
        let refilled = self.slots.refill(self.magazine);
        refilled.or_else(|| self.slots.steal())
    }

    /// Takes `wanted` slots or none.
    pub(crate) fn take_many(&self, wanted: usize, out: &mut Vec<u32>) -> bool {
        let start = out.len();
        while out.len() - start < wanted {
            let Some(slot) = self.take() else {
                for slot in out.drain(start..) {
                    self.give(slot);
                }
                return false;
            };
            out.push(slot);
        }
        true
    }

    /// Gives a slot back into which this thread has streamed since its last fence.
    pub(crate) fn give_streamed(&self, slot: u32) {
        // A release store may overtake non-temporal stores (Intel SDM volume 3A, section 9.2.2); this
        // keeps them from landing on what the slot's next owner streams.
        fence(Ordering::SeqCst);
        self.give(slot);
    }

    /// Gives a slot back.
    #[inline(always)]
    pub(crate) fn give(&self, slot: u32) {
        debug_assert!(slot < self.slots.slots);
        if self.slots.retired.are_any() && self.slots.retired.keeps(slot) {
            return;
        }
        if slot >= self.slots.pairs {
            return self.give_column(slot);
        }
        if !self.magazine.is_some_and(|magazine| magazine.push(slot)) {
            self.slots.give_one(slot);
        }
    }

    #[cold]
    fn give_column(&self, slot: u32) {
        let groups = self.slots.groups.as_ref();
        groups.expect("there are rows").give_column(slot);
    }
}

impl Drop for SlotCache<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(magazine) = self.magazine {
            magazine.release();
        }
    }
}

impl Magazine {
    fn new(slots: u32) -> Magazine {
        Magazine {
            busy: AtomicBool::new(false),
            len: AtomicU32::new(0),
            slots: (0..slots).map(|_| AtomicU32::new(0)).collect(),
        }
    }
    #[inline]
    fn try_hold(&self) -> bool {
        !self.busy.load(Ordering::Relaxed) && !self.busy.swap(true, Ordering::Acquire)
    }
    #[inline]
    fn release(&self) {
        self.busy.store(false, Ordering::Release);
    }
    /// Slots that fit beside those that it has.
    fn room(&self) -> u32 {
        self.slots.len() as u32 - self.len.load(Ordering::Relaxed)
    }
    #[inline]
    fn pop(&self) -> Option<u32> {
        let len = self.len.load(Ordering::Relaxed).checked_sub(1)?;
        self.len.store(len, Ordering::Relaxed);
        Some(self.slots[len as usize].load(Ordering::Relaxed))
    }
    #[inline]
    fn push(&self, slot: u32) -> bool {
        let len = self.len.load(Ordering::Relaxed);
        let Some(place) = self.slots.get(len as usize) else {
            return false;
        };
        place.store(slot, Ordering::Relaxed);
        self.len.store(len + 1, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_once_and_back() {
        let slots = Slots::new(1000, 4, |slot| slot % 10 == 0);
        assert_eq!(slots.free_count(), 900);
        let slot_cache = slots.slot_cache(1);
        let mut taken: Vec<u32> = std::iter::from_fn(|| slot_cache.take()).collect();
        taken.sort_unstable();
        let expected: Vec<u32> = (0..1000).filter(|slot| slot % 10 != 0).collect();
        assert_eq!(taken, expected);
        for slot in taken {
            slot_cache.give(slot);
        }
        drop(slot_cache);
        assert_eq!(slots.free_count(), 900);
        let mut out = Vec::new();
        assert!(!slots.slot_cache(0).take_many(901, &mut out));
        assert!(out.is_empty());
        assert!(slots.slot_cache(0).take_many(900, &mut out));
    }

    #[test]
    fn a_retired_slot_is_not_handed_out_wherever_it_is() {
        let slots = Slots::new(200, 2, |slot| slot == 199);
        let slot_cache = slots.slot_cache(0);
        let first = slot_cache.take().expect("a slot");
        // One in use, one that a thread has, one in its magazine, and one in the set.
        let retired = [199, first, first + 1, 150];
        retired.iter().for_each(|slot| slots.retire(*slot));
        assert_eq!(slots.retired_count(), 4);
        assert!(retired.iter().all(|slot| !slots.is_gone(*slot)));
        slots.drop_retired();
        let are_gone = || retired.map(|slot| slots.is_gone(slot));
        assert_eq!(are_gone(), [false, false, false, true]);
        slot_cache.give(first);
        slot_cache.give(199);
        drop(slot_cache);
        slots.drop_retired();
        assert_eq!(are_gone(), [true; 4]);
        assert_eq!(slots.free_count(), 196);
        let slot_cache = slots.slot_cache(1);
        let taken: Vec<u32> = std::iter::from_fn(|| slot_cache.take()).collect();
        assert_eq!(taken.len(), 196);
        assert!(retired.iter().all(|slot| !taken.contains(slot)));
    }

    #[test]
    fn a_held_magazine_keeps_its_slots_from_other_threads_and_none_waits() {
        let slots = Slots::new(64, 1, |_| false);
        let holder = slots.slot_cache(0);
        let first = holder.take().expect("a slot");
        let other = slots.slot_cache(0);
        let rest: Vec<u32> = std::iter::from_fn(|| other.take()).collect();
        assert!(!rest.contains(&first) && rest.len() < 63);
        assert_eq!(slots.free_count(), 0);
        drop(holder);
        assert!(slots.free_count() > 0);
        assert!(other.take().is_some());
    }
}
