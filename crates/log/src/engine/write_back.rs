//! Writing a volume back: everything dirty of it that is published when the round begins, then a sync, then its clean point.

use super::core::Log;
use crate::backing::Backing;
use crate::error::{LogError, Result};
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};
use crate::state::{Entry, ZeroRange};
use std::io;

/// What is to be brought to a backing. Each of its functions is called once, in their order, by the thread that maintains
/// the log.
pub struct Round {
    volume: u32,
    /// Sequence of the last element that was published when it began.
    sequence: u64,
    zeroes: Vec<ZeroRange>,
    blocks: Vec<Entry>,
    has_failed: bool,
}

/// Zeroes and blocks that were written to a backing, of one volume.
#[derive(Default)]
pub(crate) struct Brought {
    pub(crate) zeroes: Vec<ZeroRange>,
    pub(crate) blocks: Vec<Entry>,
    /// Why others were not.
    pub(crate) failure: Option<io::Error>,
}

impl Log {
    /// Writes a volume back and moves its clean point.
    ///
    /// # Errors
    /// The backing or the device fails; what was written and synced is clean nevertheless.
    pub fn write_back(&self, volume: u32) -> Result<()> {
        let _alone = self.maintain();
        let mut round = self.begin_round(volume);
        self.write_round(&mut round)?;
        self.finish_round(round)
    }

    /// Notes what is dirty.
    pub fn begin_round(&self, volume: u32) -> Round {
        let mut state = self.lock();
        let sequence = state.published;
        let is_dirty = |entry: &Entry| entry.key().volume == volume && !entry.is_clean();
        let round = Round {
            volume,
            sequence,
            zeroes: state.zeroed.of_volume(volume),
            blocks: state.table.iter().filter(is_dirty).collect(),
            has_failed: false,
        };
        if mutated(Mutant::SsdCleanPointBeforeSync) {
            state.points.advance(volume, sequence + 1);
        }
        round
    }

    /// Writes it. What fails is left out, and the clean point stays where it is.
    ///
    /// # Errors
    /// The device fails, or the volume has no backing.
    pub fn write_round(&self, round: &mut Round) -> Result<()> {
        let backing = self.backing_or_error(round.volume)?;
        let dirty = (
            std::mem::take(&mut round.zeroes),
            std::mem::take(&mut round.blocks),
        );
        let brought = self.bring(&*backing, dirty)?;
        round.has_failed = brought.failure.is_some();
        (round.zeroes, round.blocks) = (brought.zeroes, brought.blocks);
        Ok(())
    }

    /// Syncs the backing; what is still as it was written is clean from now on.
    ///
    /// # Errors
    /// The sync failed: nothing is clean by it. Or something was not written.
    pub fn finish_round(&self, round: Round) -> Result<()> {
        let volume = round.volume;
        let backing = self.backing_or_error(volume)?;
        self.sync_brought((volume, &*backing), &round.zeroes, &round.blocks)?;
        if round.has_failed && !mutated(Mutant::SsdCleanPointPastFailed) {
            let error = io::Error::other("some of its blocks were not written");
            return Err(not_written_back(volume)(error));
        }
        // Every element of the volume up to this one is on its backing, or one that is newer is dirty.
        self.lock().points.advance(volume, round.sequence + 1);
        Ok(())
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
        let mut brought = Brought::default();
        for range in zeroes {
            match backing.zero(range.first.block, range.count) {
                Ok(()) => brought.zeroes.push(range),
                Err(error) => brought.failure = Some(error),
            }
        }
        let mut bytes = Pages::zeroed(1);
        for entry in blocks {
            self.load_entry(entry, &mut bytes[..PAGE_BYTES])?;
            match backing.write(entry.key().block, &bytes) {
                Ok(()) => brought.blocks.push(entry),
                Err(error) => brought.failure = Some(error),
            }
        }
        Ok(brought)
    }

    /// Syncs what was written to a backing; what has not changed since is clean from then on.
    pub(crate) fn sync_brought(
        &self,
        (volume, backing): (u32, &dyn Backing),
        zeroes: &[ZeroRange],
        blocks: &[Entry],
    ) -> Result<()> {
        let synced = backing.sync();
        synced.map_err(not_written_back(volume))?;
        let mut state = self.lock();
        for range in zeroes {
            state
                .zeroed
                .remove(range.first, range.count, Some(range.sequence));
        }
        for entry in blocks {
            state.table.mark_clean(entry.key(), entry.page);
        }
        Ok(())
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
