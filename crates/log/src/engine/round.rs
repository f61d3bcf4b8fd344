//! Writing a volume back: everything dirty of it that is published when the round begins, then a sync, then its clean point.
//!
//! A round goes by steps. Between two of them it passes its turn on, if another thread waits to recycle, clean or write back:
//! so a slow backing holds up the others for one step, not for a whole volume. A watcher is told between two turns, by a thread that
//! has none: it may do all that a caller may, a wait for room among it. What holds then:
//!
//! 1. Nothing that was written to a backing is unsynced when a turn ends: the sync of another round, or its failure, is never
//!    taken for that of this one.
//! 2. What is written is what the table has in the turn in which it is read and written. Its page cannot be reused before the turn
//!    ends, and no other thread has given the backing anything newer. What was cleaned meanwhile is on its backing; what was carried
//!    forward or overwritten is written from where it is now.
//! 3. So at the end each element up to the one with which the round began is on the backing, or one is dirty that is newer than
//!    all of these. The clean point moves past these alone, and a failure that was noted since the round began stays noted.

use super::core::{Log, State};
use super::maintained::Maintained;
use super::turns::Turn;
use super::write_back::{BROUGHT_AT_ONCE, Brought};
use crate::error::{LogError, Result};
use crate::media::Key;
use crate::mutants::{Mutant, mutated};
use crate::state::{Entry, ZeroRange, take_pieces};
use crate::transaction::check;
use std::time::{Duration, Instant};

/// Steps under a watcher before it is told again, which costs a sync; after so long it is told earlier.
const STEPS_WATCHED: usize = 4;
const WATCHED_EVERY: Duration = Duration::from_secs(1);

/// What is to be brought to a backing. Each of its functions is called in their order, by the thread that maintains
/// the log; before the first step and after a pause others may have had a turn.
pub struct Round {
    volume: u32,
    /// Sequence of the last element that was published when it began; none if it is about some blocks alone.
    sequence: Option<u64>,
    /// Failures that had been noted when it began.
    failures_seen: u64,
    /// What is still to be written, the last block first.
    zeroes: Vec<ZeroRange>,
    blocks: Vec<Entry>,
    /// What an earlier step found in place of these, and was more than it could write. Of it only what is still so is written: what has
    /// become of it since is newer than the round, or it would never end.
    late: (Vec<ZeroRange>, Vec<Entry>),
    /// What is, and is not synced.
    brought: Brought,
    /// Why something that was to be written is dirty.
    failure: Option<LogError>,
}

impl Round {
    /// How many blocks are still to be written.
    #[must_use]
    pub fn left(&self) -> u64 {
        (self.blocks.len() + self.late.1.len()) as u64
    }

    /// Everything is written, or was left out.
    fn is_written(&self) -> bool {
        let noted = self.zeroes.is_empty() && self.blocks.is_empty();
        noted && self.late.0.is_empty() && self.late.1.is_empty()
    }

    /// Nothing is left to be written or synced, and nothing failed.
    fn has_nothing(&self) -> bool {
        self.is_written() && self.brought.is_empty() && self.failure.is_none()
    }
}

impl Log {
    /// Writes a volume back and moves its clean point.
    ///
    /// # Errors
    /// The backing or the device fails; what was written and synced is clean nevertheless.
    pub fn write_back(&self, volume: u32) -> Result<()> {
        let turn = self.maintain();
        let round = self.note_dirty(&turn, volume);
        self.run_round(turn, round)
    }

    /// As [`Log::write_back`]; `go_on` is told before each few megabytes and at the end how many blocks are left, and says whether to
    /// go on. It is called by a thread that has no turn, so it may use the log in every way.
    /// False if it was stopped: what was written by then is synced and clean.
    ///
    /// # Errors
    /// As those of [`Log::write_back`].
    pub fn write_back_watched(
        &self,
        volume: u32,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let mut round = self.begin_round(volume);
        let mut goes_on = go_on(round.left());
        while goes_on && !round.is_written() {
            self.write_for_a_turn(&mut round)?;
            goes_on = go_on(round.left());
        }
        match goes_on {
            true => self
                .conclude_round(&mut self.maintain(), round)
                .map(|()| true),
            false => round.failure.map_or(Ok(false), Err),
        }
    }

    /// Writes those of these blocks back that are dirty, or in ranges of zeroes, and syncs.
    ///
    /// # Errors
    /// As those of [`Log::write_back`]; or there is no such block, and nothing was written.
    pub fn write_back_blocks(&self, volume: u32, blocks: &[u64]) -> Result<()> {
        let keys = blocks.iter().map(|block| check(volume, *block, 1));
        let keys: Vec<Key> = keys.collect::<Result<_>>()?;
        let turn = self.maintain();
        let window = self.options.zeroed_at_once_blocks;
        let (zeroes, blocks) = self.lock().dirty_of(keys.into_iter(), window);
        let round = self.round_of(volume, (zeroes, blocks));
        if round.has_nothing() {
            return Ok(());
        }
        self.run_round(turn, round)
    }

