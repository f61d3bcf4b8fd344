//! Slots that are never handed out again: their places on a member are bad.

use std::sync::OnceLock;

use crate::sync::{AtomicU64, Ordering};

/// A bit for each slot.
type Bits = Box<[AtomicU64]>;

/// The retired slots of a pool: mostly none.
#[derive(Default)]
pub(super) struct Retired {
    /// Those that were retired, and those of them that no block and no thread has any more.
    bits: OnceLock<(Bits, Bits)>,
}

impl Retired {
    #[inline(always)]
    pub(super) fn are_any(&self) -> bool {
        self.bits.get().is_some()
    }

    /// Retires one of so many slots.
    pub(super) fn add(&self, slot: u32, slots: u32) {
        let bits = || (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let (retired, _) = self.bits.get_or_init(|| (bits(), bits()));
        retired[slot as usize / 64].fetch_or(1 << (slot % 64), Ordering::AcqRel);
    }

    /// A thread gives a slot back, or found it free: whether it stays out of use, which is noted.
    #[cold]
    pub(super) fn keeps(&self, slot: u32) -> bool {
        self.kept_of(slot / 64, 1 << (slot % 64)) != 0
    }

    /// The same of slots of a word: those that stay out of use.
    #[cold]
    pub(super) fn kept_of(&self, word: u32, bits: u64) -> u64 {
        let Some((retired, gone)) = self.bits.get() else {
            return 0;
        };
        let kept = retired[word as usize].load(Ordering::Acquire) & bits;
        if kept != 0 {
            gone[word as usize].fetch_or(kept, Ordering::AcqRel);
        }
        kept
    }

    /// Whether a slot was retired, and nothing is in it nor will be.
    pub(super) fn is_gone(&self, slot: u32) -> bool {
        self.bits.get().is_some_and(|(_, gone)| {
            gone[slot as usize / 64].load(Ordering::Acquire) >> (slot % 64) & 1 != 0
        })
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        let count = |bits: &Bits| {
            let words = bits.iter().map(|word| word.load(Ordering::Relaxed));
            words.map(|word| u64::from(word.count_ones())).sum()
        };
        self.bits.get().map_or(0, |(retired, _)| count(retired))
    }

    /// Bytes of DRAM.
    pub(super) fn dram_bytes(&self) -> u64 {
        self.bits
            .get()
            .map_or(0, |(retired, gone)| (retired.len() + gone.len()) as u64 * 8)
    }
}
