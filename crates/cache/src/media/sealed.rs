//! Seals of a table of one copy: whether each line is what was sent last.
//!
//! A line that does not fit its seal is damage, unless a crash met the round that sent it. To tell one from the other a
//! round has an order: first the seals of its lines, a fence, then the lines, a fence, then the checkpoint line with its
//! number. So after a crash a line is *under way* if its seal is of the round after the last whole one, or of the
//! recovery that followed; any other fits its seal or was damaged.
//!
//! Invariants, each before the stores of the next step:
//! * A seal is replaced only while its line fits it: a newer one would hide what the old one tells.
//! * A line is overwritten only once its new seal is durable.

use std::collections::BTreeSet;

use forebay_pmem::Region;

use crate::error::Result;
use crate::media::Media;
use crate::media::copies::{LineState, rewrite};
use crate::media::geometry::Geometry;
use crate::media::layout::{LINE_BYTES, SEAL_BYTES, with_each_bit_flipped};
use crate::media::seals::{Round, SEALS_PER_LINE, Seal, TableLine};
use crate::mutants::{Mutant, mutated};

/// Damaged lines of a table of which single bits are looked at: with more than these it is no flipped bit.
const MENDED_LINES_MAX: usize = 64;

/// What recovery found of lines that do not fit their seals, or that a crash may have met.
#[derive(Default, Debug)]
pub(crate) struct SealedLines {
    /// A round had begun to send them: each of their entries is as it was, or as it was to be.
    pub(crate) under_way: BTreeSet<u32>,
    /// They are not what was sent.
    pub(crate) lost: BTreeSet<u32>,
}

impl Media {
    /// Whether lines of the table have seals.
    #[inline]
    pub(crate) fn is_sealed(&self) -> bool {
        self.geometry.is_sealed()
    }
    /// Whether they do, and there is one copy of each.
    pub(crate) fn has_lone_seals(&self) -> bool {
        self.geometry.has_lone_seals
    }

    /// Of a new table of one copy: seals each line, all of which are empty; the seals are there after the next fence. Had
    /// empty lines none, zeroes that a misdirected write brings over seals would vouch for a table that was never sent.
    pub(crate) fn seal_empty_table(&self, round: Round) {
        if !self.has_lone_seals() {
            return;
        }
        for number in 0..self.table_lines() {
            self.store_seal(number, &[0; LINE_BYTES as usize], round);
        }
        self.send_seals_of(0..self.table_lines(), Region::flush);
    }

    /// The same medium, as long as lines may lack seals.
    pub(crate) fn without_all_seals(self) -> Media {
        let geometry = Geometry {
            has_all_seals: false,
            ..self.geometry
        };
        Media { geometry, ..self }
    }

    /// Sends lines, in ascending order, in a round; they are there after the next fence. The caller holds the
    /// checkpoint's lock.
    ///
    /// # Errors
    /// A fence fails.
    pub(crate) fn send_sealed(&self, lines: &[(u32, TableLine)], round: Round) -> Result<()> {
        let region = self.main();
        let mut is_any_wrong = false;
        self.forget_cached(lines.iter().map(|(number, _)| *number));
        for (number, line) in lines {
            if !self.fits_seal(region, *number) {
                region.stream(self.table_line_offset(*number), line);
                is_any_wrong = true;
            }
        }
        if is_any_wrong {
            // Orders what is right before the seals that hide what was wrong.
            self.fence()?;
        }
        for (number, line) in lines {
            self.store_seal(*number, line, round);
        }
        self.send_seals_of(lines.iter().map(|(number, _)| *number), Region::flush);
        if !mutated(Mutant::LoneSealWithLine) {
            // Orders the seals before their lines: a line that a crash tears is known to be under way.
            self.fence()?;
        }
        for (number, line) in lines {
            region.stream(self.table_line_offset(*number), line);
        }
        Ok(())
    }

    /// Has lines and their seals loaded from the medium: a cache hides a write that was lost.
    fn forget_cached(&self, numbers: impl Iterator<Item = u32>) {
        let region = self.main();
        for number in numbers {
            region.begin_evict(self.table_line_offset(number), LINE_BYTES as usize);
            region.begin_evict(self.geometry.seal_offset(number), SEAL_BYTES as usize);
        }
        region.end_evict();
    }

