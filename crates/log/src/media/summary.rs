//! Summaries: what a segment holds, in one piece, so that recovery reads no blocks.

use super::element::{Element, Inline, Shape};
use super::geometry::Geometry;
use super::header::CleanPoints;
use super::layout::{ElementLine, SUMMARY_ELEMENTS_AT as ELEMENTS_AT, SummaryLine, summary_pages};
use super::structs::{has_crc, seed_of_pool, store_crc};
use crate::page::{PAGE_BYTES, Pages};

const MAGIC: u64 = u64::from_le_bytes(*b"FBAYSUMM");
const FLAG_CLOSED: u32 = 1;

/// A summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Whose it is.
    pub(crate) segment: u64,
    /// The incarnation whose groups it lists.
    pub(crate) incarnation: u64,
    /// Sequence of the first element.
    pub(crate) first_sequence: u64,
    /// Its groups.
    pub(crate) first_group: u64,
    /// The last of them.
    pub(crate) last_group: u64,
    /// Segments below this one are gone.
    pub(crate) tail: u64,
    /// Those of all volumes.
    pub(crate) points: CleanPoints,
    /// The incarnation ended with it: it has written nothing behind it.
    pub(crate) is_closed: bool,
    /// All of the segment's, in the order of their sequences.
    pub(crate) elements: Vec<Element>,
}

impl Summary {
    /// Its pages, for the pool `uuid`.
    pub(crate) fn encode(&self, uuid: u128) -> Pages {
        let count = summary_pages(self.elements.len());
        let mut pages = Pages::zeroed(count as usize);
        let points = self
            .points
            .encode_since(&CleanPoints::NONE, &mut pages[SummaryLine::BYTES..]);
        let line = SummaryLine {
            magic: MAGIC,
            uuid,
            segment: self.segment,
            incarnation: self.incarnation,
            first_sequence: self.first_sequence,
            first_group: self.first_group,
            last_group: self.last_group,
            tail: self.tail,
            elements: self.elements.len() as u32,
            points,
            flags: u32::from(self.is_closed) * FLAG_CLOSED,
            crc: 0,
        };
        line.encode(&mut pages);
        let places = pages[ELEMENTS_AT..].chunks_exact_mut(ElementLine::BYTES);
        for (element, place) in self.elements.iter().zip(places) {
            element.encode(place);
        }
        store_crc(seed_of_pool(uuid), &mut pages, SummaryLine::BYTES - 4);
        pages
    }

    /// How many pages a summary has whose first page this is, if it may be that of `segment`.
    pub(crate) fn pages_of(
        uuid: u128,
        segment: u64,
        first: &[u8],
        geometry: Geometry,
    ) -> Option<u32> {
        let line = SummaryLine::decode(first);
        let is_one = line.magic == MAGIC
            && line.uuid == uuid
            && line.segment == segment
            && line.elements as usize <= geometry.elements_max();
        is_one.then(|| summary_pages(line.elements as usize))
    }

    /// What all of its pages say, of which the first is such a one.
    pub(crate) fn decode(
        uuid: u128,
        segment: u64,
        pages: &[u8],
        geometry: Geometry,
    ) -> Option<Summary> {
        let count = Summary::pages_of(uuid, segment, pages, geometry)?;
        let is_whole = pages.len() == count as usize * PAGE_BYTES
            && has_crc(seed_of_pool(uuid), pages, SummaryLine::BYTES - 4);
        if !is_whole {
            return None;
        }
        let line = SummaryLine::decode(pages);
        let numbers = [line.first_sequence, line.first_group, line.last_group];
        if numbers.iter().any(|number| *number >= 1 << 62) || line.tail > segment {
            return None;
        }
        let place = geometry.place_of(segment);
        let is_here = |element: &Element| match element.shape {
            Shape::Block { page, .. } | Shape::Inline(Inline { page, .. }) => {
                geometry.place_of_page(page) == Some(place)
            }
            _ => true,
        };
        let lines = pages[ELEMENTS_AT..].chunks_exact(ElementLine::BYTES);
        let elements: Option<Vec<Element>> = lines
            .take(line.elements as usize)
            .map(|line| Element::decode(line, geometry).filter(is_here))
            .collect();
        Some(Summary {
            segment,
            incarnation: line.incarnation,
            first_sequence: line.first_sequence,
            first_group: line.first_group,
            last_group: line.last_group,
            tail: line.tail,
            points: CleanPoints::decode(line.points, &pages[SummaryLine::BYTES..])?,
            is_closed: line.flags & FLAG_CLOSED != 0,
            elements: elements?,
        })
    }
}
