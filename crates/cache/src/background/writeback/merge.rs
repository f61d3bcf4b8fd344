//! The blocks of a round as runs: neighbours on the disk are written together.

use crate::backing::FaultDomain;
use crate::media::entry::{Entry, Key, Kind};
use crate::policy::plan;

/// A block that was copied out.
pub(super) struct InFlightBlock {
    pub(super) index: u32,
    pub(super) key: Key,
    pub(super) entry: Entry,
    /// Of the backing.
    pub(super) domain: FaultDomain,
}

/// Neighbouring blocks of one round, all data or all zero, in one fault domain of the backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) zero: bool,
}

/// Merges neighbours of one volume, sorted by block, into extents of at most `blocks_max`.
pub(super) fn extents(in_flight: &[InFlightBlock], blocks_max: usize) -> Vec<Extent> {
    let is_zero = |block: &InFlightBlock| block.entry.kind() == Kind::Zero;
    let runs = plan::runs(
        in_flight,
        |one, next| {
            is_zero(one) == is_zero(next)
                && one.key.block() + 1 == next.key.block()
                && one.domain == next.domain
        },
        |first| {
            if is_zero(first) {
                usize::MAX
            } else {
                blocks_max
            }
        },
    );
    let extent = |run: std::ops::Range<usize>| Extent {
        first: run.start,
        count: run.len(),
        zero: is_zero(&in_flight[run.start]),
    };
    runs.into_iter().map(extent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_flight(block: u64, zero: bool) -> InFlightBlock {
        let key = Key::new(1, block);
        let entry = if zero {
            Entry::zero(key)
        } else {
            Entry::data(key, 1, 0)
        };
        InFlightBlock {
            index: 0,
            key,
            entry,
            domain: FaultDomain(block / 100),
        }
    }

    fn merged(blocks: &[(u64, bool)], blocks_max: usize) -> Vec<(usize, usize, bool)> {
        let in_flight: Vec<InFlightBlock> = blocks
            .iter()
            .map(|(block, zero)| in_flight(*block, *zero))
            .collect();
        extents(&in_flight, blocks_max)
            .iter()
            .map(|e| (e.first, e.count, e.zero))
            .collect()
    }

    #[test]
    fn neighbours_merge_up_to_the_limit_and_gaps_part_them() {
        let data = |blocks: &[u64]| {
            blocks
                .iter()
                .map(|block| (*block, false))
                .collect::<Vec<_>>()
        };
        assert_eq!(merged(&data(&[]), 4), []);
        assert_eq!(
            merged(&data(&[3, 4, 5, 9, 11, 12]), 4),
            [(0, 3, false), (3, 1, false), (4, 2, false)]
        );
        assert_eq!(
            merged(&data(&[98, 99, 100, 101]), 4),
            [(0, 2, false), (2, 2, false)],
            "domains of the backing"
        );
        assert_eq!(
            merged(&data(&[1, 2, 3, 4, 5]), 2),
            [(0, 2, false), (2, 2, false), (4, 1, false)]
        );
    }

    #[test]
    fn zero_blocks_are_extents_of_their_own_without_a_limit() {
        let blocks = [(1, false), (2, true), (3, true), (4, true), (5, false)];
        assert_eq!(
            merged(&blocks, 2),
            [(0, 1, false), (1, 3, true), (4, 1, false)]
        );
    }
}
