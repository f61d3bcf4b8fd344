//! Where what lies, from the pool's sizes alone.

use super::layout::{self, INLINE_BYTES_MAX, record_elements, record_pages, record_pages_with};

/// Pages of the largest segment, 16 MiB, and of the smallest that is worth a pool.
const SEGMENT_PAGES_MAX: u64 = 4096;
const SEGMENT_PAGES_USUAL_MIN: u64 = 256;
/// Pages of the smallest segment that works: tests have such.
const SEGMENT_PAGES_MIN: u32 = 16;
/// Fewest segments.
pub(crate) const PLACES_MIN: u32 = 8;
/// A pool of usual size has so many segments at least.
const PLACES_USUAL: u64 = 64;
/// Most parts of one write but for header and record: as many transactions a group has at most.
const MEMBERS_MAX: usize = 990;

/// The plan of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Pages of a segment.
    pub(crate) segment_pages: u32,
    /// Segments, each in a place of its own: segment n in place n modulo this.
    pub(crate) places: u32,
}

impl Geometry {
    /// What suits a device of so many pages: segments of a 64th of it, but no more than 16 MiB.
    pub(crate) fn of_device(pages: u64) -> Option<Geometry> {
        let wished = (pages / PLACES_USUAL).clamp(SEGMENT_PAGES_USUAL_MIN, SEGMENT_PAGES_MAX);
        Geometry::with_segments(pages, 1 << wished.ilog2())
    }

    /// Segments of so many pages on a device of `pages`; none if they are too small or too few, or if pages have
    /// larger numbers than an element can name.
    pub(crate) fn with_segments(pages: u64, segment_pages: u32) -> Option<Geometry> {
        if segment_pages < SEGMENT_PAGES_MIN || u64::from(segment_pages) > SEGMENT_PAGES_MAX {
            return None;
        }
        if pages > u64::from(u32::MAX) {
            return None;
        }
        // The first segment's worth of pages has the superblock and the lines.
        let places = (pages / u64::from(segment_pages)).checked_sub(1)?;
        let places = u32::try_from(places).ok()?;
        (places >= PLACES_MIN).then_some(Geometry {
            segment_pages,
            places,
        })
    }

    /// Pages that the pool uses.
    pub(crate) fn pages(self) -> u64 {
        u64::from(self.segment_pages) * (u64::from(self.places) + 1)
    }

    /// Most elements of a segment.
    pub(crate) fn elements_max(self) -> usize {
        self.segment_pages as usize
    }

    /// Pages at the end of a segment that its summary may need.
    pub(crate) fn summary_pages(self) -> u32 {
        layout::summary_pages(self.elements_max())
    }

    /// Where, in its segment, the summary starts: groups end before.
    pub(crate) fn groups_end(self) -> u32 {
        self.segment_pages - self.summary_pages()
    }

    /// Where all groups end but a record of the tail, which has a page of its own: behind what is carried into a segment stands the record by
    /// which the oldest one comes free, and begins no other.
    pub(crate) fn carried_end(self) -> u32 {
        self.groups_end() - 1
    }

    /// Most blocks of a group, and so of a transaction.
    pub(crate) fn group_blocks_max(self) -> usize {
        self.segment_pages as usize / 4
    }

    /// Most elements of a group: so many that its record has no more pages than its blocks may have.
    pub(crate) fn group_elements_max(self) -> usize {
        self.group_blocks_max()
    }

    /// Most bytes of a group's inline elements.
    pub(crate) fn group_inline_bytes_max(self) -> usize {
        self.group_elements_max() * INLINE_BYTES_MAX
    }

    /// Elements of a group that is carried forward: no more than a group may have, and so many that its record's pages are full, if each of
    /// them has more then. So the blocks of a segment have room in another, however they were divided.
    pub(crate) fn carried_at_once(self) -> usize {
        let most = self.group_blocks_max();
        let pages = record_pages(most);
        match record_elements(pages.saturating_sub(1)) {
            full if pages > 1 && full * pages as usize > most * (pages as usize - 1) => full,
            _ => most,
        }
    }

    /// Most transactions of a group.
    pub(crate) fn group_members_max(self) -> usize {
        MEMBERS_MAX
    }

    /// The place of a segment.
    pub(crate) fn place_of(self, segment: u64) -> u32 {
        (segment % u64::from(self.places)) as u32
    }

    /// The first page of a segment.
    pub(crate) fn page_of(self, segment: u64) -> u64 {
        (u64::from(self.place_of(segment)) + 1) * u64::from(self.segment_pages)
    }

    /// The place that a page is in, if it is in one.
    pub(crate) fn place_of_page(self, page: u32) -> Option<u32> {
        let place = (page / self.segment_pages).checked_sub(1)?;
        (place < self.places).then_some(place)
    }

    /// Most blocks that the pool can hold: no page of a segment has more than one.
    pub(crate) fn blocks_max(self) -> usize {
        self.places as usize * (self.groups_end() as usize - 1)
    }
}

/// The largest transaction fits an empty segment, header and record beside it, also in the smallest.
const _: () = {
    let blocks = SEGMENT_PAGES_MIN as usize / 4;
    assert!(1 + record_pages(blocks) as usize + blocks < SEGMENT_PAGES_MIN as usize);
    // The same where all of its blocks stand in the record, and a page is kept for each.
    let pages = record_pages_with(blocks, blocks * INLINE_BYTES_MAX) as usize;
    assert!(1 + pages + blocks < SEGMENT_PAGES_MIN as usize);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PAGE_BYTES;

    #[test]
    fn segments_have_a_64th_of_the_device_and_16_mib_at_most() {
        let pages_a_gib = (1 << 30) / PAGE_BYTES as u64;
        let one = Geometry::of_device(pages_a_gib).unwrap();
        assert_eq!((one.segment_pages, one.places), (4096, 63));
        let large = Geometry::of_device(64 * pages_a_gib).unwrap();
        assert_eq!((large.segment_pages, large.places), (4096, 4095));
        let small = Geometry::of_device(pages_a_gib / 64).unwrap();
        assert_eq!((small.segment_pages, small.places), (256, 15));
        assert_eq!(Geometry::of_device(1000), None);
        assert_eq!(Geometry::of_device(u64::from(u32::MAX) + 1), None);
    }

    #[test]
    fn a_summary_takes_less_than_a_hundredth_of_a_segment() {
        let geometry = Geometry::with_segments(1 << 20, 4096).unwrap();
        assert_eq!(geometry.summary_pages(), 25);
        let small = Geometry::with_segments(1 << 20, 16).unwrap();
        assert_eq!(small.summary_pages(), 1);
    }

    #[test]
    fn every_page_of_a_place_is_of_that_place() {
        let geometry = Geometry::with_segments(200, 16).unwrap();
        assert_eq!(geometry.places, 11);
        for segment in 0..30 {
            let first = geometry.page_of(segment) as u32;
            for page in first..first + 16 {
                assert_eq!(
                    geometry.place_of_page(page),
                    Some(geometry.place_of(segment))
                );
            }
        }
        assert_eq!(geometry.place_of_page(15), None);
        assert_eq!(geometry.place_of_page(16 * 12), None);
    }
}
