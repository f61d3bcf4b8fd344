//! Writing a volume back: everything dirty of it that is published when the round begins, then a sync, then its clean point.

use super::core::Log;
use super::maintained::Maintained;
use crate::backing::Backing;
use crate::error::{LogError, Result};
use crate::media::Key;
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};
use crate::state::{Entry, ZeroRange};
use std::io;

/// Blocks that are read and given to a backing at once.
const BROUGHT_AT_ONCE: usize = 256;

/// What is to be brought to a backing. Each of its functions is called in their order, by the thread that maintains
/// the log.
pub struct Round {
    volume: u32,
    /// Sequence of the last element that was published when it began.
    sequence: u64,
    /// What is still to be written, the last block first.
    dirty: (Vec<ZeroRange>, Vec<Entry>),
    /// What is.
    brought: Brought,
}

/// Zeroes and blocks that were written to a backing, of one volume.
#[derive(Default)]
pub(crate) struct Brought {
    pub(crate) zeroes: Vec<ZeroRange>,
    pub(crate) blocks: Vec<Entry>,
    /// Why others were not.
    pub(crate) failure: Option<LogError>,
}

impl Round {
    /// How many blocks are still to be written.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.dirty.1.len() as u64
    }

    /// Nothing was dirty.
    fn has_nothing(&self) -> bool {
        let Brought {
            zeroes,
            blocks,
            failure,
        } = &self.brought;
        let (zeroes_left, blocks_left) = &self.dirty;
        zeroes.is_empty()
            && blocks.is_empty()
            && failure.is_none()
            && zeroes_left.is_empty()
            && blocks_left.is_empty()
    }
}

impl Log {
    /// Writes a volume back and moves its clean point.
    ///
    /// # Errors
    /// The backing or the device fails; what was written and synced is clean nevertheless.
    pub fn write_back(&self, volume: u32) -> Result<()> {
        self.write_back_watched(volume, &mut |_| true).map(drop)
    }

    /// As [`Log::write_back`]; `go_on` is told before each few blocks and at the end how many are left, and says whether to go on.
    /// False if it was stopped: what was written by then is synced and clean.
    ///
    /// # Errors
    /// As those of [`Log::write_back`].
    pub fn write_back_watched(
        &self,
        volume: u32,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let mut maintained = self.maintain();
        let mut round = self.begin_round(volume);
        let mut goes_on = go_on(round.left());
        while goes_on && self.write_some(&mut round, BROUGHT_AT_ONCE)? {
            goes_on = go_on(round.left());
        }
        if round.has_nothing() && self.backing(volume).is_none() {
            // There is nothing to be synced; what the clean point says stays as it is.
            return Ok(goes_on);
        }
        if !goes_on {
            let backing = self.backing_or_error(volume)?;
            self.sync_brought((volume, &*backing), round.brought)?;
            return Ok(false);
        }
        self.finish_round(round)?;
        maintained.note_whole(volume);
        Ok(true)
    }

    /// Writes all of a volume back.
    pub(crate) fn write_back_whole(&self, maintained: &mut Maintained, volume: u32) -> Result<()> {
        let mut round = self.begin_round(volume);
        self.write_round(&mut round)?;
        self.finish_round(round)?;
        maintained.note_whole(volume);
        Ok(())
    }

    /// Writes those of these blocks back that are dirty, or in ranges of zeroes, and syncs.
    ///
    /// # Errors
    /// As those of [`Log::write_back`].
    pub fn write_back_blocks(&self, volume: u32, blocks: &[u64]) -> Result<()> {
        let _alone = self.maintain();
        let mut dirty: (Vec<ZeroRange>, Vec<Entry>) = Default::default();
        {
            let state = self.lock();
            for block in blocks {
                let key = Key {
                    volume,
                    block: *block,
                };
                let entry = state.table.get(key).filter(|entry| !entry.is_clean());
                dirty.1.extend(entry);
                dirty.0.extend(state.zeroed.get(key));
            }
        }
        dirty.0.sort_unstable_by_key(|range| range.first);
        dirty.0.dedup();
        if dirty.0.is_empty() && dirty.1.is_empty() {
            return Ok(());
        }
        let backing = self.backing_or_error(volume)?;
        let brought = self.bring(&*backing, dirty)?;
        self.sync_brought((volume, &*backing), brought)
    }

