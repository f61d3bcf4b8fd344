//! Bringing a block in that was not cached.

use super::Engine;
use crate::error::Result;
use crate::log::lanes::thread_hint;
use crate::media::entry::{Entry, Key};
use crate::mutants::{Mutant, mutated};
use crate::table::index::{Bucket, Version};

impl Engine {
    /// Brings a block that the backing returned into the pool, clean and without a record. Does
    /// nothing where there is no room or the stripe moved on.
    pub(crate) fn fill(
        &self,
        key: Key,
        bucket: Bucket,
        version: Version,
        bytes: &[u8],
    ) -> Result<Option<Version>> {
        let slot_cache = self.table.slots().slot_cache(thread_hint());
        let Some(slot) = slot_cache.take() else {
            self.wakeup.notify_work();
            return Ok(None);
        };
        let crc = self.media().stream_clean_slot(slot, bytes);
        if !mutated(Mutant::FillWithoutFence) {
            // Orders the block before its entry: another thread's delta will stand on it, and that
            // thread's fence does not cover these stores.
            self.fence()?;
        }
        self.table.index().lock(bucket.stripe);
        let unchanged = self.table.index().locked_version(bucket.stripe) == version
            || mutated(Mutant::FillIgnoresVersion);
        let is_live =
            self.table.live().contains(key.volume()) || mutated(Mutant::FilledAfterDetach);
        // Its member was taken out, so that the fence was that of the other one; or another one joined meanwhile.
        let is_in_place = self.media().is_in_place(slot, false);
        let index = if unchanged && is_live && is_in_place {
            self.table.pop_free_entry(bucket)
        } else {
            None
        };
        let Some(index) = index else {
            self.table.index().unlock(bucket.stripe);
            slot_cache.give(slot);
            self.wake_if_low();
            return Ok(None);
        };
        self.table.index().begin_change(bucket.stripe);
        let entry = Entry::data(key, slot, crc).as_clean();
        self.table.install_clean(bucket, index, entry);
        self.replacement.on_insert(index);
        let version = self.table.index().end_change_and_unlock(bucket.stripe);
        self.tallies.mine().fills(1);
        self.wake_if_low();
        Ok(Some(version))
    }
}
