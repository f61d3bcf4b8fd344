//! What the stages did.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the buffer was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCounts {
    /// Blocks brought to their files.
    pub flushed_blocks: u64,
    /// Writes that took, neighbours together.
    pub flush_writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Dirty blocks that a writer held, and that went to the end of their queue (Figure 8).
    pub requeued_blocks: u64,
    /// Clean blocks made free.
    pub reclaimed_blocks: u64,
    /// Times that a writer waited for a block that was being flushed.
    pub waits_for_flusher: u64,
    /// Times that a writer found no free block.
    pub waits_for_free: u64,
}

/// The same, counted by many threads.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) flushed_blocks: AtomicU64,
    pub(super) flush_writes: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) requeued_blocks: AtomicU64,
    pub(super) reclaimed_blocks: AtomicU64,
    pub(super) waits_for_flusher: AtomicU64,
    pub(super) waits_for_free: AtomicU64,
}

impl Counted {
    pub(super) fn told(&self) -> StageCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        StageCounts {
            flushed_blocks: of(&self.flushed_blocks),
            flush_writes: of(&self.flush_writes),
            syncs: of(&self.syncs),
            requeued_blocks: of(&self.requeued_blocks),
            reclaimed_blocks: of(&self.reclaimed_blocks),
            waits_for_flusher: of(&self.waits_for_flusher),
            waits_for_free: of(&self.waits_for_free),
        }
    }
}

/// Counts one more, or several.
pub(super) fn add(count: &AtomicU64, number: u64) {
    count.fetch_add(number, Ordering::Relaxed);
}
