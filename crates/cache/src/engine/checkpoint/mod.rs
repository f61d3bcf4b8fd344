//! The checkpoint: what the table holds durably, the log need not repeat.
//!
//! One S for all lanes: a lane that forgot earlier than another would let replay of an old record
//! undo newer ones. The steps carry the numbers of `docs/inside/protocol.md`.

mod sender;
mod state;
mod touched;

use std::ops::Range;

use forebay_pmem::Region;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::log::read_record;
use crate::log::record::{SmallRecord, elements_of, read_back_one, sequence_of};
use crate::media::layout::{CheckpointLine, LINE_BYTES, ScrubMark};
use crate::media::seals::Round;
use crate::mutants::{Mutant, mutated};
use crate::sync::{AtomicU64, Ordering};
use crate::table::index::ENTRIES_PER_LINE;
use sender::LineSender;
use touched::Touched;

pub(crate) use state::CheckpointState;

/// The log is prefetched so far ahead of what is read.
const READ_AHEAD_BYTES: u64 = 1024;

impl Engine {
    /// Makes everything published so far durable in place, then frees its log space.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.repair_suspects();
        self.leave_bad_places()?;
        self.checkpoint_locked(&mut forebay_pmem::lock_or_yield(&self.checkpoint))
    }

    /// A checkpoint by a thread that holds its lock and nothing else.
    pub(crate) fn checkpoint_locked(&self, state: &mut CheckpointState) -> Result<()> {
        self.check_writable()?;
        // Steps 1 to 3: every record below `positions` has a sequence of at most `sequence`.
        let positions = self.log.lanes().published_positions();
        let passing = mutated(Mutant::CheckpointPassesInFlight);
        let is_dead = || self.poisoned.load(Ordering::Relaxed);
        let Some(sequence) = self.log.lanes().settle(passing, is_dead) else {
            return self.check_writable();
        };
        assert!(sequence >= state.sequence, "S only rises");
        if sequence == state.sequence {
            // Nothing was drawn since. What was published while the last checkpoint waited is covered
            // by its S already, but only now known to be.
            self.log.lanes().advance_tails(&positions);
            return self.send_unlogged_from_dram(state);
        }
        if mutated(Mutant::LaneReusedBeforeCheckpoint) {
            self.log.lanes().advance_tails(&positions);
        }
        // Step 4. Ends taken after the wait: every record up to `sequence` lies below them.
        let covered = state.sequence + 1..sequence + 1;
        let round = state.round.next();
        self.flush_touched(&self.log.lanes().published_positions(), covered, round)?;
        if !mutated(Mutant::CheckpointFenceRemoved) {
            // Orders table and in-place lines before the S that makes their records needless. A
            // crash before it leaves the old S and all records since.
            self.fence()?;
        }
        self.end_round(state, sequence)?;
        state.sequence = sequence;
        state.count += 1;
        // Step 6.
        self.log.lanes().advance_tails(&positions);
        Ok(())
    }

    /// Step 5, after a round of lines of the table.
    fn end_round(&self, state: &mut CheckpointState, sequence: u64) -> Result<()> {
        if self.media().is_sealed() {
            state.round = state.round.next();
        }
        self.store_checkpoint_line(state, sequence)
    }

    /// The older of two lines: a torn one leaves the other.
    fn store_checkpoint_line(&self, state: &mut CheckpointState, sequence: u64) -> Result<()> {
        let (incarnation, salt) = (self.log.incarnation(), self.log.salt());
        let sizes = self.media().geometry.sizes();
        let line = CheckpointLine::new(incarnation, salt, sequence, sizes, self.scrub_mark());
        let line = line.after_round(state.round);
        let line = match self.media().is_mirrored() {
            true => line.confirmed(),
            false => line,
        };
        let offset = self.media().geometry.checkpoint_line(state.next_line);
        self.media().on_metadata(|region| {
            region.store(offset, &line.encode());
            region.flush(offset, LINE_BYTES as usize);
        });
        // Orders S before any reuse of the bytes that it frees.
        self.fence()?;
        state.next_line ^= 1;
        Ok(())
    }

    /// How scrubs stand, as the next checkpoint will say.
    pub(crate) fn scrub_mark(&self) -> ScrubMark {
        *forebay_pmem::lock_or_yield(&self.scrub)
    }
    /// Says how scrubs stand; durable with the next checkpoint.
    pub(crate) fn set_scrub_mark(&self, mark: ScrubMark) {
        *forebay_pmem::lock_or_yield(&self.scrub) = mark;
    }
    /// Makes durable how scrubs stand, beside the S that is.
    ///
    /// # Errors
    /// The fence fails; the pool takes no more changes.
    pub(crate) fn save_scrub_mark(&self) -> Result<()> {
        let mut state = forebay_pmem::lock_or_yield(&self.checkpoint);
        self.check_writable()?;
        let sequence = state.sequence;
        self.store_checkpoint_line(&mut state, sequence)
    }

    /// What changed without a record gets from DRAM to the medium by checkpoints alone, so also by one that has no
    /// record to forget.
    fn send_unlogged_from_dram(&self, state: &mut CheckpointState) -> Result<()> {
        let is_set = |word: &AtomicU64| word.load(Ordering::Relaxed) != 0;
        let lines = self.table.unlogged_lines();
        if !self.table.entries().are_in_dram() || !lines.iter().any(is_set) {
            return Ok(());
        }
        self.send_lines(&[], state.round.next())?;
        // Orders these lines before what the next checkpoint sends of them, and before the end of their round.
        self.fence()?;
        self.end_unlogged_round(state)
    }

    /// Ends a round that has no record to forget.
    fn end_unlogged_round(&self, state: &mut CheckpointState) -> Result<()> {
        match self.media().is_sealed() {
            true => self.end_round(state, state.sequence),
            false => Ok(()),
        }
    }

    /// Sends the table's lines that changed without a record, and these: a bit each.
    fn send_lines(&self, logged: &[u64], round: Round) -> Result<()> {
        let mut sender = LineSender::new(self, round);
        let logged = logged.iter().chain(std::iter::repeat(&0));
        for (number, (word, logged)) in (0..).zip(self.table.unlogged_lines().iter().zip(logged)) {
            let mut bits = *logged;
            if word.load(Ordering::Relaxed) != 0 {
                // AcqRel: the thread that marked a line stored it before.
                bits |= word.swap(0, Ordering::AcqRel);
            }
            sender.send(number, bits, false)?;
        }
        sender.finish()
    }

    /// Sends every line with a clean entry to the medium; they are there after the next fence. Blocks become clean
    /// without a record, so no checkpoint sends them otherwise, and a process that was killed may have
    /// left theirs in a cache.
    ///
    /// # Errors
    /// The fence fails that a table in DRAM needs.
    pub(crate) fn send_clean_entries(&self) -> Result<()> {
        let entries = self.table.entries();
        // The next to send, a checkpoint, must not have loaded lines before.
        let mut sending = entries
            .are_in_dram()
            .then(|| forebay_pmem::lock_or_yield(&self.checkpoint));
        let round = sending
            .as_ref()
            .map_or(Round::default(), |state| state.round);
        let mut sender = LineSender::new(self, round.next());
        let lines = self.media().geometry.entries / ENTRIES_PER_LINE;
        for line in 0..lines {
            let mut in_line = line * ENTRIES_PER_LINE..(line + 1) * ENTRIES_PER_LINE;
            // What is not sound may be a clean one that the medium has changed since.
            let may_be_clean = |index| {
                let raw = entries.load(index);
                !raw.is_free() && self.media().sound(raw).is_none_or(|entry| entry.is_clean())
            };
            if in_line.any(may_be_clean) {
                sender.send(line / 64, 1 << (line % 64), true)?;
            }
        }
        sender.finish()?;
        sending.as_deref_mut().map_or(Ok(()), |state| {
            // Orders these lines before what the next thread sends of them, and before the end of their round.
            self.fence()?;
            self.end_unlogged_round(state)
        })
    }

    /// Sends every line of the table and flushes every one of slots that a published change touched. What has a
    /// record is found by reading the log below `ends`; the rest marked its lines itself. Each of the sequences
    /// `covered` has one record there: were one missed, S would pass a change that is not durable.
    fn flush_touched(&self, ends: &[u64], covered: Range<u64>, round: Round) -> Result<()> {
        if mutated(Mutant::CheckpointFlushSkipped) {
            return Ok(());
        }
        let mut touched = Touched::new(
            self.table.unlogged_lines().len(),
            self.media().trailer_offset(),
            self.media().slots(),
            covered,
        );
        for (lane, end) in (0..).zip(ends) {
            self.mark_logged(lane, *end, &mut touched)?;
        }
        if touched.missing_records() != 0 {
            return Err(self.log_damaged(format!(
                "{} of the records since the last checkpoint were changed by the media",
                touched.missing_records()
            )));
        }
        self.send_lines(touched.table_lines(), round)?;
        if mutated(Mutant::DeltaLinesNotFlushed) {
            return Ok(());
        }
        touched.slot_runs(|slot, first, lines| {
            let line = LINE_BYTES as usize;
            self.media()
                .flush_slot(slot, first as usize * line, lines * line);
        });
        Ok(())
    }

    /// Collects the lines that the lane's records below `end` touched. Committers need not keep any list
    /// of them, so nothing they do after their fence waits for it.
    fn mark_logged(&self, lane: u32, end: u64, touched: &mut Touched) -> Result<()> {
        let lane_bytes = self.log.lanes().lane_bytes();
        let base = self.media().geometry.lane_offset(lane);
        let region = self.media().main();
        let mut position = self.log.lanes().tail(lane);
        let mut small = SmallRecord::new();
        let mut raw = Vec::new();
        while position < end {
            let offset = position % lane_bytes;
            region.prefetch_read(base + offset + READ_AHEAD_BYTES);
            // Nearly all are short, and a writer has the processor that this takes no longer than it must.
            let tag = self.log.salt().tag(lane, position);
            let one = read_back_one(region, base + offset, tag, self.log.salt());
            if let Some((sequence, index)) = one {
                touched.note_record(sequence);
                touched.note_entry(index);
                position += self.log.lanes().aligned(LINE_BYTES);
                continue;
            }
            let room_bytes = lane_bytes - offset;
            if small.read_back(region, base + offset, room_bytes, tag, self.log.salt())
                && small.elements().all(|element| touched.note(element))
            {
                touched.note_record(small.sequence());
                position += self.log.lanes().aligned(small.bytes());
                continue;
            }
            let mut copies = self.media().metadata();
            if copies.any(|region| self.mark_any(region, lane, position, &mut raw, touched)) {
                position += self.log.lanes().aligned(raw.len() as u64);
                continue;
            }
            // A record that did not fit left the end of the lap alone; or the media changed this one, and
            // then there are too few.
            let next_lap = position - offset + lane_bytes;
            if offset == 0 || next_lap >= end {
                return Err(self.log_damaged(format!(
                    "lane {lane}: the record at position {position} was changed by the media"
                )));
            }
            position = next_lap;
        }
        Ok(())
    }

    /// Collects the lines that the record at `position` touched, whatever its kind; false if none is there.
    fn mark_any(
        &self,
        region: &Region,
        lane: u32,
        position: u64,
        raw: &mut Vec<u8>,
        touched: &mut Touched,
    ) -> bool {
        let geometry = &self.media().geometry;
        let offset = position % geometry.lane_bytes;
        let found = read_record(region, geometry, self.log.salt(), lane, offset, raw);
        let mut elements = elements_of(raw).filter(|_| found == Some(position));
        let is_noted = |elements: &mut _| Iterator::all(elements, |e| touched.note(e));
        let is_there = elements.as_mut().is_some_and(is_noted);
        if is_there {
            touched.note_record(sequence_of(raw));
        }
        is_there
    }

    /// The log of the running incarnation cannot be read back: nothing may be forgotten any more.
    fn log_damaged(&self, found: String) -> Error {
        self.poison();
        let path = self.path();
        ErrorKind::Damaged { path, found }.into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Backing, MemoryStore, Pool, PoolOptions, Region};

    /// A checkpoint that was interrupted between looking at the lanes' ends and drawing its bound
    /// covers more records than it releases; if nothing else is drawn, the next one releases them.
    #[test]
    fn covered_records_leave_the_log_also_if_nothing_came_after_them() {
        let mut options = PoolOptions::default();
        options.format.block_bytes = 128;
        options.format.unit_bytes = 256;
        options.format.volumes = 2;
        options.format.lanes = Some(1);
        options.format.lane_bytes = Some(512);
        options.runtime.background = false;
        let pool = Pool::create_on(vec![Region::shadow(64 << 10)], &options).expect("create");
        let store = Arc::new(MemoryStore::new(4096));
        let volume = pool.attach(Backing::from_store(store)).expect("attach");
        let engine = volume.memory().expect("in memory").pipeline.engine();
        while engine.log.lanes().used_per_mille() < 900 {
            volume.write(1, &[1; 128]).expect("write");
        }
        engine.checkpoint.lock().expect("no panic").sequence = engine.log.lanes().last_sequence();
        volume.write(1, &[2; 128]).expect("the log has room again");
    }
}
