//! Pages of a model that the medium lost.

use super::{FenceFailure, PAGE_BYTES, PAGE_WORDS, Shadow, lock, to_index};
use crate::media_errors::MediaErrors;
use std::sync::atomic::Ordering;

impl Shadow {
    /// The medium loses the page at byte `offset` for good. The next access by a region finds out.
    ///
    /// # Panics
    /// There is no such page.
    pub fn lose_page(&self, offset: u64) {
        let page = to_index(offset) / PAGE_BYTES;
        assert!(page < self.view.len(), "a page of the region is lost");
        lock(&self.lost.pages).insert(page, false);
        self.lost.is_any.store(true, Ordering::Release);
    }

    /// The medium is gone: all its pages are lost, and each fence fails from now on.
    pub fn kill(&self) {
        {
            let mut pages = lock(&self.lost.pages);
            for page in 0..self.view.len() {
                pages.entry(page).or_insert(false);
            }
        }
        self.lost.is_any.store(true, Ordering::Release);
        self.set_fence_failure(FenceFailure::From(0));
    }

    /// Offsets of the pages that the medium lost, ascending.
    pub fn lost_pages(&self) -> Vec<u64> {
        let pages = lock(&self.lost.pages);
        pages
            .keys()
            .map(|page| (page * PAGE_BYTES) as u64)
            .collect()
    }

    /// A process maps the medium: whatever another one put over lost pages is not there for it.
    pub(crate) fn map_anew(&self) {
        for is_covered in lock(&self.lost.pages).values_mut() {
            *is_covered = false;
        }
    }

    /// Before an access to the bytes: what the handler does where they are lost and not recorded yet.
    pub(crate) fn meet_lost(&self, offset: u64, len: usize, errors: &MediaErrors) {
        if !self.lost.is_any.load(Ordering::Acquire) || len == 0 {
            return;
        }
        let range = self.range(offset, len);
        let pages: Vec<usize> = lock(&self.lost.pages)
            .range(range.start / PAGE_BYTES..=(range.end - 1) / PAGE_BYTES)
            .filter_map(|(page, is_covered)| (!is_covered).then_some(*page))
            .collect();
        for page in pages {
            let name = std::iter::once((page * PAGE_BYTES) as u64);
            errors.lose(name, || self.cover(page), crate::look_point);
        }
    }

    fn cover(&self, page: usize) -> bool {
        // No store comes in between.
        let _state = self.lock();
        for word in page * PAGE_WORDS..(page + 1) * PAGE_WORDS {
            self.word(word).store(0, Ordering::Release);
        }
        lock(&self.lost.pages).insert(page, true);
        true
    }
}
