//! Holders of a slot: mappings that share it, and packed blocks that are based on it.
//!
//! I10: a slot with more than one holder is never changed; it is free when the last holder has
//! released it, whose record, like those of all before it, is fenced then. A count here is only ever
//! raised by a thread that knows of a holder that cannot release the slot meanwhile.

use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// A count that is never raised to this, nor counted down from it.
const STUCK: u8 = u8::MAX;

/// The holders of each slot beyond the first.
pub(crate) struct References {
    extra: Box<[AtomicU8]>,
    /// Slots whose bytes were changed in place in this incarnation. Such a slot is not shared: what its next
    /// holder's record is checked against might so far be in the log only.
    patched: Box<[AtomicU64]>,
    /// Whether any was: until then, no slot's bit need be read.
    are_any_patched: AtomicBool,
    /// All extra holders: while there are none, no slot's count need be read.
    total: OwnLine,
}

/// Alone in its lines: every writer reads what lies beside it.
#[repr(align(128))]
struct OwnLine(AtomicU64);

impl References {
    pub(crate) fn new(slots: u32) -> References {
        References {
            extra: (0..slots).map(|_| AtomicU8::new(0)).collect(),
            patched: (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            are_any_patched: AtomicBool::new(false),
            total: OwnLine(AtomicU64::new(0)),
        }
    }

    /// One more holder. The caller knows of one that stays meanwhile. False if there are too many.
    pub(crate) fn hold(&self, slot: u32) -> bool {
        // First: a holder that releases the slot after this must not take it for one that is not shared.
        self.total.0.fetch_add(1, Ordering::AcqRel);
        let more = |extra: u8| extra.checked_add(1).filter(|extra| *extra < STUCK);
        let held = self.extra[slot as usize]
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .is_ok();
        if !held {
            self.total.0.fetch_sub(1, Ordering::AcqRel);
        }
        held
    }

    /// One more holder that recovery found. Beyond the limit, which only damage can do, the slot is
    /// not free before the next opening.
    pub(crate) fn hold_found(&self, slot: u32) {
        if !self.hold(slot) {
            self.extra[slot as usize].store(STUCK, Ordering::Relaxed);
        }
    }

    /// One holder less; whether that was the last one, so that the slot is free. AcqRel: whatever
    /// the others did with the slot is over.
    #[inline(always)]
    pub(crate) fn release(&self, slot: u32) -> bool {
        !self.are_any_shared() || self.release_counted(slot)
    }

    fn release_counted(&self, slot: u32) -> bool {
        let less = |extra: u8| {
            extra
                .checked_sub(u8::from(extra != STUCK))
                .filter(|_| extra != 0)
        };
        let before = self.extra[slot as usize]
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
            .unwrap_or(0);
        if before != 0 && before != STUCK {
            self.total.0.fetch_sub(1, Ordering::AcqRel);
        }
        before == 0
    }

    /// Whether the slot has one holder. Exact under the lock of a key that is mapped to it, since
    /// no other key leads to the slot then.
    pub(crate) fn is_sole(&self, slot: u32) -> bool {
        self.extra[slot as usize].load(Ordering::Acquire) == 0
    }

    /// Notes that bytes of the slot were changed in place. The caller holds its key's lock. A slot that is
    /// patched again is only looked at: its word is also that of slots that other threads patch.
    #[inline]
    pub(crate) fn mark_patched(&self, slot: u32) {
        if !self.is_patched(slot) {
            // Relaxed: a thread that frees the slot has locked its key since.
            if !self.are_any_patched.load(Ordering::Relaxed) {
                self.are_any_patched.store(true, Ordering::Relaxed);
            }
            self.patched[slot as usize / 64].fetch_or(1 << (slot % 64), Ordering::Relaxed);
        }
    }

    /// Whether bytes of the slot were changed in place since it was last free. Under the lock of a key
    /// that is mapped to it, or held.
    #[inline]
    pub(crate) fn is_patched(&self, slot: u32) -> bool {
        self.patched[slot as usize / 64].load(Ordering::Relaxed) >> (slot % 64) & 1 != 0
    }

    /// Forgets that, when the slot becomes free.
    #[inline(always)]
    pub(crate) fn clear_patched(&self, slot: u32) {
        if !self.are_any_patched.load(Ordering::Relaxed) {
            return;
        }
        let (word, bit) = (&self.patched[slot as usize / 64], 1 << (slot % 64));
        if word.load(Ordering::Relaxed) & bit != 0 {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Whether any slot has more than one holder. Acquire, as `release`.
    #[inline(always)]
    pub(crate) fn are_any_shared(&self) -> bool {
        self.total.0.load(Ordering::Acquire) != 0
    }

    /// Holders beyond the first, of all slots.
    pub(crate) fn shared(&self) -> u64 {
        self.total.0.load(Ordering::Relaxed)
    }

    /// Bytes of DRAM.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.extra.len() as u64 + self.patched.len() as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_when_the_last_holder_lets_go() {
        let references = References::new(100);
        assert!(references.is_sole(7) && references.hold(7) && references.hold(7));
        assert_eq!((references.is_sole(7), references.shared()), (false, 2));
        assert!(!references.release(7) && !references.release(7));
        assert!(references.is_sole(7) && references.release(7));
    }

    #[test]
    fn a_full_count_refuses_another_holder() {
        let references = References::new(1);
        let held = (0..1000).filter(|_| references.hold(0)).count();
        assert_eq!(held, usize::from(STUCK) - 1);
        references.hold_found(0);
        assert!((0..1000).all(|_| !references.release(0)));
    }

    #[test]
    fn a_patch_is_remembered_until_the_slot_is_free() {
        let references = References::new(100);
        references.mark_patched(99);
        assert!(references.is_patched(99) && !references.is_patched(98));
        references.clear_patched(99);
        assert!(!references.is_patched(99));
    }
}