    /// Notes what is dirty.
    pub fn begin_round(&self, volume: u32) -> Round {
        let mut state = self.lock();
        let sequence = state.published;
        let is_dirty = |entry: &Entry| entry.key().volume == volume && !entry.is_clean();
        let mut blocks: Vec<Entry> = state.table.iter().filter(is_dirty).collect();
        let zeroes = state.zeroed.of_volume(volume);
        if mutated(Mutant::SsdCleanPointBeforeSync) {
            state.points.advance(volume, sequence + 1);
        }
        drop(state);
        blocks.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.key()));
        Round {
            volume,
            sequence,
            dirty: (zeroes, blocks),
            brought: Brought::default(),
        }
    }

    /// Writes it. What fails is left out, and the clean point stays where it is.
    ///
    /// # Errors
    /// The device fails, or the volume has no backing.
    pub fn write_round(&self, round: &mut Round) -> Result<()> {
        while self.write_some(round, BROUGHT_AT_ONCE)? {}
        Ok(())
    }

    /// Writes some of it; false if nothing was left.
    fn write_some(&self, round: &mut Round, most: usize) -> Result<bool> {
        if round.dirty.0.is_empty() && round.dirty.1.is_empty() {
            return Ok(false);
        }
        let backing = self.backing_or_error(round.volume)?;
        let blocks = &mut round.dirty.1;
        let some = blocks.split_off(blocks.len().saturating_sub(most));
        let zeroes = std::mem::take(&mut round.dirty.0);
        let brought = self.bring(&*backing, (zeroes, some))?;
        round.brought.zeroes.extend(brought.zeroes);
        round.brought.blocks.extend(brought.blocks);
        round.brought.failure = brought.failure.or(round.brought.failure.take());
        Ok(true)
    }

    /// Syncs the backing; what is still as it was written is clean from now on.
    ///
    /// # Errors
    /// The sync failed: nothing is clean by it. Or something was not written.
    pub fn finish_round(&self, round: Round) -> Result<()> {
        let volume = round.volume;
        let backing = self.backing_or_error(volume)?;
        let synced = self.sync_brought((volume, &*backing), round.brought);
        if synced.is_err() && !mutated(Mutant::SsdCleanPointPastFailed) {
            return synced;
        }
        // Every element of the volume up to this one is on its backing, or one that is newer is dirty.
        self.lock().points.advance(volume, round.sequence + 1);
        Ok(())
    }

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
        (zeroes, mut blocks): (Vec<ZeroRange>, Vec<Entry>),
    ) -> Result<Brought> {
        let mut brought = Brought::default();
        for range in zeroes {
            match backing.zero(range.first.block, range.count) {
                Ok(()) => brought.zeroes.push(range),
                Err(error) => {
                    let failed = not_written_back(range.first.volume);
                    brought.failure = Some(failed(error));
                }
            }
        }
        // Backings are fastest in the order of their blocks.
        blocks.sort_unstable_by_key(|entry| entry.key());
        for some in blocks.chunks(BROUGHT_AT_ONCE) {
            self.bring_some(backing, some, &mut brought)?;
        }
        Ok(brought)
    }

    fn bring_some(
        &self,
        backing: &dyn Backing,
        blocks: &[Entry],
        brought: &mut Brought,
    ) -> Result<()> {
        let mut bytes = Pages::zeroed(blocks.len());
        let mut whole = Vec::with_capacity(blocks.len());
        for (entry, bytes) in blocks.iter().zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            match self.load_entry(*entry, bytes) {
                Ok(()) => whole.push((*entry, &*bytes)),
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
            .map(|(entry, bytes)| (entry.key().block, *bytes));
        let written = backing.write_many(&given.collect::<Vec<_>>());
        assert_eq!(written.len(), whole.len(), "a result for each block");
        for ((entry, _), written) in whole.iter().zip(written) {
            match written {
                Ok(()) => brought.blocks.push(*entry),
                Err(error) => {
                    brought.failure = Some(not_written_back(entry.key().volume)(error));
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
        let written = brought.blocks.iter().map(|entry| entry.key().block);
        let blocks: Vec<u64> = zeroed.chain(written).collect();
        let failed = backing.sync_of(&blocks).map_err(not_written_back(volume))?;
        let mut is_durable = vec![true; blocks.len()];
        for (place, _) in &failed {
            is_durable[*place] = false;
        }
        let (zeroes, written) = is_durable.split_at(brought.zeroes.len());
        let mut state = self.lock();
        for (range, _) in brought.zeroes.iter().zip(zeroes).filter(|one| *one.1) {
            state
                .zeroed
                .remove(range.first, range.count, Some(range.sequence));
        }
        for (entry, _) in brought.blocks.iter().zip(written).filter(|one| *one.1) {
            state.table.mark_clean(entry.key(), entry.page);
        }
        drop(state);
        let failed = failed
            .into_iter()
            .map(|(_, error)| not_written_back(volume)(error));
        brought.failure.or(failed.last()).map_or(Ok(()), Err)
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
