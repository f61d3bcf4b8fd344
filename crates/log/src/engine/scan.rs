//! Walking through a segment group by group. A group counts if its record and every one of its blocks do; the first that
//! does not ends the walk, for what follows it was never acknowledged.

use super::pages::{first_of, read_pages};
use crate::device::{Device, copies};
use crate::error::{LogError, Result};
use crate::media::{
    CleanPoints, Element, Geometry, IncarnationLine, Record, SegmentHeader, Shape, check_of,
};
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};

/// Pages that are looked through at once.
const SCANNED_PAGES: u32 = 256;

/// What a walk found.
pub(crate) struct Walked {
    /// Where each group begins and ends.
    pub(crate) places: Vec<(u32, u32)>,
    pub(crate) elements: Vec<Element>,
    pub(crate) tail: u64,
    pub(crate) points: CleanPoints,
}

impl Walked {
    /// How many groups.
    pub(crate) fn groups(&self) -> u64 {
        self.places.len() as u64
    }
}

/// What is walked through. Of a device that is made of two a group counts that one of them has whole.
pub(crate) struct Scan<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) geometry: Geometry,
    /// The incarnation whose groups count.
    pub(crate) line: IncarnationLine,
}

impl Scan<'_> {
    /// The groups of a segment, from the first on.
    pub(crate) fn walk(&self, header: &SegmentHeader) -> Result<Walked> {
        let segment = header.segment;
        let mut walked = Walked {
            places: Vec::new(),
            elements: Vec::new(),
            tail: header.tail,
            points: header.points,
        };
        let mut at = 1;
        loop {
            let group = header.first_group + walked.groups();
            let sequence = header.first_sequence + walked.elements.len() as u64;
            let mut found = self.group_at((segment, at), Some((group, sequence)))?;
            if found.is_none() && mutated(Mutant::SsdGapSkipped) {
                found = self.any_group_from(segment, at)?;
            }
            let Some((next, record)) = found else {
                self.refuse_later(segment, at, group)?;
                return Ok(walked);
            };
            walked.places.push((at, next));
            at = next;
            walked.tail = walked.tail.max(record.tail);
            walked.points.join(&record.points);
            walked.elements.extend(record.elements);
        }
    }

    /// The record at a page, if it holds on one copy.
    fn record_at(&self, device: &dyn Device, (segment, at): (u64, u32)) -> Result<Option<Record>> {
        if at >= self.geometry.groups_end() {
            return Ok(None);
        }
        let salt = self.line.salt;
        let page = self.geometry.page_of(segment) + u64::from(at);
        let first = read_pages(device, page, 1)?;
        let count = Record::pages_of(salt, (segment, at), &first, self.geometry);
        let pages = match count {
            None => return Ok(None),
            Some(1) => first,
            Some(count) => read_pages(device, page, count)?,
        };
        Ok(Record::decode(salt, (segment, at), &pages, self.geometry))
    }

    /// The group at a page, if it counts and is the one that is expected there; where the next one begins.
    fn group_at(
        &self,
        place: (u64, u32),
        expected: Option<(u64, u64)>,
    ) -> Result<Option<(u32, Record)>> {
        first_of(self.device, |copy| self.group_on(copy, place, expected))
    }

    /// The same on one copy.
    pub(crate) fn group_on(
        &self,
        device: &dyn Device,
        (segment, at): (u64, u32),
        expected: Option<(u64, u64)>,
    ) -> Result<Option<(u32, Record)>> {
        let Some(record) = self.record_at(device, (segment, at))? else {
            return Ok(None);
        };
        let is_expected =
            expected.is_none_or(|expected| expected == (record.group, record.first_sequence));
        if !is_expected {
            return Ok(None);
        }
        let first = at + record.pages();
        let page = self.geometry.page_of(segment) + u64::from(first);
        let blocks = read_pages(device, page, record.blocks())?;
        let holds = are_blocks_of(&record, &blocks) || mutated(Mutant::SsdGroupPayloadUnchecked);
        Ok(holds.then(|| (first + record.blocks(), record)))
    }

    /// What the mutant finds behind a gap.
    fn any_group_from(&self, segment: u64, from: u32) -> Result<Option<(u32, Record)>> {
        for at in from + 1..self.geometry.groups_end() {
            if let Some(found) = self.group_at((segment, at), None)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Groups below were durable before the record was written. An earlier version does not say it: it had so many groups under way as
    /// the incarnation line says, and no group that was only written.
    fn settled_before(&self, record: &Record) -> u64 {
        match record.settled {
            0 => (record.group + 1).saturating_sub(u64::from(self.line.depth)),
            settled => settled,
        }
    }

    /// Refuses a segment in which, behind where group `ended` does not count, one stands that was written only after `ended` was
    /// durable.
    pub(crate) fn refuse_later(&self, segment: u64, from: u32, ended: u64) -> Result<()> {
        let (mut is_looked_at, mut failed) = (false, None);
        for copy in copies(self.device) {
            match self.refuse_later_on(copy, (segment, from), ended) {
                Ok(()) => is_looked_at = true,
                // What was durable when something later was written is on the other copy as well.
                Err(error @ LogError::Device { .. }) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        match failed {
            Some(error) if !is_looked_at => Err(error),
            _ => Ok(()),
        }
    }

    fn refuse_later_on(
        &self,
        device: &dyn Device,
        (segment, from): (u64, u32),
        ended: u64,
    ) -> Result<()> {
        let end = self.geometry.groups_end();
        for start in (from..end).step_by(SCANNED_PAGES as usize) {
            let count = SCANNED_PAGES.min(end - start);
            let page = self.geometry.page_of(segment) + u64::from(start);
            let pages = read_pages(device, page, count)?;
            for (at, page) in (start..).zip(pages.chunks_exact(PAGE_BYTES)) {
                let place = (segment, at);
                if Record::pages_of(self.line.salt, place, page, self.geometry).is_none() {
                    continue;
                }
                let is_later = |record: &Record| self.settled_before(record) > ended;
                let later = self.record_at(device, place)?.filter(is_later);
                if let Some(group) = later.map(|record| record.group) {
                    return Err(LogError::Damaged {
                        path: self.device.path().to_owned(),
                        found: format!(
                            "group {ended} in segment {segment} does not hold, and group {group} behind it does, which was \
                             written later"
                        ),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether these are the blocks of a record.
fn are_blocks_of(record: &Record, blocks: &Pages) -> bool {
    let checks = record.elements.iter().filter_map(|one| match one.shape {
        Shape::Block { check, .. } => Some((one.key, check)),
        _ => None,
    });
    let mut pages = blocks.chunks_exact(PAGE_BYTES);
    checks.into_iter().all(|(key, check)| {
        pages
            .next()
            .is_some_and(|page| check_of(key, page) == check)
    })
}
