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
    /// Blocks of this batch that nothing can be done about: they come back with the next one, and must
    /// not keep those that are held from going.
    stuck: u64,
    /// Such blocks of the batch before.
    stuck_before: u64,
}

impl DeferredBlocks {
    /// A batch begins; returns how many blocks of the one before are stuck.
    pub(crate) fn begin_batch(&mut self) -> u64 {
        self.stuck_before = std::mem::take(&mut self.stuck);
        self.stuck_before
    }

    /// Blocks of a round could not be written. Whether the next batch will release others for them: if that
    /// went on for ever, the count would grow for ever.
    pub(crate) fn note_stuck(&mut self, blocks: u64) -> bool {
        self.stuck += blocks;
        self.stuck > self.stuck_before && !self.list.is_empty()
    }
}
