//! Whether several groups have room, asked before the first of them is written: what is begun and has no end takes room and frees none.

use super::core::State;
use super::group::Size;
use super::rescue::Rescue;
use crate::media::{Geometry, record_pages, record_pages_with};

impl State {
    /// Segments that may be written before one is recycled.
    pub(crate) fn free_segments(&self, geometry: Geometry) -> u64 {
        self.settled.tail_durable() + u64::from(geometry.places) - self.next_segment
    }

    /// Segments that a rescue of several groups may begin, if all of it has room in them. It leaves one, and those that are kept back;
    /// or three, which an opening needs, where one is enough for it: its end frees as many as it takes.
    pub(crate) fn spare_segments(&self, geometry: Geometry) -> u64 {
        self.spare_of(self.free_segments(geometry))
    }

    fn spare_of(&self, free: u64) -> u64 {
        let beside_kept_back = free.saturating_sub(1 + self.kept_back);
        beside_kept_back.max(u64::from(free >= 4))
    }

    /// Whether the next segment is the only one that a rescue of several groups may begin.
    pub(crate) fn is_next_the_spare(&self, geometry: Geometry) -> bool {
        let free = self.free_segments(geometry);
        free > 0 && self.spare_of(free) > 0 && self.spare_of(free - 1) == 0
    }

    /// Begins a rescue of these groups, if all of them have room in the head and in so many segments; false if not. The groups that it takes
    /// more for what joins have so many elements at most; none if what joins makes no difference.
    pub(crate) fn begin_rescue(
        &mut self,
        geometry: Geometry,
        (groups, spare): (Vec<(usize, usize)>, u64),
        pieces_max: Option<usize>,
    ) -> bool {
        if !self.fits(geometry, groups.iter().copied(), spare) {
            return false;
        }
        let least_free = self.free_segments(geometry) - spare;
        self.rescue = Some(Rescue::new(groups, least_free, pieces_max));
        true
    }

    /// Whether a rescue that has begun has room down to its last group behind a transaction of such a size.
    pub(crate) fn leaves_rescue_room(&self, geometry: Geometry, size: Size) -> bool {
        let Some(rescue) = &self.rescue else {
            return true;
        };
        let spare = self
            .free_segments(geometry)
            .saturating_sub(rescue.least_free);
        // What of it stands in its record is counted as pages beside that, which is no less.
        let inline_pages = record_pages_with(0, size.inline_bytes) as usize;
        let blocks = size.blocks + size.kept_pages + inline_pages;
        let groups = std::iter::once((size.elements, blocks)).chain(rescue.groups());
        let groups = groups.chain(rescue.cut_by(size.elements));
        self.fits(geometry, groups, spare)
    }

    /// Whether groups of so many elements and blocks have room, one behind the other, in what is left of the head and in so many
    /// segments. A group that shares its record with another takes no more than it does here.
    pub(crate) fn fits(
        &self,
        geometry: Geometry,
        groups: impl IntoIterator<Item = (usize, usize)>,
        mut segments: u64,
    ) -> bool {
        let (mut cursor, mut before) = self.end_of_head(geometry);
        for (elements, blocks) in groups {
            let pages = record_pages(elements) + blocks as u32;
            if cursor + pages > geometry.carried_end()
                || before + elements > geometry.elements_max()
            {
                if segments == 0 {
                    return false;
                }
                segments -= 1;
                // The header goes first.
                (cursor, before) = (1, 0);
            }
            cursor += pages;
            before += elements;
        }
        true
    }

    /// The page at which the next group would begin, and how many elements its segment would have, were the last group closed.
    fn end_of_head(&self, geometry: Geometry) -> (u32, usize) {
        let Some(head) = &self.head else {
            return (geometry.groups_end(), 0);
        };
        let (before, kept) = head.before();
        match self.queue.back().filter(|group| group.is_open) {
            Some(group) => (
                group.start
                    + group.pages_with(Size::default())
                    + (kept + group.size.kept_pages) as u32,
                before + group.size.elements,
            ),
            None => (head.cursor + kept as u32, before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rescue::carried_groups;
    use super::*;

    /// Most blocks of a segment, however its groups are divided: by the number of pages that are left.
    fn most_blocks(geometry: Geometry) -> usize {
        let pages = geometry.carried_end() as usize - 1;
        let mut most = vec![0; pages + 1];
        for left in 1..=pages {
            let sizes = 1..=geometry.group_blocks_max();
            let fitting = sizes.filter_map(|blocks| {
                let taken = blocks + record_pages(blocks) as usize;
                left.checked_sub(taken).map(|rest| blocks + most[rest])
            });
            most[left] = fitting.max().unwrap_or(0);
        }
        most[pages]
    }

    #[test]
    fn whatever_blocks_a_segment_has_one_segment_takes() {
        for segment_pages in [16, 20, 32, 64, 128, 256, 512, 1024, 2048, 4096] {
            let geometry = Geometry::with_segments(1 << 20, segment_pages).unwrap();
            let at_once = geometry.carried_at_once();
            let groups = carried_groups((most_blocks(geometry), 0), at_once);
            let pages = groups.map(|(elements, blocks)| record_pages(elements) as usize + blocks);
            let pages = 1 + pages.sum::<usize>();
            let end = geometry.carried_end() as usize;
            assert!(pages <= end, "{segment_pages}: {pages} of {end}");
        }
    }
}
