//! Evictions: clean blocks leave, a batch a record, and their slots are free.
//!
//! I7 lets only clean blocks go; I2 lets their slots go only after the tombstones' fence.

use super::Engine;
use super::change::{Action, Change, Outcome};
use crate::error::Result;
use crate::media::entry::Entry;
use crate::media::layout::ELEMENT_BYTES;
use crate::mutants::{Mutant, mutated};
pub(crate) use crate::policy::plan::EVICT_BATCH_MAX;
use crate::table::slot_ref::SlotRef;
use crate::table::states::{STATE_DIRTY, STATE_WRITING};

impl Engine {
    /// Evicts up to `wanted` clean blocks, best victims first; returns how many went.
    pub(crate) fn reclaim_once(&self, wanted: usize) -> Result<usize> {
        if self.table.states().dirty_count() >= self.replacement.len() as u64 {
            // Nothing is clean: a scan would look at every block for nothing.
            return Ok(0);
        }
        let mut victims = Vec::new();
        self.replacement.victims(
            self.batch_of(wanted),
            &mut |index| self.table.state(index) & (STATE_DIRTY | STATE_WRITING) == 0,
            &mut victims,
        );
        self.evict(victims)
    }

    pub(crate) fn batch_of(&self, wanted: usize) -> usize {
        wanted.min(EVICT_BATCH_MAX).min(self.evictions_per_record())
    }

    /// Evicts those of the victims that are clean, with one record.
    pub(crate) fn evict(&self, victims: Vec<u32>) -> Result<usize> {
        let victims = match self.media().geometry.has_rows {
            true => self.with_row_mates(victims),
            false => victims,
        };
        let mut changes: Vec<Change> = victims
            .into_iter()
            .filter_map(|index| {
                // A racy look; the commit decides under the lock whether it still holds.
                let entry = self.media().sound(self.table.entries().load(index))?;
                entry.is_clean().then(|| self.eviction(entry))
            })
            .collect();
        changes.sort_unstable_by_key(|change| change.key);
        changes.dedup_by_key(|change| change.key);
        crate::sync::look_hint();
        if mutated(Mutant::EvictWithoutRecord) {
            return Ok(self.evict_without_record(&changes));
        }
        match self.commit_mappings(&changes)? {
            Outcome::Done(evicted) => {
                self.tallies.mine().evictions(evicted as u64);
                if evicted > 0 {
                    self.wakeup.notify_space();
                }
                Ok(evicted)
            }
            Outcome::Stale | Outcome::NoEntry => Ok(0),
        }
    }

    /// How many tombstones a record holds: a tiny pool's lanes take small records only.
    pub(crate) fn evictions_per_record(&self) -> usize {
        (self.log.lanes().lane_bytes() / 2 / ELEMENT_BYTES as u64)
            .saturating_sub(2)
            .max(1) as usize
    }

    /// The change that lets a block go, if it is still this entry and clean.
    pub(crate) fn eviction(&self, entry: Entry) -> Change {
        let key = entry.key();
        Change {
            key,
            bucket: self.table.bucket(key),
            action: Action::Evict { entry },
            based_on: None,
        }
    }

    /// The mutant: mappings vanish from the table without a record.
    fn evict_without_record(&self, changes: &[Change]) -> usize {
        for change in changes {
            self.table.index().lock(change.bucket.stripe);
            self.table.index().begin_change(change.bucket.stripe);
            if let Some((index, entry)) = self.table.find(change.bucket, change.key) {
                self.table.unmap(change.bucket, index);
                self.table.mark_unlogged(index);
                self.replacement.on_remove(index);
                self.table.free_entry(index);
                if let Some(slot_ref) = self.media().sound(entry).and_then(SlotRef::of) {
                    self.table.release_slot(
                        slot_ref,
                        &self
                            .table
                            .slots()
                            .slot_cache(crate::log::lanes::thread_hint()),
                    );
                }
            }
            self.table
                .index()
                .end_change_and_unlock(change.bucket.stripe);
        }
        changes.len()
    }
}
