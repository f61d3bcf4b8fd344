//! Copies of rows in DRAM: what sums and parity are computed from.

use std::ops::Range;

use forebay_pmem::xor_into;

use crate::format::{Geometry, PAGE_BYTES};
use crate::medium::Medium;

/// Rows copied at once: all pages of these fit a processor's second-level cache beside the parity.
pub(super) const BATCH_ROWS: u64 = 16;

const PAGE: usize = PAGE_BYTES as usize;

/// Copies of the data pages of a few rows, with their checks.
pub(super) struct Rows {
    geometry: Geometry,
    first: u64,
    bytes: Vec<u8>,
    /// None: the medium failed on it.
    checks: Vec<Option<u32>>,
}

impl Rows {
    pub fn new(geometry: Geometry) -> Rows {
        let pages = geometry.extents() * BATCH_ROWS as usize;
        Rows {
            geometry,
            first: 0,
            bytes: vec![0; pages * PAGE],
            checks: vec![None; pages],
        }
    }

    fn index(&self, extent: usize, row: u64) -> usize {
        (row - self.first) as usize * self.geometry.extents() + extent
    }

    /// Copies all data pages of these rows.
    pub fn copy(&mut self, medium: &Medium, rows: Range<u64>) {
        assert!(
            rows.end - rows.start <= BATCH_ROWS,
            "a batch is {BATCH_ROWS} rows at most"
        );
        self.first = rows.start;
        for row in rows {
            for extent in 0..self.geometry.extents() {
                self.copy_page(medium, extent, row);
            }
        }
    }

    fn copy_page(&mut self, medium: &Medium, extent: usize, row: u64) {
        let index = self.index(extent, row);
        let out = &mut self.bytes[index * PAGE..][..PAGE];
        self.checks[index] = medium.read_page(extent, row, out);
    }

    /// Copies a page again, from the medium.
    pub fn copy_anew(&mut self, medium: &Medium, extent: usize, row: u64) {
        let index = self.index(extent, row);
        let out = &mut self.bytes[index * PAGE..][..PAGE];
        self.checks[index] = medium.read_page_anew(extent, row, out);
    }

    pub fn page(&self, extent: usize, row: u64) -> &[u8] {
        &self.bytes[self.index(extent, row) * PAGE..][..PAGE]
    }

    /// The check of the copy; none where the medium failed on the page.
    pub fn check(&self, extent: usize, row: u64) -> Option<u32> {
        self.checks[self.index(extent, row)]
    }

    /// Whether a sum vouches for the copy.
    pub fn is_vouched(&self, medium: &Medium, extent: usize, row: u64) -> bool {
        let check = self.check(extent, row);
        check.is_some_and(|check| medium.sum(extent, row).vouching_for(check).is_some())
    }

    /// Whether the page is still what was copied.
    pub fn is_unchanged(&self, medium: &Medium, extent: usize, row: u64) -> bool {
        let mut now = [0; PAGE];
        medium.read_page(extent, row, &mut now) == self.check(extent, row)
            && now == *self.page(extent, row)
    }

    /// The parity of the row's copies.
    pub fn parity(&self, row: u64, out: &mut [u8; PAGE]) {
        out.fill(0);
        for extent in 0..self.geometry.extents() {
            xor_into(out, self.page(extent, row));
        }
    }

    /// What the row's other copies and its parity page say that an extent's page is.
    pub fn rebuilt(&self, extent: usize, row: u64, parity: &[u8; PAGE]) -> [u8; PAGE] {
        let mut page = *parity;
        for other in (0..self.geometry.extents()).filter(|&other| other != extent) {
            xor_into(&mut page, self.page(other, row));
        }
        page
    }
}
