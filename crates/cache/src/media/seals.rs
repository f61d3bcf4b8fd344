//! Seals of the entry table of a mirror: of copies of a line that differ, which one was sent last. (Of a table of one
//! copy: whether it is what was sent last; `sealed.rs`.)
//!
//! A lost or misdirected write leaves a line that was right once, and nothing in it tells. So each line has a seal: the
//! round in which it was sent, and a check of both. Lines are sent in rounds, one at a time, each of which ends with a
//! checkpoint line that has its number. A mirror's seal is one value, kept on every member, and goes with its line,
//! before the first fence of a checkpoint: an old seal beside a new S would vouch for an old line.
//!
//! * Of copies that differ, the one counts that fits a seal, and of several such the one of the newest round. A crash that
//!   met a checkpoint may leave copies of which none fits, or different ones of one round: then entries tell
//!   (`recovery/base.rs`), which is enough, since the positions that its records name are not asked for.
//! * Before a line is sent its copies are compared, and a wrong one is made right and fenced first (`settle_line`). Else
//!   a crash could tear the right ones while the wrong one stands.

use forebay_pmem::Region;

use crate::media::Media;
use crate::media::copies::{LineState, are_same_lines};
use crate::media::layout::{ENTRY_BYTES, LINE_BYTES, SEAL_BYTES};

/// A line of four entries.
pub(crate) type TableLine = [u8; LINE_BYTES as usize];

pub(super) const SEALS_PER_LINE: u32 = (LINE_BYTES / SEAL_BYTES) as u32;

/// The number of a round of lines.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Round(pub(crate) u32);

impl Round {
    /// Then they begin again: a checkpoint line has 31 bits for it.
    const COUNT: u32 = 1 << 31;

    pub(crate) fn next(self) -> Round {
        Round((self.0 + 1) % Round::COUNT)
    }
    /// What recovery sends: newer than the round that a crash met.
    pub(crate) fn of_recovery(self) -> Round {
        self.next().next()
    }
    /// Whether it came after that one, which is at most half of all rounds older.
    pub(crate) fn is_newer_than(self, other: Round) -> bool {
        let from = self.0.wrapping_sub(other.0) % Round::COUNT;
        (1..Round::COUNT / 2).contains(&from)
    }
}

/// What vouches for a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seal(pub(super) u64);

impl Seal {
    /// Of lines that were never sent, which are empty. With one copy these have seals, too.
    const NONE: Seal = Seal(0);

    pub(super) fn new(line: &TableLine, number: u32, round: Round) -> Seal {
        let mut sealed = [0; LINE_BYTES as usize + 8];
        let (content, place) = sealed.split_at_mut(LINE_BYTES as usize);
        content.copy_from_slice(line);
        place[..4].copy_from_slice(&number.to_le_bytes());
        place[4..].copy_from_slice(&round.0.to_le_bytes());
        let crc = forebay_pmem::crc32c(&sealed);
        Seal(u64::from(crc) << 32 | u64::from(round.0))
    }
    pub(super) fn round(self) -> Round {
        Round(self.0 as u32)
    }
    pub(super) fn fits(self, line: &TableLine, number: u32) -> bool {
        match self {
            Seal::NONE => line.iter().all(|byte| *byte == 0),
            seal => seal == Seal::new(line, number, seal.round()),
        }
    }
    fn is_newer_than(self, other: Seal) -> bool {
        match (self, other) {
            (Seal::NONE, _) => false,
            (_, Seal::NONE) => true,
            _ => self.round().is_newer_than(other.round()),
        }
    }
}

/// Of copies that are not all the same, the one that counts, and the seal that it fits; `None` if the seals do not tell.
fn judge<'l>(
    copies: impl IntoIterator<Item = &'l TableLine>,
    seals: &[Seal],
    number: u32,
) -> Option<(&'l TableLine, Seal)> {
    let newest = |copy: &TableLine| {
        let fitting = seals.iter().filter(|seal| seal.fits(copy, number));
        fitting
            .copied()
            .reduce(|one, other| match other.is_newer_than(one) {
                true => other,
                false => one,
            })
    };
    let mut counts: Option<(&TableLine, Seal)> = None;
    let mut is_told = false;
    for copy in copies {
        let Some(seal) = newest(copy) else { continue };
        match counts {
            Some((_, most)) if most.is_newer_than(seal) => {}
            Some((one, most)) if !seal.is_newer_than(most) => is_told &= one == copy,
            _ => (counts, is_told) = (Some((copy, seal)), true),
        }
    }
    counts.filter(|_| is_told)
}

