//! Finding what a crash has left: the segments that count, each by its summary, the newest by its groups.
//!
//! A segment's header is written with its first group, so the newest one may be there without any group that counts: then
//! the segment does not. All before the newest are sealed before it is begun. What cannot be so after any crash is
//! damage, and nothing is changed.

use super::group::Contents;
use super::pages::{first_of, read_pages, summary_on};
use super::scan::Scan;
use crate::device::Device;
use crate::error::{LogError, Result};
use crate::media::{CleanPoints, Geometry, IncarnationLine, SegmentHeader, Summary};
use std::collections::BTreeMap;

/// A segment that counts.
pub(crate) struct Loaded {
    pub(crate) contents: Contents,
    /// The incarnation whose it is.
    pub(crate) incarnation: u64,
    /// Where each of its groups begins and ends, if it was walked.
    pub(crate) places: Vec<(u32, u32)>,
    pub(crate) tail: u64,
    pub(crate) points: CleanPoints,
    pub(crate) is_sealed: bool,
    /// Its incarnation, the last one, has written nothing behind it.
    is_last: bool,
}

/// All segments that count, oldest first, and what comes next.
pub(crate) struct Loads {
    pub(crate) segments: Vec<Loaded>,
    pub(crate) next_segment: u64,
    pub(crate) next_sequence: u64,
    pub(crate) next_group: u64,
    pub(crate) tail: u64,
    pub(crate) points: CleanPoints,
}

/// What is looked through.
pub(crate) struct Loader<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) uuid: u128,
    pub(crate) geometry: Geometry,
    /// The last incarnation.
    pub(crate) line: IncarnationLine,
}

