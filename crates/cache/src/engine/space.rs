//! How much is free, and how much should be.

use super::Engine;
use crate::policy::plan;

impl Engine {
    /// Whether fewer slots, or entries, are free than reclaim keeps: where blocks share slots, entries
    /// run out first.
    pub(crate) fn low_on_space(&self) -> bool {
        self.table.slots().free_count() < self.free_target()
            || self.free_entries() < self.free_target()
    }

    /// Whether reclaim may rest: twice as much is free.
    pub(crate) fn has_ample_space(&self) -> bool {
        let ample = plan::ample(self.free_target());
        self.table.slots().free_count() >= ample && self.free_entries() >= ample
    }

    /// Places of the table that are free, about.
    pub(crate) fn free_entries(&self) -> u64 {
        let entries = u64::from(self.media().geometry.entries);
        entries.saturating_sub(self.replacement.len() as u64)
    }

    /// Slots, and entries, that reclaim keeps free.
    pub(crate) fn free_target(&self) -> u64 {
        let slots = u64::from(self.media().geometry.room());
        plan::free_target(slots, self.free_low_per_mille)
    }

    /// Called by a committer whose commit ended: background threads free slots before it runs out of them, which it would
    /// do itself, and wait for the backing where all is dirty.
    #[inline(always)]
    pub(crate) fn have_reclaimed_in_time(&self) {
        if self.table.slots().were_refilled() {
            self.wake_if_low();
        }
    }

    /// Has the background threads look, where fewer are free than reclaim keeps.
    pub(super) fn wake_if_low(&self) {
        if self.low_on_space() {
            self.wakeup.ask_for_reclaim();
        }
    }

    /// Called by a committer that found a lane full: a small log fills up long before the checkpointer
    /// next checks by itself.
    #[cold]
    pub(crate) fn lane_filled(&self) {
        if self.log.is_nearly_full() {
            self.wakeup.notify_work();
        }
    }
}
