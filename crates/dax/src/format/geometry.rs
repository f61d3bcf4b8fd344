//! Where bytes of a region, and what vouches for them, lie.

use std::ops::Range;

use crate::error::{ErrorKind, Result};

/// Bytes of a page: the unit of sums, parity and tracking.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Bytes of a run of one extent before the next extent follows.
pub(crate) const UNIT_BYTES: u64 = 2 << 20;
pub(crate) const UNIT_PAGES: u64 = UNIT_BYTES / PAGE_BYTES;
/// Most data extents of a region.
pub(crate) const MAX_WIDTH: u32 = 7;

/// Shape of a region. A *row* is the pages of one number in all extents, and that of the parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub width: u32,
    pub size_bytes: u64,
    unit_pages: u64,
}

/// Tests that look at every crash want regions of a few pages; these are in units of four.
const SMALL_UNIT_PAGES: u64 = 4;

/// Whether such regions may be. A program that is built with the campaign has them only while it runs.
#[cfg(feature = "campaign")]
pub(crate) static ALLOWS_SMALL_UNITS: std::sync::atomic::AtomicBool =
    std::sync::atomic::AtomicBool::new(false);

fn allows_small_units() -> bool {
    #[cfg(feature = "campaign")]
    if ALLOWS_SMALL_UNITS.load(std::sync::atomic::Ordering::Relaxed) {
        return true;
    }
    cfg!(test)
}

fn unit_pages_for(size_bytes: u64, width: u32) -> u64 {
    let is_small = allows_small_units() && size_bytes < u64::from(width) * UNIT_BYTES;
    match is_small {
        true => SMALL_UNIT_PAGES,
        false => UNIT_PAGES,
    }
}

impl Geometry {
    /// Checks a shape that a caller or a line gives.
    pub fn new(size_bytes: u64, width: u32) -> Result<Geometry> {
        let invalid = |found: String, todo| ErrorKind::Invalid { found, todo };
        if !(1..=MAX_WIDTH).contains(&width) {
            let found = format!("a width of {width} is none");
            return Err(invalid(found, "ask for 1 to 7 extents").into());
        }
        let unit_pages = unit_pages_for(size_bytes, width);
        let unit = match width {
            1 => PAGE_BYTES,
            _ => u64::from(width) * unit_pages * PAGE_BYTES,
        };
        if size_bytes == 0 || !size_bytes.is_multiple_of(unit) || size_bytes > i64::MAX as u64 {
            let found = format!(
                "{size_bytes} bytes are no multiple of {unit}, which a width of {width} needs"
            );
            return Err(invalid(found, "ask for at least one, and round up").into());
        }
        Ok(Geometry {
            width,
            size_bytes,
            unit_pages,
        })
    }

    /// Data extents, as an index.
    pub fn extents(self) -> usize {
        self.width as usize
    }

    /// The number of the parity among the files, and of its sidecar.
    pub fn parity_role(self) -> usize {
        self.extents()
    }

    /// Extents and the parity.
    pub fn roles(self) -> usize {
        self.extents() + 1
    }

    /// Bytes of each extent, and of the parity.
    pub fn extent_bytes(self) -> u64 {
        self.size_bytes / u64::from(self.width)
    }

    /// Pages of each extent.
    pub fn rows(self) -> u64 {
        self.extent_bytes() / PAGE_BYTES
    }

    /// Pages of the region.
    pub fn pages(self) -> u64 {
        self.size_bytes / PAGE_BYTES
    }

    /// The extent that has a page of the region, and the page's row.
    pub fn place(self, page: u64) -> (usize, u64) {
        if self.width == 1 {
            return (0, page);
        }
        let (unit, within) = (page / self.unit_pages, page % self.unit_pages);
        let width = u64::from(self.width);
        (
            (unit % width) as usize,
            unit / width * self.unit_pages + within,
        )
    }

