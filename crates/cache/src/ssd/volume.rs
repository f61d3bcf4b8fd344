//! A volume of a pool on an SSD.

use std::ops::Range;
use std::sync::{Arc, RwLockReadGuard};

use forebay_log::{Log, LogError, PAGE_BYTES, Reading, Transaction};

use super::known::Known;
use super::shared::{OpenLog, Shared};
use crate::api::volume::runs_of;
use crate::background::volume_state::VolumeState;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Ordering;
use crate::tallies::Tallies;

/// When a transaction is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    /// When its commit returns.
    AtOnce,
    /// When a sync that begins later has returned.
    AfterSync,
}

/// A handle on a volume; all clones are the same.
#[derive(Clone)]
pub(crate) struct SsdVolume(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    known: Arc<Known>,
}

impl SsdVolume {
    pub(super) fn new(shared: Arc<Shared>, known: Arc<Known>) -> SsdVolume {
        SsdVolume(Arc::new(Handle { shared, known }))
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    pub(super) fn known(&self) -> &Arc<Known> {
        &self.0.known
    }

    pub(super) fn state(&self) -> &VolumeState {
        &self.0.known.state
    }

    pub(super) fn number(&self) -> u32 {
        self.0.known.number
    }

    pub(super) fn tallies(&self) -> &Tallies {
        &self.0.shared.tallies
    }

    pub(super) fn error(&self, error: LogError) -> Error {
        self.0.shared.error(error)
    }

    /// Begins a call: the volume stays, and the log stays open, for as long as what this returns is held.
    pub(super) fn enter(&self) -> Result<(RwLockReadGuard<'_, ()>, OpenLog<'_>)> {
        // The log first: a closed pool says so, whatever became of the volume.
        let log = self.0.shared.log()?;
        let entered = self.0.known.enter(&log)?;
        Ok((entered, log))
    }

    /// Begins a write-back of a volume that is there now. It may be detached meanwhile, which writes everything back: so nobody
    /// who uses the volume has to wait for the one that flushes it.
    pub(super) fn look_in(&self) -> Result<OpenLog<'_>> {
        let (_entered, log) = self.enter()?;
        Ok(log)
    }

    pub(crate) fn id(&self) -> u32 {
        self.state().id
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.state().path
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.state().size_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn block_size(&self) -> usize {
        PAGE_BYTES
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.size_bytes().div_ceil(PAGE_BYTES as u64)
    }

    pub(crate) fn transaction_limit_bytes(&self) -> u64 {
        self.0.shared.transaction_limit_bytes
    }

    /// All or nothing, cached or not: one element in the log.
    pub(crate) fn discard(&self, blocks: Range<u64>) -> Result<()> {
        let count = blocks.end.saturating_sub(blocks.start);
        let len = count.saturating_mul(PAGE_BYTES as u64);
        self.check_blocks(blocks.start, usize::try_from(len).unwrap_or(usize::MAX))?;
        let mut transaction = Transaction::new();
        let zeroed = transaction.zero(self.number(), blocks.start, count);
        zeroed.map_err(|error| self.error(error))?;
        self.commit(&transaction, Durable::AtOnce)?;
        self.tallies().mine().blocks_zeroed(count);
        Ok(())
    }

    pub(super) fn commit(&self, transaction: &Transaction, durable: Durable) -> Result<()> {
        self.enter_with_room(|log| match durable {
            Durable::AtOnce => log.commit(transaction.clone()),
            Durable::AfterSync => log.commit_unsynced(transaction.clone()),
        })?;
        if durable == Durable::AfterSync {
            self.0.shared.note_unsynced();
        }
        self.0.shared.tallies.mine().commits(1);
        Ok(())
    }

    /// Does what needs room, in the volume. A caller that waits for room has not entered, so that it holds up neither a detach nor the
    /// readers behind that; each attempt begins anew.
    fn enter_with_room(&self, act: impl Fn(&Log) -> Result<(), LogError>) -> Result<()> {
        // The log first: a closed pool says so, whatever became of the volume.
        let log = self.0.shared.log()?;
        let attempt = || match self.0.known.enter(&log) {
            Ok(_entered) => act(&log).map(Ok),
            Err(error) => Ok(Err(error)),
        };
        self.0.shared.with_room(&log, attempt)?
    }

    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.check_bytes(offset, out.len())?;
        crate::api::volume::read_bytes(offset, out, PAGE_BYTES, |block, out| self.read(block, out))
    }

