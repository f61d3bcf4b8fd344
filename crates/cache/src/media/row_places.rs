//! Where the columns of rows are, and their parity.
//!
//! A row is a place on each member, all at one offset. One of them, in turn, has the parity of the others, its columns. A
//! group is two rows of places: those of as many pairs as there are members, or of two rows of columns. The slots
//! of a mirror's pairs come first in the count of slots, and the columns of all rows behind them, row by row: a
//! slot's number tells what it is.

use std::ops::Range;

use crate::media::geometry::Geometry;

impl Geometry {
    /// Slots that are no columns of rows: of a pool without rows all.
    #[inline]
    pub(crate) fn pairs(&self) -> u32 {
        self.room()
    }
    /// Rows of columns; none of a pool without.
    pub(crate) fn rows(&self) -> u32 {
        match self.has_rows {
            true => self.slots_per_member,
            false => 0,
        }
    }
    /// Groups of a pool with rows.
    pub(crate) fn groups(&self) -> u32 {
        self.rows() / 2
    }
    /// Columns of a row.
    #[inline]
    pub(crate) fn row_width(&self) -> u32 {
        self.members - 1
    }
    /// The row that a slot is a column of, if it is one, and which.
    #[inline]
    pub(crate) fn column_of(&self, slot: u32) -> Option<Column> {
        if !self.has_rows {
            return None;
        }
        let number = slot.checked_sub(self.pairs())?;
        Some(Column {
            row: number / self.row_width(),
            number: number % self.row_width(),
        })
    }
    /// The slots of a row's columns.
    pub(crate) fn columns(&self, row: u32) -> Range<u32> {
        debug_assert!(row < self.rows());
        let first = self.pairs() + row * self.row_width();
        first..first + self.row_width()
    }
    /// The group that a slot's places are in, of a pool with rows.
    pub(crate) fn group_of(&self, slot: u32) -> u32 {
        debug_assert!(self.has_rows);
        match self.column_of(slot) {
            Some(column) => column.row / 2,
            None => slot / self.members,
        }
    }
    /// Where a row is on each member.
    #[inline]
    pub(crate) fn row_offset(&self, row: u32) -> u64 {
        self.slot_area + u64::from(row) * u64::from(self.block_bytes)
    }
    /// The member that has the parity of a row.
    #[inline]
    pub(crate) fn parity_member(&self, row: u32) -> u32 {
        row % self.members
    }
    /// The member that has a column.
    #[inline]
    pub(crate) fn column_member(&self, column: Column) -> u32 {
        (self.parity_member(column.row) + 1 + column.number) % self.members
    }
}

/// A column of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    pub(crate) row: u32,
    /// From 0, below the row's width.
    pub(crate) number: u32,
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::media::geometry::MIRROR_MEMBERS_MAX;
    use crate::options::{FormatOptions, Redundancy};

    fn plan(members: u32, member_bytes: u64) -> Geometry {
        let options = FormatOptions {
            redundancy: Redundancy::Parity,
            ..FormatOptions::default()
        };
        Geometry::plan(&options, members, member_bytes).expect("plan")
    }

    #[test]
    fn a_row_has_one_place_on_each_member_and_its_group_those_of_pairs() {
        for members in 3..=MIRROR_MEMBERS_MAX {
            let geometry = plan(members, 16 << 20);
            geometry.check().expect("it is possible");
            let mut by_place = HashMap::new();
            for slot in 0..geometry.pairs() {
                assert_eq!(geometry.column_of(slot), None);
                let pair = geometry.slot_pair(slot);
                let group = geometry.group_of(slot);
                by_place.insert((pair.first, pair.first_offset), group);
                by_place.insert((pair.second, pair.second_offset), group);
            }
            let rooms = geometry.slots_per_member * members;
            assert_eq!(by_place.len() as u32, rooms);
            for row in 0..geometry.rows() {
                let offset = geometry.row_offset(row);
                let mut taken = vec![geometry.parity_member(row)];
                for slot in geometry.columns(row) {
                    let column = geometry.column_of(slot).expect("it is a column");
                    assert_eq!(column.row, row);
                    taken.push(geometry.column_member(column));
                    assert_eq!(geometry.group_of(slot), row / 2);
                }
                taken.sort_unstable();
                assert!(taken.into_iter().eq(0..members), "row {row} of {members}");
                for member in 0..members {
                    assert_eq!(by_place.remove(&(member, offset)), Some(row / 2));
                }
            }
            assert!(by_place.is_empty(), "each place is of a row");
            let last = geometry.columns(geometry.rows() - 1).end;
            assert_eq!(last, geometry.slots());
        }
    }

    #[test]
    fn a_pool_of_rows_has_room_for_what_fills_them_and_grows() {
        let (mirror, rows) = (
            Geometry::plan(
                &FormatOptions {
                    redundancy: Redundancy::Mirror,
                    ..FormatOptions::default()
                },
                4,
                64 << 20,
            )
            .expect("plan"),
            plan(4, 64 << 20),
        );
        let columns = rows.slots() - rows.pairs();
        assert!(rows.pairs() * 100 > mirror.slots() * 98);
        assert_eq!(columns, rows.pairs() / 4 * 2 * 3);
        assert!(rows.entries > columns);
        assert_eq!(mirror.column_of(mirror.slots() - 1), None);
        let grown = rows.grown(128 << 20).expect("grow");
        assert!(grown.has_rows && grown.rows() > rows.rows());
        assert_eq!(grown, rows.with_sizes(grown.sizes()));
    }

    #[test]
    fn two_members_and_more_than_eight_have_no_rows() {
        let options = FormatOptions {
            redundancy: Redundancy::Parity,
            ..FormatOptions::default()
        };
        for members in [1, 2, MIRROR_MEMBERS_MAX + 1] {
            assert!(Geometry::plan(&options, members, 16 << 20).is_err());
        }
    }
}