    /// Writes all of a volume back, in one turn.
    pub(crate) fn write_back_whole(&self, maintained: &mut Maintained, volume: u32) -> Result<()> {
        let mut round = self.note_dirty(maintained, volume);
        self.write_round(&mut round)?;
        self.end_round(maintained, round)
    }

    fn run_round(&self, mut turn: Turn<'_>, mut round: Round) -> Result<()> {
        while self.write_some(&mut round)? {
            if self.turns.is_wanted() {
                self.pause_round(&mut round)?;
                turn = turn.pass();
            }
        }
        self.conclude_round(&mut turn, round)
    }

    /// Some steps, until another thread wants its turn, and a sync.
    fn write_for_a_turn(&self, round: &mut Round) -> Result<()> {
        let _turn = self.maintain();
        let began = Instant::now();
        for _ in 0..STEPS_WATCHED {
            let is_over = self.turns.is_wanted() || began.elapsed() > WATCHED_EVERY;
            if !self.write_some(round)? || is_over {
                break;
            }
        }
        self.pause_round(round)
    }

    fn conclude_round(&self, maintained: &mut Maintained, round: Round) -> Result<()> {
        if round.has_nothing() && self.backing(round.volume).is_none() {
            // There is nothing to be synced; what the clean point says stays as it is.
            return Ok(());
        }
        self.end_round(maintained, round)
    }

    /// Notes what is dirty.
    pub fn begin_round(&self, volume: u32) -> Round {
        self.note_dirty(&self.maintain(), volume)
    }

    fn note_dirty(&self, maintained: &Maintained, volume: u32) -> Round {
        let mut state = self.lock();
        let sequence = state.published;
        let is_dirty = |entry: &Entry| entry.key().volume == volume && !entry.is_clean();
        let blocks: Vec<Entry> = state.table.iter().filter(is_dirty).collect();
        let zeroes = state.zeroed.of_volume(volume);
        if mutated(Mutant::SsdCleanPointBeforeSync) {
            state.points.advance(volume, sequence + 1);
        }
        drop(state);
        Round {
            sequence: Some(sequence),
            failures_seen: maintained.failures(),
            ..self.round_of(volume, (zeroes, blocks))
        }
    }

    fn round_of(&self, volume: u32, dirty: (Vec<ZeroRange>, Vec<Entry>)) -> Round {
        let (mut zeroes, mut blocks) = dirty;
        zeroes.reverse();
        blocks.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.key()));
        Round {
            volume,
            sequence: None,
            failures_seen: 0,
            zeroes,
            blocks,
            late: Default::default(),
            brought: Brought::default(),
            failure: None,
        }
    }

    /// Writes it. What fails is left out, and the clean point stays where it is.
    ///
    /// # Errors
    /// The device fails, or the volume has no backing.
    pub fn write_round(&self, round: &mut Round) -> Result<()> {
        while self.write_some(round)? {}
        Ok(())
    }

    /// Writes some of it, as it is now; false if nothing was left.
    pub(super) fn write_some(&self, round: &mut Round) -> Result<bool> {
        if round.is_written() {
            return Ok(false);
        }
        let has_late = !round.late.0.is_empty() || !round.late.1.is_empty();
        let (zeroes, blocks) = match has_late {
            true => (&mut round.late.0, &mut round.late.1),
            false => (&mut round.zeroes, &mut round.blocks),
        };
        let blocks = blocks.split_off(blocks.len().saturating_sub(BROUGHT_AT_ONCE));
        let most = (BROUGHT_AT_ONCE, self.options.zeroed_at_once_blocks);
        let zeroes = take_pieces(zeroes, most);
        let mut dirty = match has_late {
            true => self.lock().still_dirty(&zeroes, &blocks),
            false => self.lock().dirty_now(zeroes, blocks, most.1),
        };
        // A range stays in the table until it is synced, and each block that was in it brings it along.
        let brought = &round.brought.zeroes;
        dirty.0.retain(|range| !brought.contains(range));
        // A range of which much was written since became more than a step has.
        dirty.0.reverse();
        let zeroes = take_pieces(&mut dirty.0, most);
        round.late.0.append(&mut dirty.0);
        dirty.0 = zeroes;
        put_back(&mut dirty.1, &mut round.late.1);
        if dirty.0.is_empty() && dirty.1.is_empty() {
            return Ok(true);
        }
        let backing = self.backing_or_error(round.volume)?;
        let brought = self.bring(&*backing, dirty)?;
        round.brought.zeroes.extend(brought.zeroes);
        round.brought.blocks.extend(brought.blocks);
        round.failure = brought.failure.or(round.failure.take());
        let unsynced = round.brought.zeroes.iter().map(|range| range.count);
        if unsynced.sum::<u64>() >= most.1 {
            // So that no sync has more to do than a step has.
            self.pause_round(round)?;
        }
        Ok(true)
    }

    /// Syncs what was written so far, so that the turn may end (1).
    ///
    /// # Errors
    /// The volume has no backing.
    pub(super) fn pause_round(&self, round: &mut Round) -> Result<()> {
        if round.brought.is_empty() {
            return Ok(());
        }
        let backing = self.backing_or_error(round.volume)?;
        let brought = std::mem::take(&mut round.brought);
        if let Err(error) = self.sync_brought((round.volume, &*backing), brought) {
            round.failure = Some(error);
        }
        assert!(round.brought.is_empty(), "a turn ends synced");
        Ok(())
    }

    /// Syncs the backing; what is still as it was written is clean from now on.
    ///
    /// # Errors
    /// The sync failed: nothing is clean by it. Or something was not written.
    pub fn finish_round(&self, round: Round) -> Result<()> {
        self.end_round(&mut self.maintain(), round)
    }

    fn end_round(&self, maintained: &mut Maintained, mut round: Round) -> Result<()> {
        let volume = round.volume;
        let backing = self.backing_or_error(volume)?;
        let brought = std::mem::take(&mut round.brought);
        let synced = self.sync_brought((volume, &*backing), brought);
        let ended = round.failure.map_or(Ok(()), Err).and(synced);
        if ended.is_err() && !mutated(Mutant::SsdCleanPointPastFailed) {
            return ended;
        }
        if let Some(sequence) = round.sequence {
            self.lock().points.advance(volume, sequence + 1);
            maintained.note_whole(volume, round.failures_seen);
        }
        Ok(())
    }
}

