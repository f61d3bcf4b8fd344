//! Reclaim: clean blocks leave, a batch a record, and their slots are free.
//!
//! I7 lets only clean blocks go; I2 lets their slots go only after the tombstones' fence.
//!
//! Where write-back runs ahead of need, clean blocks are plenty, and the coldest of them go. Where the
//! low watermark is so high that hardly any are clean, the coldest clean block may be one that was just
//! read: then reclaim takes the coldest blocks whatever they are, and writes the dirty ones back first,
//! in a round like any other. So a block that changes often is not written back while a colder one is
//! there, and none leaves before a colder one.

use std::time::Instant;

use crate::engine::change::{Action, Change, Outcome};
use crate::engine::core::{Core, STATE_DIRTY, STATE_WRITING};
use crate::engine::plan::SlotRef;
use crate::error::Result;
use crate::media::entry::Entry;
use crate::media::layout::ELEMENT_BYTES;
use crate::mutants::{Mutant, mutated};
use crate::sync::Ordering;

/// What a writer waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// So many slots.
    Slots(u64),
    /// An entry of the table.
    Entry,
}

/// Blocks evicted with one record and one fence.
pub(crate) const EVICT_BATCH_MAX: usize = 64;

impl Core {
    /// Whether fewer slots, or entries, are free than reclaim keeps: where blocks share slots, entries
    /// run out first.
    pub(crate) fn low_on_space(&self) -> bool {
        self.slots.free_count() < self.free_target() || self.free_entries() < self.free_target()
    }

    /// Whether reclaim may rest: twice as much is free.
    pub(crate) fn has_ample_space(&self) -> bool {
        let ample = 2 * self.free_target();
        self.slots.free_count() >= ample && self.free_entries() >= ample
    }

    /// Places of the table that are free, about.
    pub(crate) fn free_entries(&self) -> u64 {
        let entries = u64::from(self.media.geometry.entries);
        entries.saturating_sub(self.replacement.len() as u64)
    }

    /// Slots, and entries, that reclaim keeps free.
    pub(crate) fn free_target(&self) -> u64 {
        let slots = u64::from(self.media.geometry.slots());
        (slots * u64::from(self.options.free_low_per_mille) / 1000).max(1)
    }

    /// Frees up to `wanted` slots: of the coldest blocks where hardly any are clean, otherwise of the
    /// coldest clean ones; returns how many blocks went. It may wait for a backing, never for slots.
    pub(crate) fn reclaim(&self, wanted: usize) -> Result<usize> {
        if self.is_dirty_throughout() {
            let evicted = self.reclaim_coldest(wanted)?;
            if evicted > 0 {
                return Ok(evicted);
            }
            // Their backing fails, or all of them changed meanwhile.
        }
        self.reclaim_once(wanted)
    }

    /// Whether more than seven eighths of the slots are dirty, and write-back rests all the same; not
    /// where its rate is limited, which only the flusher keeps to.
    fn is_dirty_throughout(&self) -> bool {
        let slots = u64::from(self.media.geometry.slots());
        let dirty = self.dirty_count.load(Ordering::Relaxed);
        dirty > slots - slots / 8
            && dirty <= self.slots_of(self.wakeup.watermarks.low_per_mille())
            && self.wakeup.pace.limit().is_none()
    }

    /// Writes back what is dirty of the coldest blocks, up to `wanted` but no more than reclaim lacks,
    /// and evicts them.
    fn reclaim_coldest(&self, wanted: usize) -> Result<usize> {
        let ample = 2 * self.free_target();
        let free = self.slots.free_count().min(self.free_entries());
        let lacking = ample.saturating_sub(free).max(1) as usize;
        let wanted = self.batch_of(wanted.min(lacking));
        // Held until they are gone: no other thread takes the same ones meanwhile.
        let mut workbench = self.begin_round();
        let victims = self.write_back_coldest(&mut workbench, wanted);
        self.evict(victims)
    }

    /// Evicts up to `wanted` clean blocks, best victims first; returns how many went.
    pub(crate) fn reclaim_once(&self, wanted: usize) -> Result<usize> {
        if self.dirty_count.load(Ordering::Relaxed) >= self.replacement.len() as u64 {
            // Nothing is clean: a scan would look at every block for nothing.
            return Ok(0);
        }
        let mut victims = Vec::new();
        self.replacement.victims(
            self.batch_of(wanted),
            &mut |index| self.state(index) & (STATE_DIRTY | STATE_WRITING) == 0,
            &mut victims,
        );
        self.evict(victims)
    }

    fn batch_of(&self, wanted: usize) -> usize {
        wanted.min(EVICT_BATCH_MAX).min(self.evictions_per_record())
    }

