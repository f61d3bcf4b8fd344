//! Walks over everything that is cached: checking all blocks, dropping a volume's.

use std::path::Path;

use super::change::Change;
use super::{EVICT_BATCH_MAX, Engine};
use crate::error::{ErrorKind, Result};
use crate::media::entry::{Entry, RawEntry};
use crate::table::CopiedFrom;

/// Entries between two reports of progress.
const PROGRESS_STEP: u32 = 4096;

impl Engine {
    /// Compares every cached block with its check; returns the good ones' number and the bad ones.
    pub(crate) fn check_all(&self, progress: &mut dyn FnMut(u64, u64)) -> (u64, Vec<(u32, u64)>) {
        let mut good = 0;
        let mut bad = Vec::new();
        let mut buffer = vec![0; self.block_bytes()];
        let entries = self.media().geometry.entries;
        for index in 0..entries {
            if index % PROGRESS_STEP == 0 {
                progress(u64::from(index), u64::from(entries));
                let next = (index..entries.min(index + PROGRESS_STEP))
                    .filter_map(|index| self.media().sound(self.table.entries().load(index)));
                self.media()
                    .read_slots_ahead(next.filter_map(|entry| entry.slot()));
            }
            match self.check_entry(index, &mut buffer) {
                Some(true) => good += 1,
                Some(false) => {
                    let key = self.table.entries().load(index).key();
                    bad.push((key.volume(), key.block()));
                }
                None => {}
            }
        }
        progress(u64::from(entries), u64::from(entries));
        (good, bad)
    }

    /// Whether the entry's block is sound; `None` if there is none.
    fn check_entry(&self, index: u32, buffer: &mut [u8]) -> Option<bool> {
        loop {
            let raw = self.table.entries().load(index);
            if raw.is_free() {
                return None;
            }
            let Some(entry) = self.media().sound(raw) else {
                return Some(false);
            };
            let bucket = self.table.bucket(entry.key());
            let version = self.table.index().read_begin(bucket.stripe);
            let unchanged = self.table.entries().load(index) == entry;
            let good = unchanged && self.table.copy_out(entry, true, buffer) != CopiedFrom::Nowhere;
            if unchanged && self.table.index().read_valid(bucket.stripe, version) {
                return Some(good);
            }
        }
    }

    /// Evicts every block of a volume. They are clean: the caller has flushed it.
    pub(crate) fn drop_volume_blocks(&self, id: u32, path: &Path) -> Result<()> {
        let mut batch = Vec::new();
        for index in 0..self.media().geometry.entries {
            let raw = self.table.entries().load(index);
            if !raw.is_free() && raw.key().volume() == id {
                batch.push(self.sound_or_corrupt(raw)?);
            }
            if batch.len() == EVICT_BATCH_MAX || index + 1 == self.media().geometry.entries {
                self.evict_all(&mut batch)?;
            }
        }
        let left = (0..self.media().geometry.entries)
            .map(|index| self.table.entries().load(index))
            .filter(|entry| !entry.is_free() && entry.key().volume() == id)
            .count();
        if left > 0 {
            return Err(ErrorKind::Volume(format!(
                "{}: {left} blocks were written while it was being detached; stop its users",
                path.display()
            ))
            .into());
        }
        Ok(())
    }

    /// Evicts those blocks of a volume that are clean: what the backing has instead counts.
    pub(crate) fn drop_clean_blocks(&self, volume: u32) -> Result<()> {
        let mut batch = Vec::new();
        for index in 0..self.media().geometry.entries {
            let raw = self.table.entries().load(index);
            let is_clean = !self.table.states().is_dirty(index);
            if !raw.is_free() && raw.key().volume() == volume && is_clean {
                batch.push(self.sound_or_corrupt(raw)?);
            }
            if batch.len() == EVICT_BATCH_MAX {
                self.evict_all(&mut batch)?;
            }
        }
        self.evict_all(&mut batch)
    }

    /// Whether the pool has a block of the volume.
    pub(crate) fn holds_block_of(&self, volume: u32) -> bool {
        (0..self.media().geometry.entries).any(|index| {
            let entry = self.table.entries().load(index);
            !entry.is_free() && entry.key().volume() == volume
        })
    }

    /// # Errors
    /// The medium has changed the entry.
    pub(crate) fn sound_or_corrupt(&self, raw: RawEntry) -> Result<Entry> {
        let entry = self.media().sound(raw);
        entry.ok_or_else(|| self.corrupt(raw.key()))
    }

    fn evict_all(&self, batch: &mut Vec<Entry>) -> Result<()> {
        for part in batch.chunks(self.evictions_per_record()) {
            let mut changes: Vec<Change> = part.iter().map(|entry| self.eviction(*entry)).collect();
            changes.sort_unstable_by_key(|change| change.key);
            // A block that left and came back meanwhile was seen at both places.
            changes.dedup_by_key(|change| change.key);
            self.commit_mappings(&changes)?;
        }
        batch.clear();
        Ok(())
    }
}
