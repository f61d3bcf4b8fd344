//! Free places of a pool with rows: which groups hold pairs, which hold rows, and what is free in them.
//!
//! A group is a place in two rows on each member: as many pairs as there are members, or two rows. It changes from one to
//! the other only while all of it is free, which is when the record that removed its last mapping is fenced (I2). A
//! row is free as a whole, when the last of its columns is given back: until then the place of each is what its parity was
//! made of.
//!
//! Pairs are taken from groups that have some in use before those that have none, so that as many as can be are whole.

use std::sync::Mutex;

use crate::media::geometry::Geometry;
use crate::mutants::{Mutant, mutated};
use crate::sync::{AtomicU8, AtomicU64, Ordering};

/// Rows of a group.
const ROWS: u32 = 2;
/// Both of them, as bits.
const BOTH_ROWS: u8 = 3;

/// What the places of a group are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Pairs,
    Rows,
}

/// The stocks that groups are listed in, as bits.
const SOME_PAIRS: u8 = 1;
const WHOLE: u8 = 2;
const SOME_ROWS: u8 = 4;

struct Group {
    kind: Kind,
    /// A bit for each pair, or row.
    free: u8,
    /// The stocks whose list has it, also where it has left that stock since.
    listed: u8,
}

/// Lists of groups by what is free in them. A group that has left a stock is found out when it comes up.
#[derive(Default)]
struct Stocks {
    groups: Vec<Group>,
    some_pairs: Vec<u32>,
    whole: Vec<u32>,
    some_rows: Vec<u32>,
}

/// See the module.
pub(super) struct Groups {
    geometry: Geometry,
    /// All pairs of a group, as bits.
    all_pairs: u8,
    /// All columns of a row.
    all_columns: u8,
    stocks: Mutex<Stocks>,
    /// Pairs that are free, those of groups that are free as a whole included.
    free_pairs: AtomicU64,
    /// For each row a bit for each column that an entry or a thread has.
    held: Box<[AtomicU8]>,
}

impl Groups {
    /// What `used` does not name is free, but for columns of rows of which it names another one.
    pub(super) fn new(geometry: &Geometry, used: impl Fn(u32) -> bool) -> Groups {
        let held_of = |row| {
            let columns = (0..).zip(geometry.columns(row));
            let held = columns.filter(|(_, slot)| used(*slot));
            AtomicU8::new(held.fold(0, |bits, (column, _)| bits | 1 << column))
        };
        let groups = Groups {
            geometry: *geometry,
            all_pairs: (u32::from(u8::MAX) >> (u8::BITS - geometry.members)) as u8,
            all_columns: (u32::from(u8::MAX) >> (u8::BITS - geometry.row_width())) as u8,
            stocks: Mutex::default(),
            free_pairs: AtomicU64::new(0),
            held: (0..geometry.rows()).map(held_of).collect(),
        };
        let mut stocks = Stocks::default();
        for number in 0..geometry.groups() {
            let rows = number * ROWS..(number + 1) * ROWS;
            let is_free = |row: u32| groups.held[row as usize].load(Ordering::Relaxed) == 0;
            let bits_of = |free: &mut dyn Iterator<Item = bool>| {
                let numbered = (0..).zip(free);
                numbered.fold(0, |bits, (bit, is_free)| bits | u8::from(is_free) << bit)
            };
            let free_rows = bits_of(&mut rows.map(is_free));
            let first = number * geometry.members;
            let mut pairs = (first..first + geometry.members).map(|pair| !used(pair));
            let (kind, free) = match free_rows {
                BOTH_ROWS => (Kind::Pairs, bits_of(&mut pairs)),
                free => (Kind::Rows, free),
            };
            stocks.groups.push(Group {
                kind,
                free,
                listed: 0,
            });
            if kind == Kind::Pairs {
                groups.count_free(u64::from(free.count_ones()));
            }
            groups.list(&mut stocks, number);
        }
        *groups
            .stocks
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = stocks;
        groups
    }

    fn count_free(&self, pairs: u64) {
        self.free_pairs.fetch_add(pairs, Ordering::Relaxed);
    }
    fn count_taken(&self, pairs: u64) {
        self.free_pairs.fetch_sub(pairs, Ordering::Relaxed);
    }

    /// The stock that a group belongs to.
    fn stock_of(&self, group: &Group) -> u8 {
        match (group.kind, group.free) {
            (_, 0) => 0,
            (Kind::Pairs, free) if free == self.all_pairs => WHOLE,
            (Kind::Pairs, _) => SOME_PAIRS,
            (Kind::Rows, _) => SOME_ROWS,
        }
    }

