//! Sets of pages or rows, as ascending ranges.

use std::ops::Range;

use crate::format::PAGE_BYTES;

/// Ascending ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages(Vec<Range<u64>>);

impl Pages {
    /// Of ranges in any order, which may overlap.
    pub fn new(mut ranges: Vec<Range<u64>>) -> Pages {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        Pages(merged)
    }

    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    /// The bytes of these pages of a region.
    pub fn bytes(&self) -> Vec<Range<u64>> {
        let ranges = self.0.iter();
        ranges
            .map(|pages| pages.start * PAGE_BYTES..pages.end * PAGE_BYTES)
            .collect()
    }

    pub fn contains(&self, page: u64) -> bool {
        let after = self.0.partition_point(|range| range.end <= page);
        self.0.get(after).is_some_and(|range| range.contains(&page))
    }

    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().cloned().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_any_order_are_a_set() {
        let pages = Pages::new(vec![7..9, 1..3, 3..4, 8..12, 20..20]);
        assert_eq!(pages.ranges(), [1..4, 7..12]);
        let inside: Vec<u64> = (0..25).filter(|&page| pages.contains(page)).collect();
        assert_eq!(inside, pages.iter().collect::<Vec<_>>());
        assert!(Pages::new(Vec::new()).ranges().is_empty());
    }
}
