//! A lock for each block, taken by one compare-and-exchange (§5.1).

use std::sync::atomic::{AtomicU8, Ordering};

/// Which stage holds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Holder {
    /// The thread that has the file open.
    Writer = 1,
    /// The thread that brings the block to its file.
    Flusher = 2,
    /// The thread that makes clean blocks free.
    Reclaimer = 3,
}

/// A line each: a block's lock shares none with its neighbour's.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(super) struct BlockLock(AtomicU8);

impl BlockLock {
    /// Takes it, if nobody holds it. What its last holder did is seen.
    pub(super) fn try_lock(&self, holder: Holder) -> bool {
        self.0
            .compare_exchange(0, holder as u8, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether the reclaimer has it at the moment.
    pub(super) fn is_held_by_reclaimer(&self) -> bool {
        self.0.load(Ordering::Acquire) == Holder::Reclaimer as u8
    }

    /// Gives it back.
    pub(super) fn unlock(&self) {
        self.0.store(0, Ordering::Release);
    }
}