    /// Has `send` send each line of seals once that has one of these, which ascend.
    fn send_seals_of(
        &self,
        numbers: impl Iterator<Item = u32>,
        send: impl Fn(&Region, u64, usize),
    ) {
        let mut last = None;
        for line_of_seals in numbers.map(|number| number / SEALS_PER_LINE) {
            if last != Some(line_of_seals) {
                let (offset, len) = self.line_of_seals(u64::from(line_of_seals));
                send(self.main(), offset, len);
                last = Some(line_of_seals);
            }
        }
    }

    /// Looks whether a line fits its seal. If it does not, also at the second look, both are written again: the line from
    /// DRAM, as a checkpoint may at any time. The caller holds the checkpoint's lock.
    pub(super) fn scrub_lone_line(
        &self,
        number: u32,
        evict: bool,
        in_dram: impl FnOnce() -> TableLine,
        round: Round,
    ) -> LineState {
        let region = self.main();
        let (line, place) = (
            self.table_line_offset(number),
            self.geometry.seal_offset(number),
        );
        let is_right = |evict| {
            if evict {
                region.evict(line, LINE_BYTES as usize);
                region.evict(place, SEAL_BYTES as usize);
            }
            self.fits_seal(region, number)
        };
        if is_right(evict) {
            return LineState::Same;
        }
        if is_right(true) {
            return LineState::Transient;
        }
        let right = in_dram();
        // In this order: until the seal fits, the line is known to be wrong.
        match rewrite(region, line, &right) {
            LineState::Repaired => {
                let seal = Seal::new(&right, number, round);
                rewrite(region, place, &seal.0.to_le_bytes())
            }
            unrepaired => unrepaired,
        }
    }

    /// Recovery: compares each line with its seal. One flipped bit in either is put right, durably with the next fence.
    /// `round` is the last that is whole.
    pub(crate) fn examine_sealed(&self, round: Round) -> SealedLines {
        let region = self.main();
        let mut found = SealedLines::default();
        self.forget_cached(0..self.table_lines());
        for number in 0..self.table_lines() {
            let seal = self.seal(region, number);
            if seal.round() == round.next() || seal.round() == round.of_recovery() {
                found.under_way.insert(number);
                continue;
            }
            let is_right = self.fits_seal(region, number)
                || found.lost.len() < MENDED_LINES_MAX && self.mend_sealed(number, seal);
            if !is_right {
                found.lost.insert(number);
            }
        }
        found
    }

    /// Whether a line or its seal has one flipped bit, which is put right.
    fn mend_sealed(&self, number: u32, seal: Seal) -> bool {
        let region = self.main();
        let place = self.geometry.seal_offset(number);
        let line = self.table_line(region, number);
        let flipped = (0..SEAL_BYTES * 8).map(|bit| Seal(seal.0 ^ 1 << bit));
        let is_right = |seal: &Seal| self.vouches(*seal, &line, number);
        if let Some(right) = flipped.into_iter().find(is_right) {
            region.store_u64(place, right.0);
            self.flush_found(region, place, SEAL_BYTES as usize);
            return true;
        }
        let right = with_each_bit_flipped(&line).find(|right| self.vouches(seal, right, number));
        right.is_some_and(|right| {
            let offset = self.table_line_offset(number);
            region.store(offset, &right);
            self.flush_found(region, offset, right.len());
            true
        })
    }

    /// Recovery: seals lines, which ascend, as they will be, before they are stored to. Each is a line's number with its
    /// content.
    ///
    /// # Errors
    /// The fence fails.
    pub(crate) fn seal_ahead(&self, lines: &[(u32, TableLine)], round: Round) -> Result<()> {
        for (number, line) in lines {
            self.store_seal(*number, line, round);
        }
        let numbers = lines.iter().map(|(number, _)| *number);
        self.send_seals_of(numbers, |region, offset, len| {
            self.flush_found(region, offset, len);
        });
        // Orders the seals before their lines.
        self.fence()
    }

    /// Recovery: a line of the table as it stands.
    pub(crate) fn found_table_line(&self, number: u32) -> TableLine {
        self.table_line(self.main(), number)
    }
    /// Recovery: sends a line of the table, whoever stored it.
    pub(crate) fn flush_found_table_line(&self, number: u32) {
        self.flush_found(
            self.main(),
            self.table_line_offset(number),
            LINE_BYTES as usize,
        );
    }
}