impl Media {
    pub(super) fn table_line_offset(&self, number: u32) -> u64 {
        self.geometry.entry_table + u64::from(number) * LINE_BYTES
    }
    pub(super) fn table_lines(&self) -> u32 {
        (u64::from(self.geometry.entries) * ENTRY_BYTES / LINE_BYTES) as u32
    }
    /// A member's copy of a line of the table.
    pub(super) fn table_line(&self, region: &Region, number: u32) -> TableLine {
        let mut line = [0; LINE_BYTES as usize];
        region.read(self.table_line_offset(number), &mut line);
        line
    }
    pub(super) fn seal(&self, region: &Region, number: u32) -> Seal {
        Seal(region.load_u64(self.geometry.seal_offset(number)))
    }
    /// Whether a member's copy of a line fits its seal.
    pub(super) fn fits_seal(&self, region: &Region, number: u32) -> bool {
        let line = self.table_line(region, number);
        self.vouches(self.seal(region, number), &line, number)
    }
    /// Whether a seal fits a line. None fits an empty one, unless each has a seal.
    pub(super) fn vouches(&self, seal: Seal, line: &TableLine, number: u32) -> bool {
        let is_missing = seal == Seal::NONE && self.geometry.has_all_seals;
        !is_missing && seal.fits(line, number)
    }
    fn is_same_line(&self, one: &Region, other: &Region, number: u32) -> bool {
        are_same_lines(one, other, self.table_line_offset(number), LINE_BYTES)
    }

    /// Stores the seal of a line that is sent in this round. [`Media::flush_seals`] sends it.
    pub(super) fn store_seal(&self, number: u32, line: &TableLine, round: Round) {
        let seal = Seal::new(line, number, round);
        let offset = self.geometry.seal_offset(number);
        self.on_metadata(|region| region.store_u64(offset, seal.0));
    }
    /// Sends the seals of the lines in this line of seals; they are there after the next fence.
    pub(crate) fn flush_seals(&self, line_of_seals: u64) {
        let (offset, len) = self.line_of_seals(line_of_seals);
        self.on_metadata(|region| region.flush(offset, len));
    }
    pub(super) fn line_of_seals(&self, line_of_seals: u64) -> (u64, usize) {
        let offset = self.geometry.seals + line_of_seals * LINE_BYTES;
        let rest = (self.geometry.lane_area - offset).min(LINE_BYTES);
        (offset, rest as usize)
    }

    /// Streams a line of the table to each member, and stores its seal if the pool has any.
    #[cold]
    pub(crate) fn stream_table_line(&self, number: u32, line: &TableLine, round: Round) {
        if self.is_mirrored() {
            self.settle_line(number);
        }
        let offset = self.table_line_offset(number);
        self.on_metadata(|region| region.stream(offset, line));
        if self.is_mirrored() {
            self.store_seal(number, line, round);
        }
    }

    /// Makes copies of a line equal before both are overwritten. The caller holds the checkpoint's lock.
    fn settle_line(&self, number: u32) {
        let complete = self.complete();
        let (one, others) = complete.split_first().expect("one is complete");
        let differs = |other: &&Region| !self.is_same_line(one, other, number);
        if others.iter().any(differs) {
            // Where the seals do not tell, a crash left all in flux, and each is as good as the others.
            self.settle_by_seals(number, false);
        }
    }

    /// Compares copies of a line, and makes those that are wrong right if the seals tell which.
    fn settle_by_seals(&self, number: u32, evict: bool) -> LineState {
        let judged = |raw: &[u8]| {
            let (copies, seals) = self.copies_and_seals(&self.complete(), number);
            let judged = judge(&copies, &seals, number);
            judged.is_some_and(|(right, _)| right == raw)
        };
        self.settle_copies(
            self.table_line_offset(number),
            LINE_BYTES as usize,
            evict,
            judged,
        )
    }