    pub(super) fn read_backing(&self, block: u64, out: &mut [u8]) -> Result<()> {
        let backing = self.state().backing()?;
        let read = backing.read_at(block * PAGE_BYTES as u64, out);
        read.map_err(|source| self.state().backing_error(source))
    }

    pub(super) fn note_miss(&self, reading: &Reading, bytes: &[u8]) {
        let seen = (reading.block(), reading.version());
        self.0.shared.note_miss(&self.0.known, seen, bytes);
    }

    pub(crate) fn flush(&self) -> Result<()> {
        let log = self.look_in()?;
        log.write_back(self.number())
            .map_err(|error| self.error(error))
    }

    pub(crate) fn flush_blocks(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        let log = self.look_in()?;
        let blocks: Vec<u64> = self.runs_of(blocks)?.into_iter().flatten().collect();
        let written = log.write_back_blocks(self.number(), &blocks);
        written.map_err(|error| self.error(error))
    }

    pub(crate) fn forget_blocks(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        self.forget(blocks, Durable::AtOnce)
    }

    pub(crate) fn forget_blocks_unsynced(
        &self,
        blocks: impl IntoIterator<Item = u64>,
    ) -> Result<()> {
        self.forget(blocks, Durable::AfterSync)?;
        self.0.shared.note_unsynced();
        Ok(())
    }

    fn forget(&self, blocks: impl IntoIterator<Item = u64>, durable: Durable) -> Result<()> {
        // A closed pool says so, whatever the blocks are.
        drop(self.look_in()?);
        let ranges = joined(self.runs_of(blocks)?);
        // What is written while it waits goes as well, as if it was there before.
        self.enter_with_room(|log| match durable {
            Durable::AtOnce => log.forget(self.number(), &ranges),
            Durable::AfterSync => log.forget_unsynced(self.number(), &ranges),
        })
    }

    fn runs_of(&self, blocks: impl IntoIterator<Item = u64>) -> Result<Vec<Range<u64>>> {
        runs_of(blocks, |block| self.check_blocks(block, PAGE_BYTES))
    }

    pub(crate) fn may_have(&self, block: u64) -> Result<bool> {
        let (_entered, log) = self.enter()?;
        Ok(log.may_have(self.number(), block))
    }

    pub(super) fn check_blocks(&self, block: u64, len: usize) -> Result<()> {
        let count = (len / PAGE_BYTES) as u64;
        let is_whole = len > 0 && len.is_multiple_of(PAGE_BYTES);
        if is_whole && block.saturating_add(count) <= self.blocks() {
            return Ok(());
        }
        Err(ErrorKind::OutOfRange {
            volume: self.id(),
            what: format!(
                "{len} bytes from block {block}; blocks have {PAGE_BYTES} bytes, the volume {} blocks",
                self.blocks()
            ),
        }
        .into())
    }

    pub(super) fn check_bytes(&self, offset: u64, len: usize) -> Result<()> {
        if offset.saturating_add(len as u64) <= self.size_bytes() {
            return Ok(());
        }
        Err(ErrorKind::OutOfRange {
            volume: self.id(),
            what: format!(
                "{len} bytes at byte {offset}; the volume has {} bytes",
                self.size_bytes()
            ),
        }
        .into())
    }
}

/// Runs of blocks as ranges that are apart: where each begins, and how many blocks it has.
fn joined(mut runs: Vec<Range<u64>>) -> Vec<(u64, u64)> {
    runs.sort_unstable_by_key(|run| run.start);
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for run in runs {
        match ranges.last_mut() {
            Some((first, count)) if run.start <= *first + *count => {
                *count = (*count).max(run.end - *first);
            }
            _ => ranges.push((run.start, run.end - run.start)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_meet_or_overlap_are_one_range() {
        assert_eq!(joined(Vec::new()), []);
        let runs = vec![7..9, 0..2, 2..3, 1..2, 8..12, 20..21, 20..21];
        assert_eq!(joined(runs), [(0, 3), (7, 5), (20, 1)]);
    }
}
