//! How many blocks of the table lie in each place of a segment.

use crate::media::Geometry;

/// The counts: what is zero may be written over.
pub(crate) struct LiveCounts {
    geometry: Geometry,
    counts: Box<[u32]>,
}

impl LiveCounts {
    /// None anywhere.
    pub(crate) fn new(geometry: Geometry) -> LiveCounts {
        LiveCounts {
            geometry,
            counts: vec![0; geometry.places as usize].into(),
        }
    }

    fn of_page(&mut self, page: u32) -> &mut u32 {
        let place = self.place_of_page(page);
        &mut self.counts[place as usize]
    }

    /// A block more.
    pub(crate) fn add(&mut self, page: u32) {
        *self.of_page(page) += 1;
    }

    /// A block less.
    pub(crate) fn remove(&mut self, page: u32) {
        let count = self.of_page(page);
        *count = count.checked_sub(1).expect("a block is counted once");
    }

    /// The place of a segment.
    pub(crate) fn place_of(&self, segment: u64) -> u32 {
        self.geometry.place_of(segment)
    }

    /// The place that a block's page is in.
    pub(crate) fn place_of_page(&self, page: u32) -> u32 {
        let place = self.geometry.place_of_page(page);
        place.expect("blocks lie in segments")
    }

    /// Those of a segment's place.
    pub(crate) fn of_segment(&self, segment: u64) -> u32 {
        self.counts[self.geometry.place_of(segment) as usize]
    }
}
