//! What rounds of write-back keep about journals.

use super::state::Tables;

/// What rounds of write-back keep about journals; one round is at work at a time.
#[derive(Default)]
pub(crate) struct DeferredBlocks {
    pub(super) tables: Tables,
    /// Deferred entries, and stale numbers; the last one is written first.
    pub(super) list: Vec<u32>,
    /// Numbers that came or went since the list was put in order.
    pub(super) moved: usize,
    /// Overwrites of deferred blocks until then: they move the heads of the rings.
    pub(super) overwritten: u64,
    /// The number of this batch.
    batch: u64,
    /// Blocks of this batch that nothing can be done about: they come back with the next one, and must
    /// not keep those that are held from going.
    stuck: u64,
    /// Such blocks of the batch before.
    stuck_before: u64,
}

impl DeferredBlocks {
    /// A batch begins; returns how many blocks of the one before are stuck.
    pub(crate) fn begin_batch(&mut self) -> u64 {
        self.batch += 1;
        self.stuck_before = std::mem::take(&mut self.stuck);
        self.stuck_before
    }

    /// The batch that rounds take their blocks from now.
    pub(crate) fn batch(&self) -> u64 {
        self.batch
    }

    /// Blocks of a round could not be written, which it took from `batch`: where another round began the next one before this one
    /// was retired, that is not this batch any more. Whether the next batch will release others for them: if that
    /// went on for ever, the count would grow for ever.
    pub(crate) fn note_stuck(&mut self, batch: u64, blocks: u64) -> bool {
        match self.batch - batch {
            0 => self.stuck += blocks,
            1 => self.stuck_before += blocks,
            // They have come back since.
            _ => {}
        }
        self.stuck > self.stuck_before && !self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_batch_that_was_over_were_counted_to_the_next() {
        let mut deferred = DeferredBlocks {
            list: vec![1],
            ..DeferredBlocks::default()
        };
        assert_eq!(deferred.begin_batch(), 0);
        let first = deferred.batch();
        assert!(deferred.note_stuck(first, 2), "others go for them");
        assert_eq!(deferred.begin_batch(), 2);
        // A round of the first one is retired only now.
        assert!(!deferred.note_stuck(first, 3));
        assert_eq!((deferred.stuck, deferred.stuck_before), (0, 5));
        assert!(!deferred.note_stuck(deferred.batch(), 5));
        assert_eq!(deferred.begin_batch(), 5);
        assert!(!deferred.note_stuck(first, 7));
        assert_eq!((deferred.stuck, deferred.stuck_before), (0, 5));
    }
}
