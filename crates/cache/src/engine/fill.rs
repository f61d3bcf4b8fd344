//! Bringing blocks in that were not cached: their bytes go to slots of their own, one fence orders them before all of their entries,
//! then each is installed.

use super::Engine;
use crate::error::Result;
use crate::log::lanes::thread_hint;
use crate::media::entry::{Entry, Key};
use crate::mutants::{Mutant, mutated};
use crate::table::index::{Bucket, Version};

/// A block in a slot that nothing leads to yet. [`Engine::finish_fill`] or [`Engine::abandon_fill`] ends it.
#[must_use]
pub(crate) struct StreamedBlock {
    slot: u32,
    crc: u32,
}

impl Engine {
    /// Streams a block that the backing returned to a free slot; none where there is no room.
    pub(crate) fn stream_fill(&self, bytes: &[u8]) -> Option<StreamedBlock> {
        let slot_cache = self.table.slots().slot_cache(thread_hint());
        let Some(slot) = slot_cache.take() else {
            self.wakeup.notify_work();
            return None;
        };
        let crc = self.media().stream_clean_slot(slot, bytes);
        Some(StreamedBlock { slot, crc })
    }

    /// Orders the blocks that this thread has streamed before their entries: another thread's delta will stand on them, and
    /// that thread's fence does not cover these stores.
    ///
    /// # Errors
    /// The fence failed, which has poisoned the pool; the slots are nobody's then.
    pub(crate) fn fence_fills(&self) -> Result<()> {
        match mutated(Mutant::FillWithoutFence) {
            true => Ok(()),
            false => self.fence(),
        }
    }

    /// Brings a block in that was streamed and fenced, clean and without a record. Gives its slot back where the stripe moved on, or
    /// has the key: of two entries of one key a write replaces one, and the other would be read once that has left.
    pub(crate) fn finish_fill(
        &self,
        key: Key,
        bucket: Bucket,
        version: Version,
        block: StreamedBlock,
    ) -> Option<Version> {
        let (slot, crc) = (block.slot, block.crc);
        self.table.index().lock(bucket.stripe);
        let unchanged = self.table.index().locked_version(bucket.stripe) == version
            || mutated(Mutant::FillIgnoresVersion);
        let is_live =
            self.table.live().contains(key.volume()) || mutated(Mutant::FilledAfterDetach);
        // Its member was taken out, so that the fence was that of the other one; or another one joined meanwhile.
        let is_in_place = self.media().is_in_place(slot, false);
        let is_absent =
            self.table.find(bucket, key).is_none() || mutated(Mutant::FillIgnoresVersion);
        let index = if unchanged && is_absent && is_live && is_in_place {
            self.table.pop_free_entry(bucket)
        } else {
            None
        };
        let Some(index) = index else {
            self.table.index().unlock(bucket.stripe);
            self.abandon_fill(block);
            return None;
        };
        self.table.index().begin_change(bucket.stripe);
        let entry = Entry::data(key, slot, crc).as_clean();
        self.table.install_clean(bucket, index, entry);
        self.replacement.on_insert(index);
        let version = self.table.index().end_change_and_unlock(bucket.stripe);
        self.tallies.mine().fills(1);
        self.wake_if_low();
        Some(version)
    }

    /// Gives back the slot of a block that is not brought in after all.
    pub(crate) fn abandon_fill(&self, block: StreamedBlock) {
        self.table
            .slots()
            .slot_cache(thread_hint())
            .give(block.slot);
        self.wake_if_low();
    }
}
