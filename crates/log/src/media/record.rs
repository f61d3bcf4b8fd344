//! Records: what the blocks behind them are, and everything that is to be known after a crash.

use super::element::{Element, Shape};
use super::geometry::Geometry;
use super::header::CleanPoints;
use super::incarnation::Salt;
use super::layout::{
    ElementLine, RECORD_ELEMENTS_AT as ELEMENTS_AT, RecordLine, inline_at, record_pages_with,
};
use super::structs::{has_crc, store_crc};
use crate::page::PAGE_BYTES;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The group's number: each is one more than that before it.
    pub(crate) group: u64,
    /// Sequence of its first element; the others count on from there.
    pub(crate) first_sequence: u64,
    /// Segments below this one are gone.
    pub(crate) tail: u64,
    /// Groups below this one were durable before it was written; 0 of an earlier version, which does not say it.
    pub(crate) settled: u64,
    /// Those that moved.
    pub(crate) points: CleanPoints,
    /// In the order of their sequences. The blocks of those that have one follow the record in the same order.
    pub(crate) elements: Vec<Element>,
    /// The bytes of the inline ones, in the same order: they stand behind the elements.
    pub(crate) inline: Vec<u8>,
}

impl Record {
    /// Its pages.
    pub(crate) fn pages(&self) -> u32 {
        record_pages_with(self.elements.len(), self.inline.len())
    }

    /// How many blocks follow it.
    pub(crate) fn blocks(&self) -> u32 {
        self.elements.iter().filter(|one| one.has_block()).count() as u32
    }

    /// Stores it in its zeroed pages, to begin at page `at` of `segment`. Clean points that are as `recorded` says stand in
    /// earlier records.
    pub(crate) fn encode(
        &self,
        salt: Salt,
        (segment, at): (u64, u32),
        recorded: &CleanPoints,
        pages: &mut [u8],
    ) {
        assert_eq!(pages.len(), self.pages() as usize * PAGE_BYTES);
        let points = self
            .points
            .encode_since(recorded, &mut pages[RecordLine::BYTES..]);
        let line = RecordLine {
            tag: salt.tag(segment, at),
            group: self.group,
            first_sequence: self.first_sequence,
            tail: self.tail,
            pages: self.pages(),
            blocks: self.blocks(),
            elements: self.elements.len() as u32,
            points,
            settled: self.settled,
            inline_bytes: self.inline.len() as u32,
            crc: 0,
        };
        line.encode(pages);
        let inline = inline_at(self.elements.len());
        pages[inline..][..self.inline.len()].copy_from_slice(&self.inline);
        let places = pages[ELEMENTS_AT..inline].chunks_exact_mut(ElementLine::BYTES);
        for (element, place) in self.elements.iter().zip(places) {
            element.encode(place);
        }
        store_crc(salt.crc_seed(), pages, RecordLine::BYTES - 4);
    }

    /// How many pages a record has whose first page this is, if it may be one of this incarnation, at page `at` of `segment`.
    pub(crate) fn pages_of(
        salt: Salt,
        (segment, at): (u64, u32),
        first: &[u8],
        geometry: Geometry,
    ) -> Option<u32> {
        let line = RecordLine::decode(first);
        let elements = line.elements as usize;
        let is_one = line.tag == salt.tag(segment, at)
            && elements <= geometry.group_elements_max()
            && line.inline_bytes as usize <= geometry.group_inline_bytes_max()
            && line.pages == record_pages_with(elements, line.inline_bytes as usize)
            && line.blocks <= line.elements
            && u64::from(at) + u64::from(line.pages) + u64::from(line.blocks)
                <= u64::from(geometry.groups_end());
        is_one.then_some(line.pages)
    }

    /// What all of its pages say, of which the first is such a one.
    pub(crate) fn decode(
        salt: Salt,
        (segment, at): (u64, u32),
        pages: &[u8],
        geometry: Geometry,
    ) -> Option<Record> {
        let count = Record::pages_of(salt, (segment, at), pages, geometry)?;
        let is_whole = pages.len() == count as usize * PAGE_BYTES
            && has_crc(salt.crc_seed(), pages, RecordLine::BYTES - 4);
        if !is_whole {
            return None;
        }
        let line = RecordLine::decode(pages);
        if line.group >= 1 << 62 || line.first_sequence >= 1 << 62 || line.tail > segment {
            return None;
        }
        let lines = pages[ELEMENTS_AT..].chunks_exact(ElementLine::BYTES);
        let elements: Option<Vec<Element>> = lines
            .take(line.elements as usize)
            .map(|line| Element::decode(line, geometry))
            .collect();
        let inline = inline_at(line.elements as usize);
        let record = Record {
            group: line.group,
            first_sequence: line.first_sequence,
            tail: line.tail,
            settled: line.settled,
            points: CleanPoints::decode(line.points, &pages[RecordLine::BYTES..])?,
            elements: elements?,
            inline: pages[inline..][..line.inline_bytes as usize].to_vec(),
        };
        let first = geometry.page_of(segment) as u32 + at;
        let is_one = record.has_blocks_from(first + count) && record.has_inline_from(first);
        is_one.then_some(record)
    }

    /// Whether its blocks lie one after the other from page `first` on.
    fn has_blocks_from(&self, first: u32) -> bool {
        let pages = self.elements.iter().filter_map(|one| match one.shape {
            Shape::Block { page, .. } => Some(page),
            _ => None,
        });
        pages.zip(first..).all(|(page, expected)| page == expected)
    }

    /// Whether the bytes of its inline elements lie one after the other behind the elements, `first` being its first page.
    fn has_inline_from(&self, first: u32) -> bool {
        let mut at = inline_at(self.elements.len());
        for element in &self.elements {
            let Shape::Inline(inline) = element.shape else {
                continue;
            };
            let stands_at = (inline.page, usize::from(inline.at));
            if stands_at != (first + (at / PAGE_BYTES) as u32, at % PAGE_BYTES) {
                return false;
            }
            at += usize::from(inline.len);
        }
        at == inline_at(self.elements.len()) + self.inline.len()
    }
}