impl Loader<'_> {
    fn damaged<T>(&self, found: String) -> Result<T> {
        Err(LogError::Damaged {
            path: self.device.path().to_owned(),
            found,
        })
    }

    pub(crate) fn scan(&self) -> Scan<'_> {
        Scan {
            device: self.device,
            geometry: self.geometry,
            line: self.line,
        }
    }

    /// The headers that may count, by their segments.
    fn headers(&self) -> Result<BTreeMap<u64, SegmentHeader>> {
        let mut headers = BTreeMap::new();
        for place in 0..u64::from(self.geometry.places) {
            for header in self.headers_at(place)? {
                self.add_header(&mut headers, place, header)?;
            }
        }
        Ok(headers)
    }

    /// What the copies of a place's header say; one that cannot be read is passed over if another can.
    fn headers_at(&self, place: u64) -> Result<Vec<SegmentHeader>> {
        let mut found = Vec::new();
        first_of(self.device, |copy| {
            let page = read_pages(copy, self.geometry.page_of(place), 1)?;
            found.extend(SegmentHeader::decode(self.uuid, &page));
            Ok(None::<()>)
        })?;
        Ok(found)
    }

    fn add_header(
        &self,
        headers: &mut BTreeMap<u64, SegmentHeader>,
        place: u64,
        header: SegmentHeader,
    ) -> Result<()> {
        let (segment, incarnation) = (header.segment, header.incarnation);
        let is_new = segment >= self.line.first_segment;
        let is_here = u64::from(self.geometry.place_of(segment)) == place;
        if !is_here || incarnation > self.line.number || incarnation == self.line.number && !is_new
        {
            return self.damaged(format!(
                "the header of segment {segment} of incarnation {incarnation} stands in place {place}, where none of it can"
            ));
        }
        // An earlier incarnation began it and none of its groups counted.
        let is_counted = incarnation == self.line.number || !is_new;
        let is_latest = headers
            .get(&segment)
            .is_none_or(|other: &SegmentHeader| other.incarnation < incarnation);
        if is_counted && is_latest {
            headers.insert(segment, header);
        }
        Ok(())
    }

    /// A segment, by its summary or by its groups; none if no group of it counts.
    fn load(&self, header: &SegmentHeader) -> Result<Option<Loaded>> {
        let segment = header.segment;
        let is_of = |summary: &Summary| {
            summary.incarnation == header.incarnation
                && summary.first_sequence == header.first_sequence
                && summary.first_group == header.first_group
        };
        let summary = first_of(self.device, |copy| {
            let summary = summary_on(copy, self.uuid, self.geometry, segment)?;
            Ok(summary.filter(is_of))
        })?;
        if let Some(summary) = summary {
            return Ok(Some(Loaded {
                contents: Contents {
                    segment,
                    first_sequence: summary.first_sequence,
                    first_group: summary.first_group,
                    last_group: summary.last_group,
                    elements: summary.elements,
                    kept_pages: 0,
                },
                tail: summary.tail,
                points: summary.points,
                is_sealed: true,
                is_last: summary.is_closed && summary.incarnation == self.line.number,
                incarnation: summary.incarnation,
                places: Vec::new(),
            }));
        }
        if header.incarnation != self.line.number {
            return self.damaged(format!(
                "segment {segment} of incarnation {}, which has ended, has no valid summary",
                header.incarnation
            ));
        }
        let walked = self.scan().walk(header)?;
        if walked.places.is_empty() {
            return Ok(None);
        }
        Ok(Some(Loaded {
            contents: Contents {
                segment,
                first_sequence: header.first_sequence,
                first_group: header.first_group,
                last_group: header.first_group + walked.groups() - 1,
                elements: walked.elements,
                kept_pages: 0,
            },
            tail: walked.tail,
            points: walked.points,
            is_sealed: false,
            is_last: false,
            incarnation: header.incarnation,
            places: walked.places,
        }))
    }

    /// The newest segment that counts.
    fn newest(&self, headers: &BTreeMap<u64, SegmentHeader>) -> Result<Option<Loaded>> {
        let Some(last) = headers.values().next_back() else {
            return Ok(None);
        };
        if let Some(loaded) = self.load(last)? {
            return Ok(Some(loaded));
        }
        let Some(before) = last.segment.checked_sub(1) else {
            return Ok(None);
        };
        match headers.get(&before).map(|header| self.load(header)) {
            Some(loaded) => loaded,
            None => self.damaged(format!("segment {before} is missing")),
        }
    }

    /// All that counts.
    pub(crate) fn find(&self) -> Result<Loads> {
        let headers = self.headers()?;
        let newest = self.newest(&headers)?;
        let next_segment = newest
            .as_ref()
            .map_or(0, |newest| newest.contents.segment + 1);
        if next_segment < self.line.first_segment {
            let first = self.line.first_segment;
            return self.damaged(format!(
                "incarnation {} began at segment {first}, and segment {} is missing",
                self.line.number,
                first - 1
            ));
        }
        let mut loads = Loads {
            segments: Vec::new(),
            next_segment,
            next_sequence: 1,
            next_group: 1,
            tail: newest.as_ref().map_or(0, |newest| newest.tail),
            points: CleanPoints::NONE,
        };
        let is_last = newest.as_ref().is_some_and(|newest| newest.is_last);
        if let Some(newest) = newest {
            self.add_older(&mut loads, &headers, newest.contents.segment)?;
            self.add(&mut loads, newest)?;
        }
        // Groups of a segment whose header is damaged show that it was written.
        if !is_last && !headers.contains_key(&next_segment) {
            self.scan()
                .refuse_later(next_segment, 1, loads.next_group)?;
        }
        Ok(loads)
    }

    /// Those between the tail and the newest.
    fn add_older(
        &self,
        loads: &mut Loads,
        headers: &BTreeMap<u64, SegmentHeader>,
        newest: u64,
    ) -> Result<()> {
        if newest - loads.tail >= u64::from(self.geometry.places) {
            let tail = loads.tail;
            return self.damaged(format!(
                "segment {newest} says that segment {tail} still counts, which lay in its place or before"
            ));
        }
        for segment in loads.tail..newest {
            let loaded = headers.get(&segment).map(|header| self.load(header));
            match loaded.transpose()?.flatten() {
                Some(loaded) => self.add(loads, loaded)?,
                None => {
                    return self.damaged(format!("segment {segment} is missing"));
                }
            }
        }
        Ok(())
    }

    fn add(&self, loads: &mut Loads, loaded: Loaded) -> Result<()> {
        let found = &loaded.contents;
        let follows = loads.segments.is_empty()
            || found.first_sequence == loads.next_sequence && found.first_group == loads.next_group;
        let has_numbers = found.first_sequence > 0
            && found.first_group > 0
            && found.last_group >= found.first_group;
        if !follows || !has_numbers {
            return self.damaged(format!(
                "segment {} begins with group {} where {} was to follow: groups before it are missing",
                found.segment, found.first_group, loads.next_group
            ));
        }
        loads.next_sequence = found.first_sequence + found.elements.len() as u64;
        loads.next_group = found.last_group + 1;
        loads.points.join(&loaded.points);
        loads.segments.push(loaded);
        Ok(())
    }
}
