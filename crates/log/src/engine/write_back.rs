//! Writing to a backing: zeroes and blocks, then a sync, and only then they are clean.

use super::core::{Log, State};
use crate::backing::Backing;
use crate::error::{LogError, Result};
use crate::media::BLOCK_BITS;
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};
use crate::state::{Entry, Held, ZeroRange};
use std::collections::BTreeSet;
use std::io;

/// Blocks that are read and given to a backing at once.
pub(crate) const BROUGHT_AT_ONCE: usize = 256;

/// Zeroes and blocks that were written to a backing, of one volume.
#[derive(Default)]
pub(crate) struct Brought {
    pub(crate) zeroes: BTreeSet<ZeroRange>,
    pub(crate) blocks: Vec<Held>,
    /// Why others were not.
    pub(crate) failure: Option<LogError>,
}

impl Brought {
    /// Nothing was written, and nothing failed.
    pub(crate) fn is_empty(&self) -> bool {
        self.zeroes.is_empty() && self.blocks.is_empty() && self.failure.is_none()
    }
}

impl Log {
    /// Syncs a volume's backing while no thread writes to it: a failure is not kept from the one that does.
    ///
    /// # Errors
    /// The backing's, or the volume has none.
    pub fn sync_backing(&self, volume: u32) -> Result<()> {
        let _alone = self.maintain();
        let backing = self.backing_or_error(volume)?;
        backing.sync().map_err(not_written_back(volume))
    }

    pub(crate) fn backing_or_error(&self, volume: u32) -> Result<std::sync::Arc<dyn Backing>> {
        self.backing(volume).ok_or_else(|| {
            LogError::Transaction(format!(
                "volume {volume} has no backing; attach its backing"
            ))
        })
    }

    /// Writes zeroes and then blocks to a backing, without a sync. A block that was written after its range was zeroed is in
    /// the table and not in the range, so the order does not matter for it.
    pub(crate) fn bring(
        &self,
        backing: &dyn Backing,
        (zeroes, blocks): (Vec<ZeroRange>, Vec<Entry>),
    ) -> Result<Brought> {
        // Before the sync: a patch that is published behind it is not durable yet.
        let chunks = blocks.chunks(BROUGHT_AT_ONCE);
        let held = chunks.flat_map(|some| self.lock().to_be_brought(some));
        let mut blocks: Vec<Held> = held.collect();
        // What a backing gets is durable here: after a power cut it would have what the log lacks, and not what came before that.
        // A pool that takes no writes any more still gives what it has, if all of that is durable.
        if !self.is_synced() && !mutated(Mutant::SsdBroughtUnsettled) {
            self.sync_first()?;
        }
        let mut brought = Brought::default();
        for range in zeroes {
            match backing.zero(range.first.block, range.count) {
                Ok(()) => {
                    self.lock().progress.note_written(range.count);
                    brought.zeroes.insert(range);
                }
                Err(error) => {
                    let failed = not_written_back(range.first.volume);
                    brought.failure = Some(failed(error));
                }
            }
        }
        // Backings are fastest in the order of their blocks.
        blocks.sort_unstable_by_key(|held| held.entry.key());
        for some in blocks.chunks(BROUGHT_AT_ONCE) {
            self.bring_some(backing, some, &mut brought)?;
        }
        Ok(brought)
    }

    /// A flush that fails is the pool's failure, and not that of the backing for which it was made.
    fn sync_first(&self) -> Result<()> {
        self.sync().map_err(|error| {
            let state = self.lock();
            let why = state.poisoned.as_deref();
            why.map_or(error, |why| self.poisoned(why))
        })
    }