    /// Has the list of a group's stock have it.
    fn list(&self, stocks: &mut Stocks, number: u32) {
        let group = &mut stocks.groups[number as usize];
        let stock = self.stock_of(group);
        if stock == 0 || group.listed & stock != 0 {
            return;
        }
        group.listed |= stock;
        let list = match stock {
            SOME_PAIRS => &mut stocks.some_pairs,
            WHOLE => &mut stocks.whole,
            _ => &mut stocks.some_rows,
        };
        list.push(number);
    }

    /// A group of a stock, which has it no more until it is listed again.
    fn unlist(&self, stocks: &mut Stocks, stock: u8) -> Option<u32> {
        loop {
            let list = match stock {
                SOME_PAIRS => &mut stocks.some_pairs,
                WHOLE => &mut stocks.whole,
                _ => &mut stocks.some_rows,
            };
            let number = list.pop()?;
            let group = &mut stocks.groups[number as usize];
            group.listed &= !stock;
            if self.stock_of(group) == stock {
                return Some(number);
            }
        }
    }

    /// Takes up to so many pairs, which `take` is shown.
    pub(super) fn take_pairs(&self, wanted: u32, mut take: impl FnMut(u32)) {
        let mut stocks = forebay_pmem::lock_or_yield(&self.stocks);
        let mut left = wanted;
        while left > 0 {
            let some = self.unlist(&mut stocks, SOME_PAIRS);
            let Some(number) = some.or_else(|| self.unlist(&mut stocks, WHOLE)) else {
                break;
            };
            let group = &mut stocks.groups[number as usize];
            while group.free != 0 && left > 0 {
                let bit = group.free.trailing_zeros();
                group.free &= group.free - 1;
                left -= 1;
                take(number * self.geometry.members + bit);
            }
            self.list(&mut stocks, number);
        }
        self.count_taken(u64::from(wanted - left));
    }

    /// Gives a pair back.
    pub(super) fn give_pair(&self, slot: u32) {
        let mut stocks = forebay_pmem::lock_or_yield(&self.stocks);
        let (number, bit) = (slot / self.geometry.members, slot % self.geometry.members);
        let group = &mut stocks.groups[number as usize];
        assert!(
            group.kind == Kind::Pairs && group.free >> bit & 1 == 0,
            "a pair is freed once, and its group has no rows (slot {slot})"
        );
        group.free |= 1 << bit;
        self.list(&mut stocks, number);
        self.count_free(1);
    }

    /// Takes a row, all its columns.
    pub(super) fn take_row(&self) -> Option<u32> {
        let mut stocks = forebay_pmem::lock_or_yield(&self.stocks);
        let some = self.unlist(&mut stocks, SOME_ROWS);
        let number = match some {
            Some(number) => number,
            None => self.make_rows(&mut stocks)?,
        };
        let group = &mut stocks.groups[number as usize];
        let bit = group.free.trailing_zeros();
        group.free &= group.free - 1;
        self.list(&mut stocks, number);
        let row = number * ROWS + bit;
        // Relaxed: the lock orders it before the next look.
        self.held[row as usize].store(self.all_columns, Ordering::Relaxed);
        Some(row)
    }

    /// Makes rows of a group that is free.
    fn make_rows(&self, stocks: &mut Stocks) -> Option<u32> {
        let whole = self.unlist(stocks, WHOLE);
        let number = match mutated(Mutant::GroupTakenWithPairs) {
            true => whole.or_else(|| self.unlist(stocks, SOME_PAIRS))?,
            false => whole?,
        };
        let group = &mut stocks.groups[number as usize];
        self.count_taken(u64::from(group.free.count_ones()));
        (group.kind, group.free) = (Kind::Rows, BOTH_ROWS);
        Some(number)
    }

    /// Gives a column of a row back. With its last one the row is free.
    pub(super) fn give_column(&self, slot: u32) {
        let column = self.geometry.column_of(slot).expect("it is a column");
        let bit = 1 << column.number;
        // AcqRel: whatever the others did with the row is over.
        let before = self.held[column.row as usize].fetch_and(!bit, Ordering::AcqRel);
        assert!(
            before & bit != 0 || mutated(Mutant::RowFreedWithMate),
            "a column is freed once (slot {slot})"
        );
        let is_free = match mutated(Mutant::RowFreedWithMate) {
            true => before == self.all_columns,
            false => before == bit,
        };
        if is_free {
            self.give_row(column.row);
        }
    }

    fn give_row(&self, row: u32) {
        let mut stocks = forebay_pmem::lock_or_yield(&self.stocks);
        let (number, bit) = (row / ROWS, row % ROWS);
        let group = &mut stocks.groups[number as usize];
        assert!(
            group.kind == Kind::Rows && group.free >> bit & 1 == 0,
            "a row is freed once, and its group has no pairs (row {row})"
        );
        group.free |= 1 << bit;
        if group.free == BOTH_ROWS {
            (group.kind, group.free) = (Kind::Pairs, self.all_pairs);
            self.count_free(u64::from(self.geometry.members));
        }
        self.list(&mut stocks, number);
    }

