//! Groups: transactions that become durable by one write.

use super::waiter::Waiter;
use crate::media::{CleanPoints, Element, Geometry, Shape, record_pages};
use crate::page::Pages;
use crate::state::Flushed;
use std::sync::Arc;

/// A transaction in a group.
pub(crate) struct Member {
    pub(crate) waiter: Arc<Waiter>,
    /// Its blocks, in the order of the elements that have one.
    pub(crate) pages: Arc<Pages>,
    /// Their pages are known when the group is closed.
    pub(crate) elements: Vec<Element>,
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
}

/// A group. Its segment and its first page are known from the start: all groups before it are closed.
pub(crate) struct Group {
    pub(crate) number: u64,
    pub(crate) segment: u64,
    /// Its first page in the segment, that of the header if it is the first there.
    pub(crate) start: u32,
    pub(crate) first_sequence: u64,
    pub(crate) members: Vec<Member>,
    pub(crate) elements: usize,
    pub(crate) blocks: usize,
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

    /// Its pages, were it closed with so many more elements and blocks.
    pub(crate) fn pages_with(&self, elements: usize, blocks: usize) -> u32 {
        u32::from(self.has_header())
            + record_pages(self.elements + elements)
            + (self.blocks + blocks) as u32
    }

    /// Whether a transaction of so many elements and blocks has room in it, in a segment that has so many elements already, before the page
    /// `end`.
    pub(crate) fn has_room(
        &self,
        (elements, blocks): (usize, usize),
        before: usize,
        (geometry, end): (Geometry, u32),
    ) -> bool {
        self.elements + elements <= geometry.group_elements_max()
            && self.blocks + blocks <= geometry.group_blocks_max()
            && self.members.len() < geometry.group_members_max()
            && before + self.elements + elements <= geometry.elements_max()
            && self.start + self.pages_with(elements, blocks) <= end
    }

    /// Nobody joins any more: now every block has its page.
    pub(crate) fn close(&mut self, geometry: Geometry) {
        assert!(self.is_open);
        self.is_open = false;
        let before = u32::from(self.has_header()) + record_pages(self.elements);
        let mut next = geometry.page_of(self.segment) as u32 + self.start + before;
        for element in self.members.iter_mut().flat_map(|one| &mut one.elements) {
            if let Shape::Block { page, .. } = &mut element.shape {
                *page = next;
                next += 1;
            }
        }
    }

    /// Its elements, in the order of their sequences.
    pub(crate) fn all_elements(&self) -> Vec<Element> {
        let members = self.members.iter();
        members
            .flat_map(|one| one.elements.iter().copied())
            .collect()
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
