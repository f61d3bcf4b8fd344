//! Write-back: of one victim when there is no room (§3.3), of everything in a flush.
//!
//! An entry that is the only way to a block's latest bytes is freed or marked clean only after these
//! bytes are on the disk and synced.

use forebay::{Error, ErrorKind, Result};

use super::Spindle;
use super::layout::{Cache, Mapping};
use super::state::State;
use crate::mutants::{Mutant, mutated};

/// A dirty block.
#[derive(Clone, Copy)]
struct Dirty {
    block: u64,
    cache: Cache,
    entry: u32,
    slot: u32,
}

impl Spindle {
    /// Evicts the least recently used data block that is not pinned. Its entry is durably free after
    /// the next fence, and not before that may its NVM block have other bytes.
    ///
    /// # Errors
    /// `NoSpace`: all are pinned; the disk failed, and nothing changed.
    pub(super) fn evict_data(
        &self,
        state: &mut State,
        is_pinned: &dyn Fn(u64) -> bool,
    ) -> Result<()> {
        let victim = state
            .data
            .lru
            .oldest_first()
            .find(|&entry| !is_pinned(state.data.at(entry).block));
        let entry = victim.ok_or_else(|| no_space(state))?;
        let cached = state.data.at(entry);
        if cached.mapping.is_dirty {
            self.write_back_one(Cache::Data, cached.mapping.slot, cached.block)?;
        }
        self.media.map_entry(Cache::Data, entry, None);
        state.free_data(entry);
        state.tallies.evictions += 1;
        Ok(())
    }

    /// Evicts the metadata block whose inodes were accessed least, as [`Spindle::evict_data`] does.
    ///
    /// # Errors
    /// As there.
    pub(super) fn evict_metadata(
        &self,
        state: &mut State,
        is_pinned: &dyn Fn(u64) -> bool,
    ) -> Result<()> {
        let victim = state
            .metadata
            .least_accessed_first()
            .find(|&slot| !is_pinned(state.metadata.at(slot).block));
        let slot = victim.ok_or_else(|| no_space(state))?;
        let cached = state.metadata.at(slot);
        if cached.is_dirty {
            self.write_back_one(Cache::Metadata, slot, cached.block)?;
        }
        self.media.map_entry(Cache::Metadata, slot, None);
        state.free_metadata(slot);
        state.tallies.evictions += 1;
        Ok(())
    }

    /// Brings every dirty block to the disk, syncs it, and marks them clean.
    pub(super) fn flush_locked(&self, state: &mut State) -> Result<()> {
        let mut dirty = self.dirty_blocks(state);
        dirty.sort_unstable_by_key(|of_block| of_block.block);
        self.write_back(&dirty)?;
        self.sync()?;
        let (mut data, mut metadata) = (Vec::new(), Vec::new());
        for of_block in &dirty {
            let mapping = Mapping {
                slot: of_block.slot,
                is_dirty: false,
            };
            let (cache, entry) = (of_block.cache, of_block.entry);
            self.media.store_mapping(cache, entry, Some(mapping));
            match cache {
                Cache::Data => {
                    state.data.set_mapping(entry, mapping);
                    data.push(entry);
                }
                Cache::Metadata => {
                    state.metadata.set_dirty(entry, false);
                    metadata.push(entry);
                }
            }
        }
        if dirty.is_empty() {
            return Ok(());
        }
        self.media.flush_entries(Cache::Data, &mut data);
        self.media.flush_entries(Cache::Metadata, &mut metadata);
        // Clean after a restart too, in no order with anything: the disk has these blocks.
        self.media.fence()
    }

    fn dirty_blocks(&self, state: &State) -> Vec<Dirty> {
        let data = (0..)
            .zip(&state.data.entries)
            .filter_map(|(entry, cached)| {
                let cached = cached.filter(|cached| cached.mapping.is_dirty)?;
                Some(Dirty {
                    block: cached.block,
                    cache: Cache::Data,
                    entry,
                    slot: cached.mapping.slot,
                })
            });
        let metadata = state.metadata.least_accessed_first().filter_map(|slot| {
            let cached = state.metadata.at(slot);
            cached.is_dirty.then_some(Dirty {
                block: cached.block,
                cache: Cache::Metadata,
                entry: slot,
                slot,
            })
        });
        data.chain(metadata).collect()
    }

    fn write_back_one(&self, cache: Cache, slot: u32, block: u64) -> Result<()> {
        let entry = slot;
        self.write_back(&[Dirty {
            block,
            cache,
            entry,
            slot,
        }])?;
        self.sync()
    }

    /// Writes blocks, in the order of their numbers; no sync.
    fn write_back(&self, blocks: &[Dirty]) -> Result<()> {
        let number = |dirty: &Dirty| dirty.block;
        self.disk.write(blocks, number, |dirty, out| {
            self.media
                .read_slot(dirty.cache, dirty.slot, dirty.block, out)
        })
    }

    fn sync(&self) -> Result<()> {
        if mutated(Mutant::SpindleFreedBeforeSync) {
            return Ok(());
        }
        self.disk.sync()
    }
}

fn no_space(state: &State) -> Error {
    ErrorKind::NoSpace {
        waited_ms: 0,
        dirty_blocks: state.counts().1,
    }
    .into()
}