    /// The page of the region that an extent has in a row.
    pub fn page(self, extent: usize, row: u64) -> u64 {
        if self.width == 1 {
            return row;
        }
        let unit = row / self.unit_pages * u64::from(self.width) + extent as u64;
        unit * self.unit_pages + row % self.unit_pages
    }

    /// Where the page of an extent in a row begins in the region, in bytes.
    pub fn offset(self, extent: usize, row: u64) -> u64 {
        self.page(extent, row) * PAGE_BYTES
    }

    /// The rows of a range of pages, as ranges in any order.
    pub fn rows_of(self, pages: Range<u64>) -> Vec<Range<u64>> {
        if self.width == 1 {
            return vec![pages];
        }
        let mut rows = Vec::new();
        let mut page = pages.start;
        while page < pages.end {
            let end = ((page / self.unit_pages + 1) * self.unit_pages).min(pages.end);
            let (_, row) = self.place(page);
            rows.push(row..row + (end - page));
            page = end;
        }
        rows
    }

    /// Rows in runs whose pages follow each other in the region, in every extent, of at most `most` rows.
    pub fn runs(self, rows: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
        let mut next = rows.start;
        std::iter::from_fn(move || {
            let start = next;
            let unit_end = (start / self.unit_pages + 1) * self.unit_pages;
            next = unit_end.min(start + most).min(rows.end);
            (start < next).then_some(start..next)
        })
    }

    /// Bytes of the sums of one extent: whole pages.
    pub fn sums_bytes(self) -> u64 {
        (self.rows() * 8).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes of a role's sidecar.
    pub fn sidecar_bytes(self, role: usize) -> u64 {
        let tables = match role == self.parity_role() {
            true => u64::from(self.width),
            false => 1,
        };
        SUMS_AT + tables * self.sums_bytes()
    }

    /// Where the sum of an extent's page is in its own sidecar.
    pub fn sum_at(self, row: u64) -> u64 {
        SUMS_AT + row * 8
    }

    /// Where it is in the parity's sidecar.
    pub fn sum_at_parity(self, extent: usize, row: u64) -> u64 {
        SUMS_AT + extent as u64 * self.sums_bytes() + row * 8
    }

    /// Where the two copies of a page's sum are: the role of the sidecar, and the offset in it.
    pub fn places_of_sum(self, extent: usize, row: u64) -> [(usize, u64); 2] {
        [
            (extent, self.sum_at(row)),
            (self.parity_role(), self.sum_at_parity(extent, row)),
        ]
    }
}

/// Where a sidecar's sums begin: after its two lines.
pub(crate) const SUMS_AT: u64 = 2 * PAGE_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_one_place_and_units_follow_each_other() {
        for width in 1..=MAX_WIDTH {
            let size = u64::from(width) * UNIT_BYTES * 3;
            let geometry = Geometry::new(size, width).unwrap();
            for page in 0..geometry.pages() {
                let (extent, row) = geometry.place(page);
                assert!(extent < geometry.extents() && row < geometry.rows());
                assert_eq!(geometry.page(extent, row), page);
            }
            let runs: Vec<_> = geometry.runs(3..1030, 300).collect();
            assert_eq!(runs, [3..303, 303..512, 512..812, 812..1024, 1024..1030]);
        }
        assert_eq!(Geometry::new(4 * UNIT_BYTES, 2).unwrap().place(512), (1, 0));
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        for (size, width) in [
            (0, 1),
            (4097, 1),
            (UNIT_BYTES + 4096, 2),
            (4096, 0),
            (8 * UNIT_BYTES, 8),
        ] {
            Geometry::new(size, width).unwrap_err();
        }
    }

    #[test]
    fn what_vouches_for_a_region_is_four_thousandths_of_it_at_most() {
        let geometry = Geometry::new(64 << 20, 1).unwrap();
        let beside: u64 = (0..geometry.roles())
            .map(|role| geometry.sidecar_bytes(role))
            .sum();
        assert!(beside * 1000 <= geometry.size_bytes * 4 + 4 * PAGE_BYTES * 1000);
    }
}
