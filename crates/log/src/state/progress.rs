//! Whether anything goes on that makes room, by which callers that wait for room know whether to wait on.

/// Counts what makes room: blocks that a backing took, and segments that came free.
///
/// A block counts when it is written, not only when it is synced: a segment of blocks may take a slow backing longer than a caller
/// waits. What is written again after a sync that failed is no progress: until one succeeds, a block counts only if more are written
/// than ever were since the last one that did. So of a backing that takes all writes and fails all syncs the count stands still.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    count: u64,
    /// Blocks written since the last sync.
    unsynced: u64,
    /// The most that `unsynced` was since a sync succeeded.
    most_unsynced: u64,
}

impl Progress {
    /// A backing has taken blocks.
    pub(crate) fn note_written(&mut self, blocks: u64) {
        self.unsynced += blocks;
        let more = self.unsynced.saturating_sub(self.most_unsynced);
        self.count += more;
        self.most_unsynced += more;
    }

    /// A sync is over, by which so many blocks are durable.
    pub(crate) fn note_synced(&mut self, durable_blocks: u64) {
        self.unsynced = 0;
        if durable_blocks > 0 {
            self.count += durable_blocks;
            self.most_unsynced = 0;
        }
    }

    /// A segment came free.
    pub(crate) fn note_freed(&mut self) {
        self.count += 1;
    }

    /// Never falls, and stands still as long as nothing goes on.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_again_and_never_synced_is_no_progress() {
        let mut progress = Progress::default();
        progress.note_written(10);
        assert_eq!(progress.count(), 10);
        for _ in 0..3 {
            progress.note_synced(0);
            progress.note_written(4);
            progress.note_written(6);
            assert_eq!(progress.count(), 10);
        }
        progress.note_written(1);
        assert_eq!(progress.count(), 11, "more than ever");
        progress.note_synced(11);
        progress.note_written(2);
        progress.note_freed();
        assert_eq!(progress.count(), 25);
    }
}