    /// The first column of a slot's row that an entry or a thread has.
    pub(super) fn first_held_of(&self, row: u32) -> Option<u32> {
        let held = self.held[row as usize].load(Ordering::Acquire);
        (held != 0).then(|| self.geometry.columns(row).start + held.trailing_zeros())
    }

    /// Pairs that any thread could take now.
    pub(super) fn free_pairs(&self) -> u64 {
        self.free_pairs.load(Ordering::Relaxed)
    }

    /// Bytes of DRAM.
    pub(super) fn dram_bytes(&self) -> u64 {
        // Each group is in one list at least, of which each has grown to twice what it held at most.
        let groups = u64::from(self.geometry.groups());
        self.held.len() as u64 + groups * (size_of::<Group>() as u64 + 2 * size_of::<u32>() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{FormatOptions, Redundancy};

    fn tiny(members: u32) -> Geometry {
        let options = FormatOptions {
            block_bytes: 128,
            lanes: Some(2),
            lane_bytes: Some(512),
            volumes: 1,
            unit_bytes: 256,
            redundancy: Redundancy::Parity,
            ..FormatOptions::default()
        };
        Geometry::plan(&options, members, 8192).expect("plan")
    }

    fn all_pairs(groups: &Groups) -> Vec<u32> {
        let mut pairs = Vec::new();
        groups.take_pairs(u32::MAX, |pair| pairs.push(pair));
        pairs
    }

    #[test]
    fn every_pair_once_and_every_row_once() {
        for members in [3, 4, 8] {
            let geometry = tiny(members);
            let groups = Groups::new(&geometry, |_| false);
            assert_eq!(groups.free_pairs(), u64::from(geometry.pairs()));
            let mut pairs = all_pairs(&groups);
            assert!(groups.take_row().is_none() && groups.free_pairs() == 0);
            pairs.sort_unstable();
            assert!(pairs.iter().copied().eq(0..geometry.pairs()));
            pairs.iter().for_each(|pair| groups.give_pair(*pair));
            let mut rows: Vec<u32> = std::iter::from_fn(|| groups.take_row()).collect();
            assert_eq!(groups.free_pairs(), 0);
            assert!(all_pairs(&groups).is_empty());
            rows.sort_unstable();
            assert!(rows.iter().copied().eq(0..geometry.rows()));
            let columns = rows.iter().flat_map(|row| geometry.columns(*row));
            columns.for_each(|slot| groups.give_column(slot));
            assert_eq!(groups.free_pairs(), u64::from(geometry.pairs()));
        }
    }

    #[test]
    fn a_row_is_free_with_its_last_column_and_a_group_with_its_last_row() {
        let geometry = tiny(3);
        let groups = Groups::new(&geometry, |slot| slot < geometry.pairs() - 3);
        let (one, other) = (groups.take_row(), groups.take_row());
        let (one, other) = (one.expect("a row"), other.expect("a row"));
        assert!(groups.take_row().is_none());
        let columns: Vec<u32> = geometry.columns(one).collect();
        groups.give_column(columns[0]);
        assert_eq!(groups.first_held_of(one), Some(columns[1]));
        assert!(groups.take_row().is_none(), "a column is in use");
        groups.give_column(columns[1]);
        assert_eq!(groups.free_pairs(), 0, "its other row is in use");
        assert_eq!(groups.take_row(), Some(one));
        for row in [one, other] {
            geometry
                .columns(row)
                .for_each(|slot| groups.give_column(slot));
        }
        assert_eq!(groups.free_pairs(), 3);
        assert_eq!(all_pairs(&groups).len(), 3);
    }

    #[test]
    fn pairs_come_from_groups_that_have_some_in_use() {
        let geometry = tiny(4);
        let groups = Groups::new(&geometry, |slot| slot == 5);
        let mut taken = Vec::new();
        groups.take_pairs(3, |pair| taken.push(pair));
        taken.sort_unstable();
        assert_eq!(taken, [4, 6, 7]);
    }

    #[test]
    fn what_entries_name_decides_what_a_group_is() {
        let geometry = tiny(3);
        let named = geometry.columns(2).start;
        let groups = Groups::new(&geometry, |slot| slot == named || slot == 0);
        let pairs = all_pairs(&groups);
        assert!((1..3).all(|pair| pairs.contains(&pair)));
        assert!((3..6).all(|pair| !pairs.contains(&pair)));
        assert_eq!(groups.take_row(), Some(3));
        groups.give_column(named);
        assert_eq!(groups.take_row(), Some(2));
    }
}
