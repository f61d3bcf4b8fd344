//! The blocks that were written last, in memory: a program that writes a part of a block behind another, as a database its log, has it merged
//! with what the device would otherwise be asked for.
//!
//! Invariant: what is here of a page is what the log last wrote there and has published. A segment's pages are dropped when its first
//! group is published, so before any block is found in them.

use crate::media::Geometry;
use crate::page::{PAGE_BYTES, Pages};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// A part of so many of the pool's pages is kept, so that a block takes no more than 44 bytes of memory in all.
const SHARE: u64 = 512;
/// And so much at least, but no more than that part of a small pool.
const PAGES_MIN: u64 = (1 << 20) / PAGE_BYTES as u64;
const SHARE_MAX: u64 = 8;
/// Blocks of a transaction that are kept. Larger ones write whole blocks, and would leave none of the others.
const BLOCKS_MAX: usize = 16;

/// One block of those that were written last.
#[derive(Clone)]
pub(crate) struct RecentBlock {
    pages: Arc<Pages>,
    number: usize,
}

impl RecentBlock {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.pages.page(self.number)
    }
}

/// Blocks of transactions, by the first of their pages.
pub(crate) struct Recent {
    runs: BTreeMap<u32, Arc<Pages>>,
    /// The same in the order in which they came.
    order: VecDeque<u32>,
    /// Pages of memory that they take.
    room: usize,
    room_max: usize,
    geometry: Geometry,
}

impl Recent {
    pub(crate) fn new(geometry: Geometry, is_kept: bool) -> Recent {
        let room_max = match is_kept {
            true => Recent::room_max(geometry.pages()),
            false => 0,
        };
        Recent {
            runs: BTreeMap::new(),
            order: VecDeque::new(),
            room: 0,
            room_max: room_max as usize,
            geometry,
        }
    }

    /// What it takes at most.
    pub(crate) fn bytes_max(&self) -> usize {
        self.room_max * PAGE_BYTES
    }

    /// Pages that are kept at most of a pool of so many.
    fn room_max(pages: u64) -> u64 {
        (pages / SHARE).max(PAGES_MIN).min(pages / SHARE_MAX)
    }

    /// A transaction's blocks have been published, which lie side by side from a page on.
    pub(crate) fn add(&mut self, first: u32, pages: &Arc<Pages>) {
        if pages.count() == 0 || pages.count() > BLOCKS_MAX.min(self.room_max) {
            return;
        }
        let before = self.runs.insert(first, Arc::clone(pages));
        assert!(
            before.is_none(),
            "page {first} was written over, and not dropped"
        );
        self.order.push_back(first);
        self.room += pages.capacity();
        while self.room > self.room_max {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let first = self.order.pop_front().expect("what takes room");
        // One that was dropped with its segment takes none.
        if let Some(pages) = self.runs.remove(&first) {
            self.room -= pages.capacity();
        }
    }

    /// A segment begins where another was.
    pub(crate) fn begin_segment(&mut self, segment: u64) {
        let start = self.geometry.page_of(segment) as u32;
        self.forget(start..start + self.geometry.segment_pages);
    }

    fn forget(&mut self, pages: Range<u32>) {
        let firsts: Vec<u32> = self.runs.range(pages).map(|(first, _)| *first).collect();
        for first in &firsts {
            let dropped = self.runs.remove(first).expect("just found");
            self.room -= dropped.capacity();
        }
        if !firsts.is_empty() {
            self.order.retain(|first| self.runs.contains_key(first));
        }
    }

    pub(crate) fn get(&self, page: u32) -> Option<RecentBlock> {
        let (first, pages) = self.runs.range(..=page).next_back()?;
        let number = (page - first) as usize;
        (number < pages.count()).then(|| RecentBlock {
            pages: Arc::clone(pages),
            number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(first: u8, count: usize) -> Arc<Pages> {
        let mut pages = Pages::default();
        for number in 0..count {
            pages.push_page(&[first + number as u8; PAGE_BYTES]);
        }
        Arc::new(pages)
    }

    fn found(recent: &Recent, page: u32) -> Option<u8> {
        recent.get(page).map(|block| block.bytes()[0])
    }

    #[test]
    fn what_was_written_last_is_found_and_what_is_written_over_is_not() {
        let geometry = Geometry::with_segments(16 * 129, 16).unwrap();
        let mut recent = Recent::new(geometry, true);
        assert_eq!(recent.room_max, 256);
        recent.add(17, &pages(1, 2));
        recent.add(20, &pages(7, 1));
        // Whole blocks of a large one are asked of the device.
        recent.add(32, &pages(9, BLOCKS_MAX + 1));
        let all = [16, 17, 18, 19, 20, 21, 32].map(|page| found(&recent, page));
        assert_eq!(all, [None, Some(1), Some(2), None, Some(7), None, None]);
        recent.forget(16..32);
        assert!(
            [17, 18, 20]
                .iter()
                .all(|page| found(&recent, *page).is_none())
        );
        assert_eq!((recent.room, recent.order.len()), (0, 0));
        for page in 0..recent.room_max as u32 + 1 {
            recent.add(1000 + page, &pages(3, 1));
        }
        assert_eq!(recent.room, recent.room_max);
        assert_eq!(
            (found(&recent, 1000), found(&recent, 1001)),
            (None, Some(3))
        );
    }
}