    /// Of each member its copy of a line, and of the line's seal.
    fn copies_and_seals(&self, members: &[&Region], number: u32) -> (Vec<TableLine>, Vec<Seal>) {
        let copies = members.iter().map(|region| self.table_line(region, number));
        let seals = members.iter().map(|region| self.seal(region, number));
        (copies.collect(), seals.collect())
    }

    /// Compares the seals of a line whose copies are equal, and makes a wrong one right.
    fn settle_seals(&self, number: u32, evict: bool) -> LineState {
        let line = self.table_line(self.main(), number);
        let fits = |raw: &[u8]| {
            let raw = raw.try_into().map(u64::from_le_bytes);
            raw.is_ok_and(|raw| Seal(raw).fits(&line, number))
        };
        let offset = self.geometry.seal_offset(number);
        self.settle_copies(offset, SEAL_BYTES as usize, evict, fits)
    }

    /// Compares all copies of a line, and all of its seal. If no seal tells which is right, or the copies are equal and
    /// fit none, as when all members lost it, they are written anew: from DRAM, as a checkpoint may at any time. The
    /// caller holds the checkpoint's lock.
    pub(crate) fn scrub_line(
        &self,
        number: u32,
        evict: bool,
        in_dram: impl FnOnce() -> TableLine,
        round: Round,
    ) -> LineState {
        if self.has_lone_seals() {
            return self.scrub_lone_line(number, evict, in_dram, round);
        }
        if self.complete().len() == 1 {
            return LineState::Same;
        }
        let state = match self.settle_by_seals(number, evict) {
            LineState::Same => self.settle_seals(number, evict),
            settled => settled,
        };
        match state == LineState::Unrepaired || !self.are_sealed(number) {
            true => self.rewrite_sealed(number, &in_dram(), round),
            false => state,
        }
    }

    /// Whether each member's copy of a line fits its seal.
    fn are_sealed(&self, number: u32) -> bool {
        self.metadata().all(|region| self.fits_seal(region, number))
    }

    /// Writes a line and its seal to each member, one after the other.
    fn rewrite_sealed(&self, number: u32, line: &TableLine, round: Round) -> LineState {
        let written = self.rewrite_copies(self.table_line_offset(number), line);
        let seal = Seal::new(line, number, round);
        let sealed = self.rewrite_copies(self.geometry.seal_offset(number), &seal.0.to_le_bytes());
        match written {
            LineState::Repaired => sealed,
            written => written,
        }
    }

    /// Recovery: makes copies equal where the seals tell which is right, before anything rests on either. Durable with
    /// the next fence; until that the right one stands as it is, with the seal that says so. Returns how many there
    /// were.
    pub(crate) fn equalise_table(&self) -> u64 {
        let regions: Vec<&Region> = self.metadata().collect();
        let differ = |number: &u32| {
            let mut others = regions[1..].iter();
            others.any(|other| !self.is_same_line(regions[0], other, *number))
        };
        let mut equalised = 0;
        for number in (0..self.table_lines()).filter(differ) {
            let (copies, seals) = self.copies_and_seals(&regions, number);
            let Some((right, seal)) = judge(&copies, &seals, number) else {
                continue;
            };
            equalised += 1;
            let (line, place) = (
                self.table_line_offset(number),
                self.geometry.seal_offset(number),
            );
            for (region, copy) in regions.iter().zip(&copies) {
                if copy != right {
                    region.store(line, right);
                }
                region.store_u64(place, seal.0);
                self.flush_found(region, line, LINE_BYTES as usize);
                self.flush_found(region, place, SEAL_BYTES as usize);
            }
        }
        equalised
    }

