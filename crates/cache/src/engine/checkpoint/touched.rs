//! Which lines the records since the last checkpoint changed in place.

use std::ops::Range;

use crate::log::record::{ElementKind, RawElement};
use crate::media::layout::{LINE_BYTES, PARTIAL_TRAILER_BYTES};
use crate::table::index::ENTRIES_PER_LINE;

/// Slots' lines that are remembered as touched lately.
const LATELY: usize = 64;
/// No line.
const NONE: u64 = u64::MAX;

/// See the module.
pub(super) struct Touched {
    /// One bit for each line of the entry table.
    table_lines: Vec<u64>,
    /// Slots and numbers of lines in them; one that was touched again and again stands there once, or a
    /// few times.
    slot_lines: Vec<u64>,
    /// The last of them with each hash: records that follow each other mostly touch the same lines.
    lately: [u64; LATELY],
    /// Where the slots' trailers are.
    trailer_offset: usize,
    /// How many slots there are.
    slots: u32,
    /// The sequences that a checkpoint covers, and how many records of them were found.
    covered: Range<u64>,
    found: u64,
}

impl Touched {
    /// Nothing yet, of a table of so many words of lines.
    pub(super) fn new(
        table_words: usize,
        trailer_offset: usize,
        slots: u32,
        covered: Range<u64>,
    ) -> Touched {
        Touched {
            table_lines: vec![0; table_words],
            slot_lines: Vec::new(),
            lately: [NONE; LATELY],
            trailer_offset,
            slots,
            covered,
            found: 0,
        }
    }

    /// Adds a record.
    #[inline]
    pub(super) fn note_record(&mut self, sequence: u64) {
        self.found += u64::from(self.covered.contains(&sequence));
    }

    /// How many records of those sequences were not among them. Each has one.
    pub(super) fn missing_records(&self) -> u64 {
        (self.covered.end - self.covered.start).abs_diff(self.found)
    }

    /// Adds the entry that a record of one whole block changed.
    #[inline]
    pub(super) fn note_entry(&mut self, index: u32) {
        let line = index / ENTRIES_PER_LINE;
        self.table_lines[line as usize / 64] |= 1 << (line % 64);
    }

    /// Adds what a record's element changed in place; false if there is none.
    #[inline]
    pub(super) fn note(&mut self, element: Option<RawElement>) -> bool {
        let Some(element) = element else {
            return false;
        };
        self.note_entry(element.index);
        if element.kind != ElementKind::Whole {
            self.note_bytes(element);
        }
        true
    }

    /// Apart: most elements are whole blocks.
    #[inline(never)]
    fn note_bytes(&mut self, element: RawElement) {
        let (offset, len) = match element.kind {
            ElementKind::Whole => return,
            ElementKind::Delta { offset, len } => (usize::from(offset), usize::from(len)),
            ElementKind::Append { .. } => (self.trailer_offset, PARTIAL_TRAILER_BYTES),
        };
        // Sound or not: a line too many is flushed, none too few.
        if let Some(slot) = element.entry.named_slot(self.slots) {
            let line = LINE_BYTES as usize;
            for number in offset / line..(offset + len).div_ceil(line) {
                self.note_slot_line(u64::from(slot) << 32 | number as u64);
            }
        }
    }

    #[inline]
    fn note_slot_line(&mut self, line: u64) {
        let place = &mut self.lately[(line ^ line >> 32) as usize % LATELY];
        if *place != line {
            *place = line;
            self.slot_lines.push(line);
        }
    }

    /// The lines of the entry table, a bit each.
    pub(super) fn table_lines(&self) -> &[u64] {
        &self.table_lines
    }

    /// Calls `visit` with each run of neighbouring lines of a slot: the slot, the first line, how many.
    pub(super) fn slot_runs(self, mut visit: impl FnMut(u32, u32, usize)) {
        let mut lines = self.slot_lines;
        lines.sort_unstable();
        lines.dedup();
        // No slot has as many lines as would reach the next one's number.
        for run in lines.chunk_by(|one, next| one + 1 == *next) {
            visit((run[0] >> 32) as u32, run[0] as u32, run.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::Element;
    use crate::media::entry::{Entry, Key};

    #[test]
    fn every_touched_line_is_in_one_run() {
        let mut touched = Touched::new(2, 4088, 100, 5..8);
        (3..7).for_each(|sequence| touched.note_record(sequence));
        assert_eq!(touched.missing_records(), 1);
        let element = |slot, index, kind| Element {
            entry: Entry::data(Key::new(1, 1), slot, 7),
            index,
            kind,
        };
        let element = |slot, index, kind| RawElement::from(element(slot, index, kind));
        let delta = |offset, len| ElementKind::Delta { offset, len };
        for _ in 0..3 {
            for (slot, index, kind) in [
                (5, 0, ElementKind::Append { valid_bytes: 9 }),
                (6, 1, delta(0, 8)),
                (6, 1, delta(60, 8)),
                // The same place in the memory of what was touched lately.
                (6 ^ 64, 300, delta(0, 8)),
                (9, 7, ElementKind::Whole),
            ] {
                assert!(touched.note(Some(element(slot, index, kind))));
            }
        }
        assert!(!touched.note(None));
        assert_eq!(touched.table_lines(), [0b11, 1 << (300 / 4 - 64)]);
        let mut runs = Vec::new();
        touched.slot_runs(|slot, first, lines| runs.push((slot, first, lines)));
        assert_eq!(runs, [(5, 63, 1), (6, 0, 2), (6 ^ 64, 0, 1)]);
    }
}