    /// Evicts those of the victims that are clean, with one record.
    fn evict(&self, victims: Vec<u32>) -> Result<usize> {
        let mut changes: Vec<Change> = victims
            .into_iter()
            .filter_map(|index| {
                // A racy look; the commit decides under the lock whether it still holds.
                let entry = self.media.load_entry(index);
                let sound = !entry.is_free() && entry.parity_holds() && entry.is_clean();
                sound.then(|| self.eviction(entry))
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
        (self.lanes.lane_bytes() / 2 / ELEMENT_BYTES as u64)
            .saturating_sub(2)
            .max(1) as usize
    }

    /// The change that lets a block go, if it is still this entry and clean.
    pub(crate) fn eviction(&self, entry: Entry) -> Change {
        let key = entry.key();
        Change {
            key,
            bucket: self.bucket(key),
            action: Action::Evict { entry },
            based_on: None,
        }
    }

    /// The mutant: mappings vanish from the table without a record.
    fn evict_without_record(&self, changes: &[Change]) -> usize {
        for change in changes {
            self.index.lock(change.bucket.stripe);
            self.index.begin_change(change.bucket.stripe);
            if let Some((index, entry)) = self.find(change.bucket, change.key) {
                self.index.unlink(change.bucket, index);
                self.media.store_entry(index, Entry::FREE);
                self.mark_table_line(index);
                self.replacement.on_remove(index);
                self.set_state(index, 0);
                self.index.push_free(index);
                if let Some(slot_ref) = SlotRef::of(entry) {
                    self.release_slot(
                        slot_ref,
                        &self.slots.slot_cache(crate::log::lanes::thread_hint()),
                    );
                }
            }
            self.index.end_change_and_unlock(change.bucket.stripe);
        }
        changes.len()
    }

    /// Waits until what is needed may be free, pushing reclaim and write-back, up to the throttle's
    /// deadline. The caller holds nothing.
    pub(crate) fn make_space(&self, need: Need) -> Result<()> {
        let started = Instant::now();
        let mut has_waited = false;
        loop {
            let rings = self.wakeup.space_notices();
            self.writable()?;
            let reclaimed = self.reclaim(EVICT_BATCH_MAX)?;
            let enough = match need {
                Need::Slots(slots) => self.slots.free_count() >= slots,
                Need::Entry => reclaimed > 0,
            };
            if enough {
                return Ok(());
            }
            if reclaimed > 0 {
                continue;
            }
            let waited = started.elapsed();
            if waited >= self.options.throttle_deadline {
                return Err(self.no_space(waited));
            }
            if !std::mem::replace(&mut has_waited, true) {
                self.tallies.mine().throttled(1);
            }
            self.wait_for_write_back(rings, self.options.throttle_deadline - waited)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Backing, BackingStore, MemoryStore, Pool, PoolOptions, Region, ReplacementPolicy};

    #[test]
    fn where_all_is_dirty_the_coldest_go_once_the_backing_has_them() {
        let mut options = PoolOptions::default();
        options.format.block_bytes = 128;
        options.format.unit_bytes = 256;
        options.format.volumes = 2;
        options.runtime.background = false;
        options.runtime.replacement = ReplacementPolicy::Lru;
        options.runtime.dirty_low_per_mille = 1000;
        options.runtime.dirty_high_per_mille = 1000;
        options.runtime.free_low_per_mille = 100;
        let pool = Pool::create_on(vec![Region::shadow(1 << 20)], &options).expect("create");
        let store = Arc::new(MemoryStore::new(1 << 20));
        let volume = pool
            .attach(Backing::from_store(store.clone()))
            .expect("attach");
        let dirty = pool.stats().slots * 15 / 16;
        for block in (0..dirty).chain([0]) {
            volume
                .write(block, &[(block % 100) as u8; 128])
                .expect("write");
        }
        let core = &volume.core;
        assert_eq!(core.reclaim(4).expect("reclaim"), 4);
        assert!(volume.is_resident(0..1), "it changed last");
        assert!(!(1..5).any(|block| volume.is_resident(block..block + 1)));
        assert!((5..dirty).all(|block| volume.is_resident(block..block + 1)));
        let stats = pool.stats();
        assert_eq!(
            (stats.totals.write_backs, stats.dirty_blocks),
            (4, dirty - 4)
        );
        let mut found = [0; 128];
        store.read_at(4 * 128, &mut found).expect("read");
        assert_eq!(found, [4; 128]);
        // With a colder clean block there, that one goes, and nothing is written back.
        volume.read(1, &mut found).expect("fill");
        for block in 5..dirty {
            volume.write(block, &[7; 128]).expect("write");
        }
        volume.write(0, &[7; 128]).expect("write");
        assert_eq!(core.reclaim(1).expect("reclaim"), 1);
        assert!(!volume.is_resident(1..2));
        assert_eq!(pool.stats().totals.write_backs, 4);
        // Write-back that is to work ahead of need does so: clean blocks alone go.
        pool.set_watermarks(500, 900).expect("marks");
        assert_eq!(core.reclaim(4).expect("reclaim"), 0);
        assert_eq!(pool.stats().totals.write_backs, 4);
    }
}
