//! Groups: transactions that become durable by one write.

use super::waiter::Waiter;
use crate::media::{CleanPoints, Element, Geometry, Shape, inline_at, record_pages_with};
use crate::page::PAGE_BYTES;
use crate::page::Pages;
use crate::state::Flushed;
use std::sync::Arc;

/// What something takes of a group and of its segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) elements: usize,
    pub(crate) blocks: usize,
    /// In the record.
    pub(crate) inline_bytes: usize,
    /// Pages of the segment that are left unwritten: one for each block that stands whole in a record. Carried forward, it is a block like
    /// others, and no segment has more of these than another one takes (S11).
    pub(crate) kept_pages: usize,
}

impl Size {
    /// That of elements.
    pub(crate) fn of(elements: &[Element]) -> Size {
        let is_kept = |element: &&Element| match element.shape {
            Shape::Inline(inline) => inline.is_whole(),
            _ => false,
        };
        Size {
            elements: elements.len(),
            blocks: elements.iter().filter(|one| one.has_block()).count(),
            inline_bytes: elements.iter().map(Element::inline_bytes).sum(),
            kept_pages: elements.iter().filter(is_kept).count(),
        }
    }

    /// Of both.
    pub(crate) fn and(self, other: Size) -> Size {
        Size {
            elements: self.elements + other.elements,
            blocks: self.blocks + other.blocks,
            inline_bytes: self.inline_bytes + other.inline_bytes,
            kept_pages: self.kept_pages + other.kept_pages,
        }
    }

    /// Pages that a group of it writes.
    pub(crate) fn pages(self) -> u32 {
        record_pages_with(self.elements, self.inline_bytes) + self.blocks as u32
    }
}

/// A transaction in a group.
pub(crate) struct Member {
    pub(crate) waiter: Arc<Waiter>,
    /// Its blocks, in the order of the elements that have one.
    pub(crate) pages: Arc<Pages>,
    /// Their pages are known when the group is closed.
    pub(crate) elements: Vec<Element>,
    /// The bytes of the inline ones, in the same order.
    pub(crate) inline: Vec<u8>,
    /// Sequence of the first of them.
    pub(crate) first_sequence: u64,
}

/// What is in a segment: its summary says so, before the first group of the next one is written.
pub(crate) struct Contents {
    pub(crate) segment: u64,
    pub(crate) first_sequence: u64,
    pub(crate) first_group: u64,
    /// The last one that is closed.
    pub(crate) last_group: u64,
    /// Those of all these groups.
    pub(crate) elements: Vec<Element>,
    /// Pages that these groups leave unwritten.
    pub(crate) kept_pages: usize,
}

/// A group. Its segment and its first page are known from the start: all groups before it are closed.
pub(crate) struct Group {
    pub(crate) number: u64,
    pub(crate) segment: u64,
    /// Its first page in the segment, that of the header if it is the first there.
    pub(crate) start: u32,
    pub(crate) first_sequence: u64,
    pub(crate) members: Vec<Member>,
    pub(crate) size: Size,
    pub(crate) is_open: bool,
    pub(crate) has_only_fills: bool,
    /// Nobody waits until it is durable: its members are told when it is written.
    pub(crate) is_unsynced: bool,
    /// That of the segment before, if this group is the first of its own.
    pub(crate) seal: Option<Contents>,
}

impl Group {
    /// Whether the segment's header goes with it.
    pub(crate) fn has_header(&self) -> bool {
        self.start == 0
    }

    /// Its pages, were it closed with so much more.
    pub(crate) fn pages_with(&self, more: Size) -> u32 {
        u32::from(self.has_header()) + self.size.and(more).pages()
    }

    /// Whether so much more has room in it, in a segment that has so many elements and kept pages already, before the page `end`.
    pub(crate) fn has_room(
        &self,
        more: Size,
        before: (usize, usize),
        (geometry, end): (Geometry, u32),
    ) -> bool {
        let size = self.size.and(more);
        let kept_pages = (before.1 + size.kept_pages) as u32;
        size.elements <= geometry.group_elements_max()
            && size.blocks <= geometry.group_blocks_max()
            && self.members.len() < geometry.group_members_max()
            && before.0 + size.elements <= geometry.elements_max()
            && self.start + self.pages_with(more) + kept_pages <= end
    }

    /// Nobody joins any more: now every block has its page, and all bytes in the record have their place.
    pub(crate) fn close(&mut self, geometry: Geometry) {
        assert!(self.is_open);
        self.is_open = false;
        let start = self.start + u32::from(self.has_header());
        let record = geometry.page_of(self.segment) as u32 + start;
        let (elements, inline_bytes) = (self.size.elements, self.size.inline_bytes);
        let mut next = record + record_pages_with(elements, inline_bytes);
        let mut at = inline_at(elements);
        for element in self.members.iter_mut().flat_map(|one| &mut one.elements) {
            match &mut element.shape {
                Shape::Block { page, .. } => {
                    *page = next;
                    next += 1;
                }
                Shape::Inline(inline) => {
                    inline.page = record + (at / PAGE_BYTES) as u32;
                    inline.at = (at % PAGE_BYTES) as u16;
                    at += usize::from(inline.len);
                }
                Shape::Zero { .. } | Shape::Gone { .. } => {}
            }
        }
        assert_eq!(at, inline_at(elements) + inline_bytes);
    }

    /// Its elements, in the order of their sequences.
    pub(crate) fn all_elements(&self) -> Vec<Element> {
        let members = self.members.iter();
        members
            .flat_map(|one| one.elements.iter().copied())
            .collect()
    }

    /// The bytes of its inline elements, in the same order.
    pub(crate) fn all_inline(&self) -> Vec<u8> {
        let members = self.members.iter();
        members.flat_map(|one| one.inline.iter().copied()).collect()
    }
}

impl Member {
    /// Its elements with their sequences, and the bytes of those that are inline.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Element, u64, &[u8])> {
        let mut rest = &self.inline[..];
        let elements = self.elements.iter().zip(self.first_sequence..);
        elements.map(move |(element, sequence)| {
            let (bytes, behind) = rest.split_at(element.inline_bytes());
            rest = behind;
            (*element, sequence, bytes)
        })
    }
}

/// How a group becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settles {
    /// By its own write, as all before it are, or will be by theirs.
    ByItself,
    /// By a flush behind its write, with all before it: a durable write is no barrier, and would leave it behind a gap.
    ByFlush,
    /// By some flush later on.
    Later,
}

/// A group whose write is under way.
pub(crate) struct InFlight {
    pub(crate) group: Group,
    pub(crate) settles: Settles,
    /// What the flush ahead of it settles, where a summary goes ahead that lists what was not.
    pub(crate) flushed_first: Option<Flushed>,
    /// What its record says.
    pub(crate) tail: u64,
    pub(crate) points: CleanPoints,
    /// Whether its write has succeeded, once it has returned.
    pub(crate) outcome: Option<bool>,
}
