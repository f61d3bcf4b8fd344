//! What is left of a rescue that takes several groups: once the first of them is begun, all have room (S11).

use std::collections::VecDeque;

/// What is left of one.
pub(crate) struct Rescue {
    /// Elements and blocks of each group to come, at most, in their order.
    groups: VecDeque<(usize, usize)>,
    /// Free segments below which it does not go.
    pub(crate) least_free: u64,
    /// Elements of a group that carries pieces of ranges; none if no ranges are carried.
    pieces_max: Option<usize>,
}

impl Rescue {
    /// One of these groups. Where it carries ranges of zeroes, in groups of so many elements, each element that joins may cut some.
    pub(crate) fn new(
        groups: Vec<(usize, usize)>,
        least_free: u64,
        pieces_max: Option<usize>,
    ) -> Rescue {
        Rescue {
            groups: groups.into(),
            least_free,
            pieces_max,
        }
    }

    /// Its groups to come.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.groups.iter().copied()
    }

    /// The groups that it takes more behind a transaction of so many elements.
    pub(crate) fn cut_by(&self, elements: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let at_once = self.pieces_max;
        at_once
            .into_iter()
            .flat_map(move |at_once| cut_groups(elements, at_once))
    }

    /// A transaction of so many elements has joined.
    pub(crate) fn note_joined(&mut self, elements: usize) {
        let cut = self.cut_by(elements);
        self.groups.extend(cut);
    }

    /// What its next group has at most.
    pub(crate) fn next_group(&mut self) -> Option<(usize, usize)> {
        self.groups.pop_front()
    }
}

/// The groups in which so many blocks, and then so many ranges, are carried, of so many elements at most.
pub(crate) fn carried_groups(
    (blocks, ranges): (usize, usize),
    at_once: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let all = blocks + ranges;
    (0..all).step_by(at_once).map(move |from| {
        let elements = at_once.min(all - from);
        (elements, elements.min(blocks.saturating_sub(from)))
    })
}

/// The groups for what so many elements may leave of ranges: while one is staged over a range, that is not carried, and what is left of it
/// behind the element is two pieces at most.
pub(crate) fn cut_groups(elements: usize, at_once: usize) -> impl Iterator<Item = (usize, usize)> {
    carried_groups((0, 2 * elements), at_once)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_go_first_and_the_last_group_has_what_is_left() {
        let groups = |counts| carried_groups(counts, 4).collect::<Vec<_>>();
        assert_eq!(groups((0, 0)), []);
        assert_eq!(groups((4, 0)), [(4, 4)]);
        assert_eq!(groups((5, 4)), [(4, 4), (4, 1), (1, 0)]);
    }

    #[test]
    fn what_joins_adds_pieces_where_ranges_are_carried() {
        let mut rescue = Rescue::new(vec![(4, 4), (2, 0)], 1, Some(4));
        rescue.note_joined(3);
        assert_eq!(rescue.next_group(), Some((4, 4)));
        assert!(rescue.groups().eq([(2, 0), (4, 0), (2, 0)]));
        let mut rescue = Rescue::new(vec![(4, 4)], 1, None);
        rescue.note_joined(3);
        assert!(rescue.groups().eq([(4, 4)]));
    }
}