/// Keeps as much as one step writes, and gives the rest back to what is left.
fn put_back<T>(dirty: &mut Vec<T>, left: &mut Vec<T>) {
    if dirty.len() > BROUGHT_AT_ONCE {
        left.extend(dirty.drain(BROUGHT_AT_ONCE..).rev());
    }
}

impl State {
    /// What of these blocks is dirty: the entries, and of the ranges of zeroes that they are in as much as lies in their windows.
    fn dirty_of(
        &self,
        keys: impl Iterator<Item = Key>,
        window: u64,
    ) -> (Vec<ZeroRange>, Vec<Entry>) {
        let (mut zeroes, mut blocks) = (Vec::new(), Vec::new());
        for key in keys {
            let entry = self.table.get(key).filter(|entry| !entry.is_clean());
            blocks.extend(entry);
            zeroes.extend(self.zeroed.piece(key, window));
        }
        zeroes.sort_unstable_by_key(|range: &ZeroRange| range.first);
        zeroes.dedup();
        (zeroes, blocks)
    }

    /// What of this is still so, or newer blocks in its place: no more blocks than were given, and ranges of zeroes within those alone.
    fn still_dirty(&self, zeroes: &[ZeroRange], blocks: &[Entry]) -> (Vec<ZeroRange>, Vec<Entry>) {
        let parts = zeroes.iter();
        let parts = parts.flat_map(|range| self.zeroed.within(range.first, range.count));
        let entries = blocks.iter().filter_map(|one| self.table.get(one.key()));
        let entries = entries.filter(|entry| !entry.is_clean());
        (parts.collect(), entries.collect())
    }

    /// What has become of what was dirty in an earlier turn, as far as it is dirty.
    fn dirty_now(
        &self,
        zeroes: Vec<ZeroRange>,
        blocks: Vec<Entry>,
        window: u64,
    ) -> (Vec<ZeroRange>, Vec<Entry>) {
        if mutated(Mutant::SsdRoundWritesWhatWas) {
            return (zeroes, blocks);
        }
        let (mut zeroes_now, mut blocks_now) =
            self.dirty_of(blocks.iter().map(|one| one.key()), window);
        for range in zeroes {
            let parts = self.zeroed.within(range.first, range.count);
            if parts != [range] {
                // Some of it was written since, or zeroed again: newer, and perhaps dirty.
                let entries = self.table.in_range(range.first, range.count);
                blocks_now.extend(entries.into_iter().filter(|entry| !entry.is_clean()));
            }
            zeroes_now.extend(parts);
        }
        zeroes_now.sort_unstable_by_key(|range| range.first);
        zeroes_now.dedup();
        blocks_now.sort_unstable_by_key(|entry| entry.key());
        blocks_now.dedup();
        (zeroes_now, blocks_now)
    }
}
