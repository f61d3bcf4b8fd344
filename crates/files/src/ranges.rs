//! Byte ranges of a file: those that were written past the pool and that no sync has made durable, or those
//! for which the backing has room.

use std::collections::BTreeMap;

/// More ranges than this are not told apart: the whole file is unsynced then.
const RANGES_MAX: usize = 4096;

/// Disjoint ranges that do not touch, by their starts.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    by_start: BTreeMap<u64, u64>,
    bytes: u64,
    has_overflowed: bool,
}

impl Ranges {
    /// Bytes in all ranges.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_start.is_empty() && !self.has_overflowed
    }

    /// Whether there are more ranges than are remembered.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.has_overflowed
    }

    /// The ranges in order, start and end.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_start.iter().map(|(start, end)| (*start, *end))
    }

    /// The range that holds this byte.
    pub(crate) fn around(&self, byte: u64) -> Option<(u64, u64)> {
        let (start, end) = self.by_start.range(..=byte).next_back()?;
        (byte < *end).then_some((*start, *end))
    }

    /// Adds a range.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        if start >= end || self.has_overflowed {
            return;
        }
        let (mut start, mut end) = (start, end);
        if let Some((from, to)) = self.by_start.range_mut(..=start).next_back()
            && *to >= start
        {
            if *to >= end {
                return;
            }
            let from = *from;
            self.bytes -= *to - from;
            start = from;
            self.by_start.remove(&from);
        }
        while let Some((from, to)) = self.by_start.range(start..=end).next() {
            let (from, to) = (*from, *to);
            self.by_start.remove(&from);
            self.bytes -= to - from;
            end = end.max(to);
        }
        self.by_start.insert(start, end);
        self.bytes += end - start;
        if self.by_start.len() > RANGES_MAX {
            self.by_start.clear();
            self.bytes = 0;
            self.has_overflowed = true;
        }
    }

    /// Adds all of another one's.
    pub(crate) fn add_all(&mut self, other: &Ranges) {
        if other.has_overflowed {
            *self = Ranges {
                has_overflowed: true,
                ..Ranges::default()
            };
        }
        for (start, end) in other.iter() {
            self.add(start, end);
        }
    }

    /// Forgets what lies at or behind `end`.
    pub(crate) fn cut(&mut self, end: u64) {
        let behind = self.by_start.split_off(&end);
        self.bytes -= behind.iter().map(|(from, to)| to - from).sum::<u64>();
        if let Some((from, to)) = self.by_start.iter_mut().next_back()
            && *to > end
        {
            self.bytes -= *to - end;
            *to = end;
            debug_assert!(*from < end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_a_set_of_bytes(
            steps in prop::collection::vec((0u64..200, 0u64..40, prop::bool::weighted(0.1)), 1..60),
        ) {
            let mut ranges = Ranges::default();
            let mut model = [false; 300];
            for (start, len, is_cut) in steps {
                if is_cut {
                    ranges.cut(start);
                    model[start as usize..].fill(false);
                } else {
                    ranges.add(start, start + len);
                    model[start as usize..(start + len) as usize].fill(true);
                }
                let mut found = [false; 300];
                let mut last_end = None;
                for (from, to) in ranges.iter() {
                    prop_assert!(from < to && last_end.is_none_or(|end| end < from));
                    found[from as usize..to as usize].fill(true);
                    last_end = Some(to);
                }
                prop_assert_eq!(found, model);
                for (byte, is_in) in model.into_iter().enumerate() {
                    let byte = byte as u64;
                    let around = ranges.around(byte);
                    prop_assert_eq!(around.is_some(), is_in);
                    prop_assert!(around.is_none_or(|(from, to)| from <= byte && byte < to));
                }
                let bytes = model.iter().filter(|byte| **byte).count() as u64;
                prop_assert_eq!(ranges.bytes(), bytes);
            }
        }
    }

    #[test]
    fn too_many_ranges_are_the_whole_file() {
        let mut ranges = Ranges::default();
        for number in 0..=RANGES_MAX as u64 {
            ranges.add(number * 2, number * 2 + 1);
        }
        assert!(ranges.has_overflowed() && !ranges.is_empty());
        let mut other = Ranges::default();
        other.add(1, 2);
        other.add_all(&ranges);
        assert!(other.has_overflowed());
    }
}
