//! Scrub: all that the pool holds is looked at, both halves of each block and all copies of the metadata, and repaired
//! where that is possible.
//!
//! Blocks are looked at without a lock, as readers do, and a second time under their key's lock if a half is wrong
//! (`repair`). Lines of metadata are compared under the lock of whatever writes them; of the table, which is written from
//! DRAM by checkpoints, that is the checkpoint's, and what is written there is what a checkpoint would write.

use std::ops::Range;

use super::Engine;
use super::change::Outcome;
use super::repair::Repair;
use crate::error::Result;
use crate::media::copies::LineState;
use crate::media::entry::{Entry, RawEntry};
use crate::media::halves::Examined;
use crate::media::layout::{
    CheckpointLine, INCARNATION_BYTES, IncarnationLine, LINE_BYTES, SEAL_BYTES,
};
use crate::media::volumes;

/// Looks at a block that keeps changing before it is looked at under its lock.
const LOOKS_MAX: u32 = 4;

/// What a scrub found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScrubReport {
    /// Blocks that were looked at, each with all its copies. What several share counts for each.
    pub slots: u64,
    /// Blocks that were not right, and lines of metadata that differed between the members of a mirror.
    pub found: u64,
    /// Of these, what is right now: the wrong copy was written again.
    pub repaired: u64,
    /// Of these, blocks that the backing has, too: their copies here were dropped.
    pub dropped: u64,
    /// Of these, blocks of which a copy takes no write, or is on a page that the medium lost, and that were committed
    /// anew elsewhere.
    pub moved: u64,
    /// Of these, blocks that the backing lacks. Reading one is an error.
    pub lost: u64,
    /// What was right when it was looked at again; it is not among what was found.
    pub transient: u64,
    /// Everything was looked at; false where the caller ended it before.
    pub is_whole: bool,
}

impl ScrubReport {
    pub(super) fn note_line(&mut self, line: LineState) {
        match line {
            LineState::Same => {}
            LineState::Transient => self.transient += 1,
            LineState::Repaired => {
                self.found += 1;
                self.repaired += 1;
            }
            LineState::Unrepaired => self.found += 1,
        }
    }
}

impl Engine {
    /// Looks at the blocks of these entries, in the order of their slots. Returns how many bytes it read. With `evict`
    /// it reads them from the medium, whatever caches hold.
    ///
    /// # Errors
    /// The fence fails of a record that drops a block.
    pub(crate) fn scrub_entries(
        &self,
        entries: Range<u32>,
        evict: bool,
        report: &mut ScrubReport,
    ) -> Result<u64> {
        let slot_of = |index: &u32| {
            self.media()
                .sound(self.table.entries().load(*index))?
                .slot()
        };
        let mut places: Vec<(Option<u32>, u32)> =
            entries.map(|index| (slot_of(&index), index)).collect();
        places.sort_unstable();
        self.media()
            .read_slots_ahead(places.iter().filter_map(|(slot, _)| *slot));
        let mut block = vec![0; self.block_bytes()];
        let (mut bytes, mut evicted) = (0, None);
        for (at, (slot, index)) in places.iter().copied().enumerate() {
            // The next block's lines leave the caches while this one is looked at.
            self.media().end_evict();
            let next = places.get(at + 1).filter(|_| evict);
            let next = next.and_then(|(_, next)| self.begin_evict(*next));
            self.scrub_block(index, evict.then_some(evicted), &mut block, report)?;
            evicted = next;
            let halves = slot.map_or(0, |slot| self.media().half_count(slot));
            bytes += halves * block.len() as u64;
        }
        Ok(bytes)
    }

    /// Begins to evict the block of an entry, which it returns.
    fn begin_evict(&self, index: u32) -> Option<RawEntry> {
        let raw = self.table.entries().load(index);
        let entry = self.media().sound(raw)?;
        self.media().begin_evict_block(entry);
        self.table.prefetch(self.table.bucket(entry.key()));
        Some(raw)
    }

