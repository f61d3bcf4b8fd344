//! Faults into a model, and what caches hide of them.

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::fault::{Fault, InjectedFault};
use super::pending::Pending;
use super::{PAGE_BYTES, Shadow, WORD_BYTES, lock, to_index};

/// What other threads see stored at once.
const PAIR_BYTES: usize = 2 * WORD_BYTES;

impl Shadow {
    /// Has the medium do something wrong. What it has done before it has done.
    ///
    /// # Panics
    /// The region has no such bytes, or a range that is moved is not of whole units.
    pub fn inject(&self, fault: Fault) {
        fault.check(self.len(), self.model);
        let mut state = self.lock();
        let is_flip = matches!(fault, Fault::BitFlip { .. });
        state.pending.medium.faults.push(InjectedFault {
            fault,
            has_struck: is_flip,
            is_over: is_flip,
        });
        match fault {
            Fault::BitFlip { offset, bit } => {
                let at = to_index(offset);
                state.pending.medium.bytes[at] ^= 1 << bit;
                if self.is_clean(&state.pending, at) {
                    let word = self.load_word(at / WORD_BYTES).to_ne_bytes();
                    self.write_view(at, &[word[at % WORD_BYTES] ^ 1 << bit]);
                }
            }
            Fault::MisdirectedRead { offset, len, .. } => {
                let range = self.range(offset, to_index(len));
                self.load_again(&mut state.pending, &range);
            }
            Fault::LostWrite { .. } | Fault::MisdirectedWrite { .. } | Fault::TornWrite { .. } => {}
        }
    }

    /// Has caches forget what they hold of these bytes, so that loads see what the medium has: of each unit
    /// that the range touches, all of it, but for units with pending stores and for lost pages.
    ///
    /// # Panics
    /// The region has no such bytes.
    pub fn evict(&self, offset: u64, len: u64) {
        let range = self.range(offset, to_index(len));
        let mut state = self.lock();
        state.pending.medium.begin_eviction(&range);
        self.load_again(&mut state.pending, &range);
    }

    /// What was injected, in that order.
    pub fn injected(&self) -> Vec<InjectedFault> {
        self.lock().pending.medium.faults.clone()
    }

    /// How many of the injected faults have struck.
    pub fn struck(&self) -> usize {
        let state = self.lock();
        let faults = state.pending.medium.faults.iter();
        faults.filter(|injected| injected.has_struck).count()
    }

    /// No store to the unit of the byte is pending, and its page is there.
    fn is_clean(&self, pending: &Pending, at: usize) -> bool {
        let is_lost = lock(&self.lost.pages).contains_key(&(at / PAGE_BYTES));
        !is_lost && !pending.is_pending(at)
    }

    fn load_again(&self, pending: &mut Pending, range: &Range<usize>) {
        let unit_bytes = self.model.unit_bytes();
        let first = range.start / unit_bytes * unit_bytes;
        for start in (first..range.end).step_by(unit_bytes) {
            if !self.is_clean(pending, start) {
                continue;
            }
            let own = start..(start + unit_bytes).min(self.len);
            let bytes = pending.medium.load(&own);
            for (at, piece) in own.step_by(PAIR_BYTES).zip(bytes.chunks(PAIR_BYTES)) {
                match <[u8; PAIR_BYTES]>::try_from(piece) {
                    Ok(pair) => self.write_view_pair(at, pair),
                    Err(_) => self.write_view(at, piece),
                }
            }
        }
    }
}
