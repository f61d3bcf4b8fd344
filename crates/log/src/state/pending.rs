//! What is staged and not published yet: writers that need a block's old bytes, and the cleaner, ask here first.

use super::patches::Patch;
use crate::media::Key;
use crate::page::Pages;
use std::collections::{BTreeSet, HashMap};
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
    /// Of each block those that are staged, in the order of their sequences.
    patches: HashMap<Key, Vec<(u64, Patch)>>,
    patch_count: usize,
    /// The sequences of blocks that stand whole in a record: once published, each is a patch as well.
    appends: BTreeSet<u64>,
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

    /// A part of a block is staged, over what was staged of it before.
    pub(crate) fn add_patch(&mut self, key: Key, sequence: u64, patch: Patch) {
        self.patches.entry(key).or_default().push((sequence, patch));
        self.patch_count += 1;
    }

    /// The block that is staged with this sequence stands in a record.
    pub(crate) fn note_append(&mut self, sequence: u64) {
        self.appends.insert(sequence);
    }

    /// How many patches there will be of what is staged, at most.
    pub(crate) fn patches(&self) -> usize {
        self.patch_count + self.appends.len()
    }

    /// How many of a block.
    pub(crate) fn patches_of(&self, key: Key) -> usize {
        self.patches.get(&key).map_or(0, Vec::len)
    }

    /// Lays those of a block that are staged behind its newest version over that.
    pub(crate) fn put_patches_over(&self, key: Key, block: &mut [u8]) {
        let ranges = self.ranges.iter().filter(|range| range.overlaps(key, 1));
        let whole = self.blocks.get(&key).map(|found| found.0);
        let newest = ranges.map(|range| range.sequence).chain(whole).max();
        let newest = newest.unwrap_or_default();
        let patches = self.patches.get(&key).into_iter().flatten();
        for (_, patch) in patches.filter(|(sequence, _)| *sequence > newest) {
            patch.put_over(block);
        }
    }

    /// An element is published.
    pub(crate) fn remove(&mut self, key: Key, sequence: u64) {
        self.appends.remove(&sequence);
        if self
            .blocks
            .get(&key)
            .is_some_and(|found| found.0 == sequence)
        {
            self.blocks.remove(&key);
        }
        if let Some(patches) = self.patches.get_mut(&key) {
            let before = patches.len();
            patches.retain(|(staged, _)| *staged != sequence);
            self.patch_count -= before - patches.len();
            if patches.is_empty() {
                self.patches.remove(&key);
            }
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
            || self.patches.keys().any(is_in)
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
