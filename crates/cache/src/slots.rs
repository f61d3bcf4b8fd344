//! Free slots: magazines of a few for each committing thread, a shared set behind them.
//!
//! I2: a slot comes in here only when the record that removed its last mapping is fenced. Between
//! that and anyone's non-temporal stores into it stands the locked operation of the magazine's
//! lock or of the set.

use crate::groups::{Groups, numbers};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, spin_hint};

/// Magazines: as many as threads can usefully commit at once.
const MAGAZINES_MAX: u32 = 16;
/// Slots a magazine holds at most: a word of the set and as many again.
const MAGAZINE_SLOTS_MAX: u32 = 128;

/// A thread's small stock of free slots.
#[repr(align(64))]
struct Magazine {
    busy: AtomicBool,
    len: AtomicU32,
    slots: Box<[AtomicU32]>,
}

/// All free slots of a pool.
pub(crate) struct Slots {
    shared: Groups,
    shared_count: AtomicU64,
    magazines: Box<[Magazine]>,
    magazine_slots: u32,
    slots: u32,
}

impl Slots {
    /// The slots that `used` does not name are free.
    pub(crate) fn new(slots: u32, lanes: u32, used: impl Fn(u32) -> bool) -> Slots {
        let magazines = lanes.clamp(1, MAGAZINES_MAX);
        let magazine_slots = (slots / magazines / 8).clamp(1, MAGAZINE_SLOTS_MAX);
        let all = Slots {
            shared: Groups::new(slots),
            shared_count: AtomicU64::new(0),
            magazines: (0..magazines)
                .map(|_| Magazine::new(magazine_slots))
                .collect(),
            magazine_slots,
            slots,
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

    fn give_word(&self, word: u32, bits: u64) {
        // Counted before it can be taken, so that the count never runs below zero.
        self.shared_count
            .fetch_add(u64::from(bits.count_ones()), Ordering::Relaxed);
        let before = self.shared.insert_word(word, bits);
        assert_eq!(before & bits, 0, "a slot is freed once (word {word})");
    }

    /// Takes a slot, preferring the magazine that `hint` names. Never waits for space.
    #[inline]
    pub(crate) fn take(&self, hint: usize) -> Option<u32> {
        let magazine = self.lock_any(hint);
        let slot = magazine.pop().or_else(|| self.refill(magazine));
        magazine.unlock();
        slot.or_else(|| self.steal())
    }

    /// Takes `wanted` slots or none.
    pub(crate) fn take_many(&self, hint: usize, wanted: usize, out: &mut Vec<u32>) -> bool {
        let start = out.len();
        while out.len() - start < wanted {
            let Some(slot) = self.take(hint) else {
                for slot in out.drain(start..) {
                    self.give(hint, slot);
                }
                return false;
            };
            out.push(slot);
        }
        true
    }

    /// Gives a slot back.
    #[inline]
    pub(crate) fn give(&self, hint: usize, slot: u32) {
        debug_assert!(slot < self.slots);
        let magazine = self.lock_any(hint);
        let kept = magazine.push(slot, self.magazine_slots);
        magazine.unlock();
        if !kept {
            self.give_word(slot / 64, 1 << (slot % 64));
        }
    }

    /// Gives a slot to whoever needs it next, past the magazines (reclaim does).
    pub(crate) fn give_shared(&self, slot: u32) {
        self.give_word(slot / 64, 1 << (slot % 64));
    }

    fn refill(&self, magazine: &Magazine) -> Option<u32> {
        let (word, bits) = self.shared.take_word()?;
        self.shared_count
            .fetch_sub(u64::from(bits.count_ones()), Ordering::Relaxed);
        let mut rest = bits;
        let mut taken = None;
        for slot in numbers(word, bits) {
            if taken.is_none() {
                taken = Some(slot);
            } else if !magazine.push(slot, self.magazine_slots) {
                break;
            }
            rest &= rest - 1;
        }
        if rest != 0 {
            self.give_word(word, rest);
        }
        taken
    }

    /// The last resort: other threads' magazines.
    fn steal(&self) -> Option<u32> {
        self.magazines.iter().find_map(|magazine| {
            if magazine.len.load(Ordering::Relaxed) == 0 {
                return None;
            }
            magazine.lock();
            let slot = magazine.pop();
            magazine.unlock();
            slot
        })
    }

    #[inline]
    fn lock_any(&self, hint: usize) -> &Magazine {
        let count = self.magazines.len();
        for turn in 0..count {
            let magazine = &self.magazines[(hint + turn) % count];
            if magazine.try_lock() {
                return magazine;
            }
        }
        let magazine = &self.magazines[hint % count];
        magazine.lock();
        magazine
    }

    /// Free slots, as far as that can be said while others take and give.
    pub(crate) fn free_count(&self) -> u64 {
        let stocked: u64 = self
            .magazines
            .iter()
            .map(|m| u64::from(m.len.load(Ordering::Relaxed)))
            .sum();
        self.shared_count.load(Ordering::Relaxed) + stocked
    }

    /// Bytes of DRAM.
    pub(crate) fn dram_bytes(&self) -> u64 {
        let magazines = self.magazines.len() as u64;
        self.shared.dram_bytes() + magazines * (64 + 4 * u64::from(self.magazine_slots))
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
    fn try_lock(&self) -> bool {
        !self.busy.load(Ordering::Relaxed) && !self.busy.swap(true, Ordering::Acquire)
    }
    fn lock(&self) {
        while !self.try_lock() {
            spin_hint();
        }
    }
    #[inline]
    fn unlock(&self) {
        self.busy.store(false, Ordering::Release);
    }
    #[inline]
    fn pop(&self) -> Option<u32> {
        let len = self.len.load(Ordering::Relaxed).checked_sub(1)?;
        self.len.store(len, Ordering::Relaxed);
        Some(self.slots[len as usize].load(Ordering::Relaxed))
    }
    #[inline]
    fn push(&self, slot: u32, limit: u32) -> bool {
        let len = self.len.load(Ordering::Relaxed);
        if len >= limit {
            return false;
        }
        self.slots[len as usize].store(slot, Ordering::Relaxed);
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
        let mut taken: Vec<u32> = std::iter::from_fn(|| slots.take(1)).collect();
        taken.sort_unstable();
        assert_eq!(
            taken,
            (0..1000).filter(|slot| slot % 10 != 0).collect::<Vec<_>>()
        );
        for slot in taken {
            slots.give(slot as usize, slot);
        }
        assert_eq!(slots.free_count(), 900);
        let mut out = Vec::new();
        assert!(!slots.take_many(0, 901, &mut out));
        assert!(out.is_empty());
        assert!(slots.take_many(0, 900, &mut out));
    }
}