    fn bring_some(
        &self,
        backing: &dyn Backing,
        blocks: &[Held],
        brought: &mut Brought,
    ) -> Result<()> {
        let mut bytes = Pages::of_any_bytes(blocks.len());
        let mut whole = Vec::with_capacity(blocks.len());
        let loaded = self.load_all_held(blocks, &mut bytes);
        let each = blocks.iter().zip(bytes.chunks_exact(PAGE_BYTES));
        for ((held, bytes), loaded) in each.zip(loaded) {
            let entry = held.entry;
            match loaded {
                Ok(()) => whole.push((held, bytes)),
                // It stays dirty, and the others are written. One that was overwritten meanwhile is no concern.
                Err(error @ (LogError::Corrupt { .. } | LogError::Device { .. })) => {
                    let now = self.lock().table.get(entry.key());
                    if now.is_some_and(|now| now.page == entry.page) {
                        brought.failure = Some(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let given = whole
            .iter()
            .map(|(held, bytes)| (held.entry.key().block, *bytes));
        let written = backing.write_many(&given.collect::<Vec<_>>());
        assert_eq!(written.len(), whole.len(), "a result for each block");
        let taken = written.iter().filter(|one| one.is_ok()).count();
        self.lock().progress.note_written(taken as u64);
        for ((held, _), written) in whole.into_iter().zip(written) {
            match written {
                Ok(()) => brought.blocks.push(held.clone()),
                Err(error) => {
                    brought.failure = Some(not_written_back(held.entry.key().volume)(error));
                }
            }
        }
        Ok(())
    }

    /// Syncs what was written to a backing; what has not changed since is clean from then on.
    ///
    /// # Errors
    /// Something was not written, or is not durable: that stays dirty.
    pub(crate) fn sync_brought(
        &self,
        (volume, backing): (u32, &dyn Backing),
        brought: Brought,
    ) -> Result<()> {
        let zeroed = brought.zeroes.iter().map(|range| range.first.block);
        let written = brought.blocks.iter().map(|held| held.entry.key().block);
        let blocks: Vec<u64> = zeroed.chain(written).collect();
        let synced = backing.sync_of(&blocks);
        if synced.is_err() {
            self.lock().progress.note_synced(0);
        }
        let failed = synced.map_err(not_written_back(volume))?;
        let mut is_durable = vec![true; blocks.len()];
        for (place, _) in &failed {
            is_durable[*place] = false;
        }
        let (zeroes, written) = is_durable.split_at(brought.zeroes.len());
        let mut state = self.lock();
        let mut durable = written.iter().filter(|one| **one).count() as u64;
        for (range, _) in brought.zeroes.iter().zip(zeroes).filter(|one| *one.1) {
            durable += range.count;
            let count = match mutated(Mutant::SsdPieceTakenForWhole) {
                true => (1 << BLOCK_BITS) - range.first.block,
                false => range.count,
            };
            let sequence = Some(range.sequence);
            state.zeroed.remove(range.first, count, sequence);
        }
        for (held, _) in brought.blocks.iter().zip(written).filter(|one| *one.1) {
            if let Some(entry) = state.still(held) {
                state.table.mark_clean(entry.key(), entry.page);
            }
        }
        state.progress.note_synced(durable);
        drop(state);
        let failed = failed
            .into_iter()
            .map(|(_, error)| not_written_back(volume)(error));
        brought.failure.or(failed.last()).map_or(Ok(()), Err)
    }
}

impl State {
    /// These blocks with their patches, as they are now: one that has another page since it was looked at is brought from there. What is
    /// clean by now, or gone, is left out.
    fn to_be_brought(&self, blocks: &[Entry]) -> Vec<Held> {
        let now = |entry: &Entry| match mutated(Mutant::SsdRoundWritesWhatWas) {
            true => self.held(*entry),
            false => {
                let now = self.table.get(entry.key());
                now.filter(|now| !now.is_clean())
                    .map(|now| self.held_now(now))
            }
        };
        let mut held: Vec<Held> = blocks.iter().filter_map(now).collect();
        if mutated(Mutant::SsdBroughtWithoutPatch) {
            held.iter_mut().for_each(|held| held.patched = None);
        }
        held
    }
}

/// The error of a volume's backing that does not take what is dirty.
pub(crate) fn not_written_back(volume: u32) -> impl Fn(io::Error) -> LogError {
    move |source| LogError::Backing {
        volume,
        action: "write back",
        source,
    }
}
