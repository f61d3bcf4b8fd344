//! A set of numbers (free slots, dirty entries) as a pipeline stage: a bitmap in words of 64 and
//! crossbeam's bounded queue of the words that hold something.
//!
//! AutoBahn (§4) moves single blocks through ticketed queues. Moving words of 64 keeps its order
//! (first announced, first served, within 64) at two bits of queue for each number.
//! A word is in the queue at most once: the thread that turns it from zero announces it, and the one that
//! takes it off the queue empties it.

use crossbeam_queue::ArrayQueue;

use crate::sync::{AtomicU64, Ordering};

/// DRAM of a queue for each word that it has room for: a stamp and the word's number.
const CELL_BYTES: u64 = 16;

/// The set.
pub(crate) struct WordSetQueue {
    words: Box<[AtomicU64]>,
    queue: ArrayQueue<u32>,
}

impl WordSetQueue {
    /// An empty set over `0..numbers`.
    pub(crate) fn new(numbers: u32) -> WordSetQueue {
        let words = (numbers as usize).div_ceil(64).max(1);
        WordSetQueue {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            queue: ArrayQueue::new(words),
        }
    }

    /// Adds a number; false if it was in already.
    #[inline]
    pub(crate) fn insert(&self, number: u32) -> bool {
        let bit = 1u64 << (number % 64);
        self.insert_word(number / 64, bit) & bit == 0
    }

    /// Adds the numbers of a word's set bits; returns the word before.
    #[inline]
    pub(crate) fn insert_word(&self, word: u32, bits: u64) -> u64 {
        // AcqRel: what made the numbers ready happens before they are taken.
        let before = self.words[word as usize].fetch_or(bits, Ordering::AcqRel);
        if before == 0 && bits != 0 {
            let pushed = self.queue.push(word);
            assert!(
                pushed.is_ok(),
                "a word is queued at most once, so there is room"
            );
        }
        before
    }

    /// Takes the oldest word: its number and its set bits.
    #[inline]
    pub(crate) fn take_word(&self) -> Option<(u32, u64)> {
        let word = self.queue.pop()?;
        let bits = self.words[word as usize].swap(0, Ordering::AcqRel);
        debug_assert_ne!(bits, 0, "a queued word holds something");
        Some((word, bits))
    }

    /// Bytes of DRAM.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.words.len() as u64 * (8 + CELL_BYTES)
    }
}

/// The numbers of a taken word.
pub(crate) fn numbers(word: u32, mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        (bits != 0).then(|| {
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            word * 64 + bit
        })
    })
}
