//! Ranges of blocks that read as zeroes although their backing may not have zeroes there yet.
//!
//! A block is in the table or in one of these ranges, never in both.

use crate::media::Key;
use std::collections::BTreeMap;

/// So many blocks from `first` on, zeroed by the element with that sequence, which stands in that segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ZeroRange {
    pub(crate) first: Key,
    pub(crate) count: u64,
    pub(crate) sequence: u64,
    pub(crate) segment: u64,
}

impl ZeroRange {
    pub(crate) fn end(&self) -> u64 {
        self.first.block + self.count
    }

    fn cut(&self, first: u64, end: u64) -> ZeroRange {
        ZeroRange {
            first: Key {
                block: first,
                ..self.first
            },
            count: end - first,
            ..*self
        }
    }
}

/// All of them, none overlapping another.
#[derive(Default)]
pub(crate) struct Zeroed(BTreeMap<Key, ZeroRange>);

impl Zeroed {
    /// The range that a block is in.
    pub(crate) fn get(&self, key: Key) -> Option<ZeroRange> {
        let (_, range) = self.0.range(..=key).next_back()?;
        (range.first.volume == key.volume && key.block < range.end()).then_some(*range)
    }

    /// What overlaps with `count` blocks from `first` on.
    pub(crate) fn overlapping(&self, first: Key, count: u64) -> Vec<ZeroRange> {
        let before = self.get(first);
        let end = Key {
            block: first.block + count,
            ..first
        };
        let inside = self.0.range(first..end).map(|(_, range)| *range);
        let inside = inside.filter(|range| before.is_none_or(|one| one.first != range.first));
        before.into_iter().chain(inside).collect()
    }

    /// Whether any of `count` blocks from `first` on is in one.
    pub(crate) fn overlaps(&self, first: Key, count: u64) -> bool {
        !self.overlapping(first, count).is_empty()
    }

    /// A new range, over what was there.
    pub(crate) fn insert(&mut self, range: ZeroRange) {
        self.remove(range.first, range.count, None);
        self.0.insert(range.first, range);
    }

    /// Takes blocks out: all of them, or those that the element with this sequence zeroed.
    pub(crate) fn remove(&mut self, first: Key, count: u64, sequence: Option<u64>) {
        let end = first.block + count;
        for range in self.overlapping(first, count) {
            if sequence.is_some_and(|sequence| sequence != range.sequence) {
                continue;
            }
            self.0.remove(&range.first);
            let rest = [
                (range.first.block, first.block.min(range.end())),
                (end.max(range.first.block), range.end()),
            ];
            for (first, end) in rest.into_iter().filter(|(first, end)| first < end) {
                let part = range.cut(first, end);
                self.0.insert(part.first, part);
            }
        }
    }

    /// Those of a volume.
    pub(crate) fn of_volume(&self, volume: u32) -> Vec<ZeroRange> {
        self.first_of_volume(volume, usize::MAX)
    }

    /// Those whose elements stand in a segment.
    pub(crate) fn of_segment(&self, segment: u64) -> Vec<ZeroRange> {
        let all = self.0.values();
        all.filter(|range| range.segment == segment)
            .copied()
            .collect()
    }

    /// The parts of ranges that lie in `count` blocks from `first` on.
    pub(crate) fn within(&self, first: Key, count: u64) -> Vec<ZeroRange> {
        let end = first.block + count;
        let parts = self.overlapping(first, count).into_iter();
        parts
            .map(|range| range.cut(range.first.block.max(first.block), range.end().min(end)))
            .collect()
    }

    /// Those of them that the element with this sequence zeroed.
    pub(crate) fn of_element(&self, first: Key, count: u64, sequence: u64) -> Vec<ZeroRange> {
        let mut parts = self.within(first, count);
        parts.retain(|range| range.sequence == sequence);
        parts
    }

    /// The part of a block's range that lies in the block's window: blocks are divided into windows of so many.
    pub(crate) fn piece(&self, key: Key, window: u64) -> Option<ZeroRange> {
        let range = self.get(key)?;
        let first = key.block - key.block % window;
        Some(range.cut(
            range.first.block.max(first),
            range.end().min(first + window),
        ))
    }