    /// With `evicted` it reads from the medium; the entry's block has been evicted if the entry is that one.
    fn scrub_block(
        &self,
        index: u32,
        evicted: Option<Option<RawEntry>>,
        block: &mut [u8],
        report: &mut ScrubReport,
    ) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            let raw = self.table.entries().load(index);
            if raw.is_free() {
                return Ok(());
            }
            let Some(entry) = self.media().sound(raw) else {
                report.slots += 1;
                self.note_lost(report);
                return Ok(());
            };
            let bucket = self.table.bucket(entry.key());
            let version = self.table.index().read_begin(bucket.stripe);
            if self.table.entries().load(index) != raw {
                continue;
            }
            if evicted.is_some_and(|evicted| evicted != Some(raw)) {
                self.media().evict_block(entry);
            }
            let is_right = matches!(self.media().examine(entry, block), Examined::Right);
            if !self.table.index().read_valid(bucket.stripe, version) {
                continue;
            }
            report.slots += 1;
            return match is_right {
                true => {
                    self.scrub_row(entry, evicted.is_some(), report);
                    Ok(())
                }
                false => self.scrub_wrong(entry, true, report),
            };
        }
        let raw = self.table.entries().load(index);
        let entry = self.media().sound(raw).filter(|entry| !entry.is_free());
        entry.map_or(Ok(()), |entry| {
            report.slots += 1;
            self.scrub_wrong(entry, false, report)
        })
    }

    /// Repairs a block, of which a half may be wrong, or was for certain.
    fn scrub_wrong(&self, seen: Entry, is_certain: bool, report: &mut ScrubReport) -> Result<()> {
        crate::sync::look_hint();
        match self.repair(seen) {
            Repair::Gone => {}
            Repair::Right => report.transient += u64::from(is_certain),
            Repair::Unrepaired => {
                report.found += 1;
                self.leave_bad_places()?;
                report.moved += u64::from(self.is_right_now(seen));
            }
            Repair::Repaired => {
                report.found += 1;
                report.repaired += 1;
            }
            Repair::Lost => self.scrub_lost(seen, report)?,
        }
        Ok(())
    }

    /// No copy of the block is right: it goes if the backing has it.
    fn scrub_lost(&self, seen: Entry, report: &mut ScrubReport) -> Result<()> {
        let key = seen.key();
        let (_, found) = self.table.peek(self.table.bucket(key), key);
        let is_same = |raw: RawEntry| raw == seen || raw == seen.as_clean();
        let Some((index, raw)) = found.filter(|(_, raw)| is_same(*raw)) else {
            // It was written anew.
            return Ok(());
        };
        if !self.is_replaceable(index, raw) {
            self.note_lost(report);
            return Ok(());
        }
        report.found += 1;
        if self.commit_mappings(&[self.eviction(seen.as_clean())])? == Outcome::Done(1) {
            self.tallies.mine().healed(1);
            report.dropped += 1;
        }
        Ok(())
    }

    /// Whether all copies of the key's block are right.
    fn is_right_now(&self, seen: Entry) -> bool {
        let (_, found) = self.table.peek(self.table.bucket(seen.key()), seen.key());
        let mut block = vec![0; self.block_bytes()];
        found
            .and_then(|(_, raw)| self.media().sound(raw))
            .is_none_or(|entry| matches!(self.media().examine(entry, &mut block), Examined::Right))
    }

    fn note_lost(&self, report: &mut ScrubReport) {
        self.tallies.mine().lost(1);
        report.found += 1;
        report.lost += 1;
    }

    /// Looks at so many lines of a table with seals, and compares those of a mirror's members. Returns how many bytes it read.
    ///
    /// # Errors
    /// The pool takes no more changes.
    pub(crate) fn scrub_table(
        &self,
        lines: Range<u32>,
        evict: bool,
        report: &mut ScrubReport,
    ) -> Result<u64> {
        let state = forebay_pmem::lock_or_yield(&self.checkpoint);
        let count = u64::from(lines.end - lines.start);
        for line in lines {
            // Before each: a pool that is closed may be another process's.
            self.check_writable()?;
            let in_dram = || self.table.entries().line(self.media(), line);
            let line = self.media().scrub_line(line, evict, in_dram, state.round);
            report.note_line(line);
        }
        let copies = self.media().metadata().count() as u64;
        Ok(copies * count * (LINE_BYTES + SEAL_BYTES))
    }

    /// Compares the lines of a mirror's members that are in use besides: of the incarnation, the checkpoint and the
    /// roster, and the superblocks.
    ///
    /// # Errors
    /// The pool takes no more changes.
    pub(crate) fn scrub_lines(&self, evict: bool, report: &mut ScrubReport) -> Result<()> {
        let state = forebay_pmem::lock_or_yield(&self.checkpoint);
        self.check_writable()?;
        let (media, number) = (self.media(), self.log.incarnation());
        let offset = media.geometry.incarnation_line((number % 2) as usize);
        let is_current = |raw: &[u8]| {
            let line = raw.try_into().ok().and_then(IncarnationLine::decode);
            line.is_some_and(|line| (line.incarnation, line.salt) == (number, self.log.salt().0))
        };
        report.note_line(media.settle_copies(offset, INCARNATION_BYTES, evict, is_current));
        let offset = media.geometry.checkpoint_line(state.next_line ^ 1);
        let is_current = |raw: &[u8]| {
            let line = raw.try_into().ok().and_then(CheckpointLine::decode);
            line.is_some_and(|line| {
                (line.incarnation, line.sequence, line.round())
                    == (number, state.sequence, state.round)
            })
        };
        report.note_line(media.settle_copies(offset, INCARNATION_BYTES, evict, is_current));
        report.note_line(media.settle_roster(evict));
        report.note_line(media.settle_bad_list(evict));
        report.note_line(media.settle_superblocks(evict));
        Ok(())
    }

    /// Compares the lines of a mirror's volumes, or the two of each in a pool of one copy. The caller keeps others from
    /// writing any.
    ///
    /// # Errors
    /// The pool takes no more changes.
    pub(crate) fn scrub_volumes(&self, evict: bool, report: &mut ScrubReport) -> Result<()> {
        for place in 0..self.media().geometry.volumes {
            self.check_writable()?;
            let line = volumes::settle_current(self.media(), place, evict);
            report.note_line(line);
            if matches!(line, LineState::Repaired | LineState::Unrepaired) {
                // Orders what was written again before the next description; and if it never was durable, the pool
                // takes none.
                self.fence_line()?;
            }
        }
        Ok(())
    }
}