    /// Recovery: seals every line that does not fit its seals as it stands now, for this round; and sends these seals and those
    /// of the lines that it has sent, whoever stored them. Else a seal of before, which a killed process replaced in a
    /// cache only, could vouch for a line of before. Durable with the next fence.
    pub(crate) fn reseal(&self, round: Round, sent: impl IntoIterator<Item = u32>) {
        let mut numbers: Vec<u32> = sent.into_iter().collect();
        let main = self.main();
        let others: Vec<&Region> = self.metadata().skip(1).collect();
        let is_sealed = |number: &u32| {
            let (line, seal) = (self.table_line(main, *number), self.seal(main, *number));
            let is_same = |other: &&Region| {
                self.seal(other, *number) == seal && self.is_same_line(main, other, *number)
            };
            seal.fits(&line, *number) && others.iter().all(is_same)
        };
        for number in (0..self.table_lines()).filter(|number| !is_sealed(number)) {
            let offset = self.geometry.seal_offset(number);
            self.on_metadata(|region| {
                let line = self.table_line(region, number);
                region.store_u64(offset, Seal::new(&line, number, round).0);
            });
            numbers.push(number);
        }
        numbers.sort_unstable();
        for together in numbers.chunk_by(|one, next| one / SEALS_PER_LINE == next / SEALS_PER_LINE)
        {
            let (offset, len) = self.line_of_seals(u64::from(together[0] / SEALS_PER_LINE));
            self.on_metadata(|region| self.flush_found(region, offset, len));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: TableLine = [1; 64];
    const NEW: TableLine = [2; 64];
    const TORN: TableLine = [3; 64];

    #[test]
    fn the_copy_that_was_sent_last_counts() {
        let seal = |line, round| Seal::new(&line, 7, Round(round));
        let (old, new) = (seal(OLD, Round::COUNT - 1), seal(NEW, 3));
        let winner = |copies: [&TableLine; 2], seals: [Seal; 2]| {
            let judged = judge(copies, &seals, 7);
            judged.map(|(right, _)| *right)
        };
        assert_eq!(winner([&OLD, &NEW], [new, new]), Some(NEW), "a lost write");
        assert_eq!(
            winner([&NEW, &OLD], [old, new]),
            Some(NEW),
            "also of a seal"
        );
        assert_eq!(winner([&OLD, &NEW], [old, old]), Some(OLD), "a crash");
        assert_eq!(winner([&OLD, &TORN], [new, old]), Some(OLD));
        assert_eq!(winner([&OLD, &TORN], [new, new]), None);
        assert_eq!(winner([&OLD, &NEW], [seal(OLD, 3), new]), None, "one round");
        assert_eq!(judge([&OLD, &NEW], &[new, new], 8), None, "another place");
    }

    #[test]
    fn of_three_copies_the_one_counts_that_was_sent_last() {
        let seal = |line, round| Seal::new(&line, 7, Round(round));
        let (old, new) = (seal(OLD, 2), seal(NEW, 3));
        let winner = |copies: [&TableLine; 3], seals: [Seal; 3]| {
            let judged = judge(copies, &seals, 7);
            judged.map(|(right, _)| *right)
        };
        let lost = [new, new, new];
        for copies in [[&OLD, &NEW, &NEW], [&NEW, &OLD, &NEW], [&NEW, &NEW, &OLD]] {
            assert_eq!(winner(copies, lost), Some(NEW), "one write was lost");
        }
        assert_eq!(winner([&OLD, &OLD, &NEW], lost), Some(NEW), "or two");
        assert_eq!(winner([&OLD, &TORN, &OLD], [old, new, old]), Some(OLD));
        assert_eq!(winner([&OLD, &TORN, &NEW], [old, new, old]), Some(NEW));
        assert_eq!(winner([&TORN, &TORN, &OLD], lost), None);
        let two = [seal(OLD, 3), new, new];
        assert_eq!(winner([&OLD, &NEW, &NEW], two), None, "two of one round");
    }

    #[test]
    fn empty_lines_need_no_seal() {
        let empty = [0; 64];
        let new = Seal::new(&NEW, 0, Round(9));
        assert!(Seal::NONE.fits(&empty, 0));
        assert!(!Seal::NONE.fits(&OLD, 0));
        assert_eq!(
            judge([&empty, &NEW], &[Seal::NONE, new], 0),
            Some((&NEW, new))
        );
        assert_eq!(
            judge([&empty, &TORN], &[Seal::NONE, new], 0),
            Some((&empty, Seal::NONE))
        );
    }
}