    /// The first ranges of a volume, so many at most.
    pub(crate) fn first_of_volume(&self, volume: u32, most: usize) -> Vec<ZeroRange> {
        let first = Key { volume, block: 0 };
        let all = self.0.range(first..).map(|(_, range)| *range);
        all.take_while(|range| range.first.volume == volume)
            .take(most)
            .collect()
    }
}

/// Takes ranges from the end of a list, so many and of so many blocks at most. One of which only a part fits is cut: its rest stays.
pub(crate) fn take_pieces(
    ranges: &mut Vec<ZeroRange>,
    (ranges_max, blocks_max): (usize, u64),
) -> Vec<ZeroRange> {
    let mut taken = Vec::new();
    let mut left = blocks_max;
    while taken.len() < ranges_max && left > 0 {
        let Some(range) = ranges.pop() else { break };
        let end = range.end().min(range.first.block + left);
        if end < range.end() {
            ranges.push(range.cut(end, range.end()));
        }
        let piece = range.cut(range.first.block, end);
        left -= piece.count;
        taken.push(piece);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: u64 = 24;

    fn range(first: u64, count: u64, sequence: u64) -> ZeroRange {
        ZeroRange {
            first: Key {
                volume: 1,
                block: first,
            },
            count,
            sequence,
            segment: sequence / 4,
        }
    }

    #[test]
    fn pieces_are_taken_from_the_end_and_none_is_lost() {
        let mut ranges = vec![range(0, 3, 7), range(10, 8, 8), range(20, 2, 9)];
        let taken = take_pieces(&mut ranges, (9, 5));
        assert_eq!(taken, [range(20, 2, 9), range(10, 3, 8)]);
        assert_eq!(ranges, [range(0, 3, 7), range(13, 5, 8)]);
        assert_eq!(take_pieces(&mut ranges, (1, 9)), [range(13, 5, 8)]);
        assert_eq!(take_pieces(&mut ranges, (9, 9)), [range(0, 3, 7)]);
        assert_eq!(take_pieces(&mut ranges, (9, 9)), []);
        let mut zeroed = Zeroed::default();
        zeroed.insert(range(3, 20, 1));
        let piece = |block| zeroed.piece(Key { volume: 1, block }, 8);
        assert_eq!(piece(4), Some(range(3, 5, 1)));
        assert_eq!(piece(9), Some(range(8, 8, 1)));
        assert_eq!(piece(22), Some(range(16, 7, 1)));
        assert_eq!(piece(23), None);
        let key = range(6, 4, 0).first;
        assert_eq!(zeroed.within(key, 4), [range(6, 4, 1)]);
    }

    proptest! {
        #[test]
        fn ranges_hold_what_an_array_holds(
            steps in prop::collection::vec((0u8..3, 0..BLOCKS, 1..BLOCKS, 0u64..6), 1..60)
        ) {
            let mut zeroed = Zeroed::default();
            zeroed.insert(ZeroRange { first: Key { volume: 2, block: 3 }, ..range(0, 5, 99) });
            let mut array = [None; BLOCKS as usize];
            for (number, (kind, first, count, old)) in (100..).zip(steps) {
                let count = count.min(BLOCKS - first);
                let one = range(first, count, number);
                let blocks = &mut array[first as usize..][..count as usize];
                match kind {
                    0 => {
                        zeroed.insert(one);
                        blocks.fill(Some(number));
                    }
                    1 => {
                        zeroed.remove(one.first, count, None);
                        blocks.fill(None);
                    }
                    _ => {
                        let old = number.saturating_sub(old);
                        zeroed.remove(one.first, count, Some(old));
                        for block in blocks.iter_mut().filter(|block| **block == Some(old)) {
                            *block = None;
                        }
                    }
                }
                for block in 0..BLOCKS {
                    let key = Key { volume: 1, block };
                    let found = zeroed.get(key).map(|range| range.sequence);
                    prop_assert_eq!(found, array[block as usize]);
                }
                let whole = zeroed.of_volume(1).iter().map(|range| range.count).sum::<u64>();
                prop_assert_eq!(whole, array.iter().flatten().count() as u64);
            }
            prop_assert_eq!(zeroed.of_volume(2).len(), 1);
        }
    }
}
