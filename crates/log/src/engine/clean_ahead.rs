//! Writing back ahead of the tail: the oldest segments are cleaned one by one long before they are reused, so that a
//! writer that needs room finds them clean.

use super::core::Log;
use super::maintained::Maintained;
use super::recycle::Recycling;
use crate::error::{LogError, Result};
use crate::media::Key;
use crate::mutants::{Mutant, mutated};
use crate::state::Entry;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

impl Log {
    /// Writes back what the oldest segment that was not cleaned yet holds, and moves the clean points; false if there is
    /// none but the one that is written.
    ///
    /// # Errors
    /// The device fails; or a backing, after all others were written.
    pub fn clean_ahead(&self) -> Result<bool> {
        let mut maintained = self.maintain();
        if self.has_new_backing.swap(false, Ordering::AcqRel) {
            maintained.begin_again();
            self.cleaned.store(0, Ordering::Release);
        }
        let from = self.cleaned.load(Ordering::Acquire).max(self.lock().tail);
        let Some((mut recycling, end)) = self.sealed_segment(from)? else {
            return self.catch_up(&mut maintained);
        };
        let cleaned = self.clean_volumes(&mut recycling)?;
        self.cleaned.store(from + 1, Ordering::Release);
        for volume in cleaned.failures.keys() {
            maintained.note_behind(*volume);
        }
        if !mutated(Mutant::SsdCleanedPastRest) {
            // Its point stays below a range of which a piece is not zeroed.
            for volume in &cleaned.unfinished {
                maintained.note_behind(*volume);
            }
        }
        self.advance_points(&maintained, &recycling, end);
        match cleaned.failures.into_values().next() {
            Some(error) => Err(error),
            None => Ok(true),
        }
    }

    /// Nothing is left to be cleaned but what failed before: that is tried again, since no other step comes back to it. False if
    /// there is nothing that has a backing. A failure is told only where nothing was brought: else the caller, which pauses after it, would
    /// hold up the volumes that go on; where nothing is brought it has to pause.
    fn catch_up(&self, maintained: &mut Maintained) -> Result<bool> {
        let behind = maintained.behind();
        let behind: Vec<u32> = behind
            .filter(|volume| self.backing(*volume).is_some())
            .collect();
        let mut failure = None;
        let progress = self.progress();
        for volume in &behind {
            // Long ranges first, piece by piece; then what is more than a turn takes.
            let caught_up = match self.has_long_ranges(*volume) {
                true => self.zero_piece(*volume).map(drop),
                false => match self.next_piece(maintained, *volume) {
                    Some(blocks) => self.clean_volume(*volume, (Vec::new(), blocks)),
                    None => self.write_back_whole(maintained, *volume),
                },
            };
            match caught_up {
                Ok(()) => {}
                Err(
                    error @ (LogError::Backing { .. }
                    | LogError::Device { .. }
                    | LogError::Corrupt { .. }),
                ) => {
                    failure = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match failure {
            Some(error) if self.progress() == progress => Err(error),
            Some(_) => Ok(true),
            None => Ok(!behind.is_empty()),
        }
    }

    /// Of a volume that has more dirty blocks than one turn brings to a backing, the next that are; none if one turn brings all. Blocks that
    /// fail hold up none: the pieces go through the volume in the order of its blocks, and then from its beginning.
    fn next_piece(&self, maintained: &mut Maintained, volume: u32) -> Option<Vec<Entry>> {
        let most = self.options.zeroed_at_once_blocks as usize;
        loop {
            let blocks = maintained.take_piece(volume, most, || self.dirty_of(volume))?;
            // As they are now, which may be somewhere else, and clean.
            let state = self.lock();
            let entries = blocks
                .iter()
                .filter_map(|block| {
                    state.table.get(Key {
                        volume,
                        block: *block,
                    })
                })
                .filter(|entry| !entry.is_clean());
            let piece: Vec<Entry> = entries.collect();
            if !piece.is_empty() {
                return Some(piece);
            }
        }
    }

    /// The dirty blocks of a volume, by a look through the whole table.
    fn dirty_of(&self, volume: u32) -> Vec<u64> {
        let is_dirty = |entry: &Entry| entry.key().volume == volume && !entry.is_clean();
        let state = self.lock();
        let dirty = state.table.iter().filter(is_dirty);
        dirty.map(|entry| entry.key().block).collect()
    }

    /// How many of the oldest segments are cleaned.
    pub fn cleaned_ahead(&self) -> u64 {
        let cleaned = self.cleaned.load(Ordering::Acquire);
        match self.has_new_backing.load(Ordering::Acquire) {
            true => 0,
            false => cleaned.saturating_sub(self.lock().tail),
        }
    }

    /// Writes back what the oldest segment holds, and carries nothing forward; false if there is none but the one that is
    /// written. So it is seen whether backings that failed take it, without a write to the pool.
    ///
    /// # Errors
    /// As those of [`Log::clean_ahead`].
    pub fn clean_tail(&self) -> Result<bool> {
        let _alone = self.maintain();
        let Some(mut recycling) = self.begin_recycling()? else {
            return Ok(false);
        };
        let cleaned = self.clean_volumes(&mut recycling)?;
        cleaned.failures.into_values().next().map_or(Ok(true), Err)
    }

    /// Everything below `end` is on the backings that took everything, or is overwritten by something that is dirty and newer.
    fn advance_points(&self, maintained: &Maintained, recycling: &Recycling, end: u64) {
        let mut state = self.lock();
        let volumes: BTreeSet<u32> = recycling.volumes().collect();
        for volume in volumes {
            let is_behind = maintained.is_behind(volume);
            if !is_behind || mutated(Mutant::SsdCleanedPastFailed) {
                state.points.advance(volume, end);
            }
        }
    }

    /// A segment, if it has a summary, and the sequence after its last element.
    fn sealed_segment(&self, segment: u64) -> Result<Option<(Recycling, u64)>> {
        if !self.is_sealed(segment)? {
            return Ok(None);
        }
        let summary = self.read_summary(segment)?;
        let summary = summary.ok_or_else(|| LogError::Damaged {
            path: self.device.path().to_owned(),
            found: format!("the summary of segment {segment} does not hold"),
        })?;
        let end = summary.first_sequence + summary.elements.len() as u64;
        Ok(Some((Recycling::of(segment, summary.elements), end)))
    }

    /// Looks what the oldest segment holds.
    ///
    /// # Errors
    /// The device fails or has failed, or the segment's summary is damaged.
    pub fn begin_recycling(&self) -> Result<Option<Recycling>> {
        let tail = {
            let mut state = self.lock();
            // One that was begun in an earlier turn goes no further.
            state.rescue = None;
            state.tail
        };
        let found = self.sealed_segment(tail)?;
        if found.is_some() {
            // No patch joins any more that would keep a block of it where it is.
            self.lock().emptied = Some(tail);
        }
        Ok(found.map(|(recycling, _)| recycling))
    }
}
