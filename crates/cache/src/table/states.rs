//! What DRAM knows of each entry beyond the entry itself: dirty, in a write-back, deferred.
//!
//! A byte for each entry, changed under the lock of the entry's stripe, and the set of dirty entries on
//! their way to the flusher. A dirty entry is in that set, or the flusher has taken it.

use crate::sync::{AtomicU8, AtomicU64, Ordering};

use super::word_set_queue::WordSetQueue;

/// The backing does not have the entry's block yet.
pub(crate) const STATE_DIRTY: u8 = 1;
/// A write-back of the block is under way.
pub(crate) const STATE_WRITING: u8 = 2;
/// The block changed since that write-back began.
pub(crate) const STATE_REDIRTIED: u8 = 4;
/// When the block was last compared with what a write brought, they differed much.
pub(crate) const STATE_DIFFERS: u8 = 8;
/// Write-back leaves the block for last: it is a journal's (`background::journal`).
pub(crate) const STATE_DEFERRED: u8 = 16;
/// The block changed when it was cached already, since write-back last passed it over for that.
pub(crate) const STATE_SECOND_CHANCE: u8 = 32;

/// What becoming dirty meant for an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dirtied {
    /// It was clean; so many entries are dirty now.
    First(u64),
    /// It was dirty already.
    Again,
    /// It was dirty already, and deferred: one write to the backing less.
    AgainWhileDeferred,
}

/// The states of all entries.
pub(crate) struct States {
    states: Box<[AtomicU8]>,
    dirty: WordSetQueue,
    dirty_count: AtomicU64,
    deferred_count: AtomicU64,
}

impl States {
    /// Of so many entries, all clean.
    pub(super) fn new(entries: u32) -> States {
        States {
            states: (0..entries).map(|_| AtomicU8::new(0)).collect(),
            dirty: WordSetQueue::new(entries),
            dirty_count: AtomicU64::new(0),
            deferred_count: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> u8 {
        self.states[index as usize].load(Ordering::Relaxed)
    }
    #[inline]
    pub(crate) fn set(&self, index: u32, state: u8) {
        self.states[index as usize].store(state, Ordering::Relaxed);
    }
    /// Prefetches the entry's state.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        forebay_pmem::prefetch(&self.states[index as usize]);
    }
    #[inline]
    pub(crate) fn is_dirty(&self, index: u32) -> bool {
        self.get(index) & STATE_DIRTY != 0
    }

    /// The entry's block differs from the backing; `was_cached` if it was there before. The caller
    /// holds the stripe's lock.
    #[inline(always)]
    pub(super) fn mark_dirty(&self, index: u32, was_cached: bool) -> Dirtied {
        let state = self.get(index);
        // What is written again and again, and not being written back, stays as it is.
        const SETTLED: u8 = STATE_DIRTY | STATE_SECOND_CHANCE;
        if was_cached && state & (SETTLED | STATE_WRITING | STATE_DEFERRED) == SETTLED {
            return Dirtied::Again;
        }
        let redirtied = if state & STATE_WRITING != 0 {
            STATE_REDIRTIED
        } else {
            0
        };
        // Not what has just come in: if everything were passed over once, the next look would come
        // too soon for what changes often.
        let second_chance = if was_cached { STATE_SECOND_CHANCE } else { 0 };
        let now = state | STATE_DIRTY | second_chance | redirtied;
        if now != state {
            // Else only looked at: the line is also that of entries that other threads change.
            self.set(index, now);
        }
        if state & STATE_DIRTY == 0 {
            let before = self.dirty_count.fetch_add(1, Ordering::Relaxed);
            self.dirty.insert(index);
            Dirtied::First(before + 1)
        } else if state & STATE_DEFERRED != 0 {
            Dirtied::AgainWhileDeferred
        } else {
            Dirtied::Again
        }
    }

    /// Marks an entry that recovery found dirty; no other thread is at work.
    pub(super) fn mark_found_dirty(&self, index: u32) {
        self.set(index, STATE_DIRTY);
        self.dirty_count.fetch_add(1, Ordering::Relaxed);
        self.dirty.insert(index);
    }

    /// The entry's block no longer needs writing back. The caller holds the stripe's lock.
    pub(crate) fn unmark_dirty(&self, index: u32) {
        let state = self.get(index);
        if state & STATE_DIRTY != 0 {
            let gone = STATE_DIRTY | STATE_REDIRTIED | STATE_SECOND_CHANCE;
            self.set(index, state & !gone);
            let before = self.dirty_count.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "the dirty count matches the dirty states");
        }
    }

    /// Write-back leaves the entry for last. The caller holds the stripe's lock.
    pub(crate) fn mark_deferred(&self, index: u32) {
        self.set(index, self.get(index) | STATE_DEFERRED);
        self.deferred_count.fetch_add(1, Ordering::Relaxed);
    }

    /// It does not any more; whether it did. The caller holds the stripe's lock.
    pub(crate) fn unmark_deferred(&self, index: u32) -> bool {
        let state = self.get(index);
        let had = state & STATE_DEFERRED != 0;
        if had {
            self.set(index, state & !STATE_DEFERRED);
            self.deferred_count.fetch_sub(1, Ordering::Relaxed);
        }
        had
    }

    /// The entry left the table. The caller holds the stripe's lock.
    pub(super) fn clear(&self, index: u32) {
        self.unmark_deferred(index);
        self.unmark_dirty(index);
        self.set(index, 0);
    }

    /// Puts a dirty entry into the set again: it was taken out, and stays dirty.
    pub(crate) fn announce(&self, index: u32) {
        self.dirty.insert(index);
    }

    /// Takes a word of the set: its number, and a bit for each entry. Some may be clean by now.
    pub(crate) fn take_dirty(&self) -> Option<(u32, u64)> {
        self.dirty.take_word()
    }

    /// Entries that are dirty.
    pub(crate) fn dirty_count(&self) -> u64 {
        self.dirty_count.load(Ordering::Relaxed)
    }
    /// Entries that are deferred.
    pub(crate) fn deferred_count(&self) -> u64 {
        self.deferred_count.load(Ordering::Relaxed)
    }
    /// Bytes of DRAM.
    pub(super) fn dram_bytes(&self) -> u64 {
        self.dirty.dram_bytes() + self.states.len() as u64
    }
}
