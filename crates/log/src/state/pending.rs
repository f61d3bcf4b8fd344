//! What is staged and not published yet: writers that need a block's old bytes, and the cleaner, ask here first.

use crate::media::Key;
use crate::page::Pages;
use std::collections::HashMap;
use std::sync::Arc;

/// The newest staged version of a block.
#[derive(Clone)]
pub(crate) enum Newest {
    /// One of these pages.
    Page(Arc<Pages>, usize),
    /// Zeroes.
    Zeroes,
    /// The backing's.
    Gone,
}

struct Range {
    first: Key,
    count: u64,
    sequence: u64,
    is_zero: bool,
}

impl Range {
    fn overlaps(&self, first: Key, count: u64) -> bool {
        let is_before = |a: Key, count: u64, b: Key| a.block + count <= b.block;
        self.first.volume == first.volume
            && !is_before(self.first, self.count, first)
            && !is_before(first, count, self.first)
    }
}

/// The staged versions of all blocks.
#[derive(Default)]
pub(crate) struct Pending {
    blocks: HashMap<Key, (u64, Arc<Pages>, usize)>,
    ranges: Vec<Range>,
}

impl Pending {
    /// A block is staged.
    pub(crate) fn add_block(&mut self, key: Key, sequence: u64, pages: &Arc<Pages>, page: usize) {
        self.blocks.insert(key, (sequence, pages.clone(), page));
    }

    /// A range is.
    pub(crate) fn add_range(&mut self, first: Key, count: u64, sequence: u64, is_zero: bool) {
        self.ranges.push(Range {
            first,
            count,
            sequence,
            is_zero,
        });
    }

    /// An element is published.
    pub(crate) fn remove(&mut self, key: Key, sequence: u64) {
        if self
            .blocks
            .get(&key)
            .is_some_and(|found| found.0 == sequence)
        {
            self.blocks.remove(&key);
        }
        self.ranges.retain(|range| range.sequence != sequence);
    }

    /// The newest version of a block.
    pub(crate) fn newest(&self, key: Key) -> Option<Newest> {
        let ranges = self.ranges.iter().filter(|range| range.overlaps(key, 1));
        let range = ranges.max_by_key(|range| range.sequence);
        match (self.blocks.get(&key), range) {
            (Some((sequence, ..)), Some(range)) if range.sequence > *sequence => {
                Some(range.newest())
            }
            (Some((_, pages, page)), _) => Some(Newest::Page(pages.clone(), *page)),
            (None, range) => range.map(Range::newest),
        }
    }

    /// Whether anything of a range is staged.
    pub(crate) fn has_any(&self, first: Key, count: u64) -> bool {
        let is_in = |key: &Key| {
            key.volume == first.volume && (first.block..first.block + count).contains(&key.block)
        };
        self.ranges.iter().any(|range| range.overlaps(first, count))
            || self.blocks.keys().any(is_in)
    }
}

impl Range {
    fn newest(&self) -> Newest {
        match self.is_zero {
            true => Newest::Zeroes,
            false => Newest::Gone,
        }
    }
}
