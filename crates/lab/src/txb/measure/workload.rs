//! What the programs do: the paper's loads (§4.2, §4.3) in its shapes, smaller.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::txb::error::Result;
use crate::txb::heap::Heap;
use crate::txb::maps::{Map, MapKind, Table};

/// Bytes of the table's values: as many of each power of two.
const VALUE_BYTES: std::ops::RangeInclusive<u64> = 64..=1024;

/// What is done to a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapLoad {
    /// New keys.
    Insert,
    /// As many values that change as keys that are looked up.
    Balanced,
    /// Keys that go.
    Remove,
    /// Keys that are looked up.
    Lookup,
}

/// A program and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// One of libpmemobj's maps.
    Map(MapKind, MapLoad),
    /// The table of values, set.
    TableSet,
    /// The same, read.
    TableGet,
}

impl Workload {
    /// All of them, load by load.
    #[must_use]
    pub fn all() -> Vec<Workload> {
        let loads = [
            MapLoad::Insert,
            MapLoad::Balanced,
            MapLoad::Remove,
            MapLoad::Lookup,
        ];
        let maps = loads
            .into_iter()
            .flat_map(|load| MapKind::ALL.map(|kind| Workload::Map(kind, load)));
        maps.chain([Workload::TableSet, Workload::TableGet])
            .collect()
    }

    /// The program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Workload::Map(kind, _) => kind.as_str(),
            Workload::TableSet | Workload::TableGet => "table",
        }
    }

    /// What it does.
    #[must_use]
    pub fn load(self) -> &'static str {
        match self {
            Workload::Map(_, MapLoad::Insert) => "insert",
            Workload::Map(_, MapLoad::Balanced) => "balanced",
            Workload::Map(_, MapLoad::Remove) => "remove",
            Workload::Map(_, MapLoad::Lookup) => "lookup",
            Workload::TableSet => "set",
            Workload::TableGet => "get",
        }
    }

    /// Keys that are there before the first of so many rounds.
    pub(super) fn keys_before(self, keys: u64, (rounds, operations): (u64, u64)) -> u64 {
        match self {
            Workload::Map(_, MapLoad::Remove) => keys + rounds * operations,
            _ => keys,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}", self.program(), self.load()))
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// One thing that a program is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Put { key: u64, value: u64 },
    Remove { key: u64 },
    Get { key: u64 },
}

/// A program in a heap.
#[derive(Clone, Copy, Debug)]
pub(super) enum Program {
    Map(Map),
    Table(Table),
}

impl Program {
    pub fn create(heap: &mut Heap, workload: Workload, keys: u64) -> Result<Program> {
        match workload {
            Workload::Map(kind, _) => Map::create(heap, kind, keys).map(Program::Map),
            Workload::TableSet | Workload::TableGet => {
                Table::create(heap, keys).map(Program::Table)
            }
        }
    }

    /// Does it; what was read, so that reading cannot be left out.
    pub fn run(self, heap: &mut Heap, operation: Operation) -> Result<u64> {
        match (self, operation) {
            (Program::Map(map), Operation::Put { key, value }) => {
                map.insert(heap, key, value).map(|()| 0)
            }
            (Program::Map(map), Operation::Remove { key }) => {
                Ok(map.remove(heap, key)?.unwrap_or(0))
            }
            (Program::Map(map), Operation::Get { key }) => Ok(map.get(heap, key).unwrap_or(0)),
            (Program::Table(table), Operation::Put { key, value }) => {
                let words = [value; (*VALUE_BYTES.end() / 8) as usize];
                let count = value_words(value);
                table.set(heap, key, &words[..count]).map(|()| 0)
            }
            (Program::Table(table), Operation::Get { key }) => {
                let value = table.get(heap, key).unwrap_or_default();
                Ok(value.iter().fold(0, |sum, word| sum ^ word))
            }
            (Program::Table(_), Operation::Remove { .. }) => {
                unreachable!("tables have no removals")
            }
        }
    }
}

/// How long a value of the table is: as likely between 64 and 128 bytes as between 512 and 1024.
fn value_words(value: u64) -> usize {
    let (least, most) = (*VALUE_BYTES.start(), *VALUE_BYTES.end());
    let doublings = u64::from((most / least).ilog2());
    let half = least << (value % doublings);
    ((half + value / doublings % half) / 8) as usize
}

/// The key of this number: distinct ones for distinct numbers, in no order, and none of them zero.
pub(super) fn key(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The operations of one round, the same for every design.
pub(super) fn operations(
    workload: Workload,
    (keys, count): (u64, u64),
    round: u64,
) -> Vec<Operation> {
    let mut rng = fastrand::Rng::with_seed(round);
    let mut any = || key(rng.u64(..keys));
    let mut values = fastrand::Rng::with_seed(!round);
    let mut value = || values.u64(..);
    let one = |number: u64| match workload {
        Workload::Map(_, MapLoad::Insert) => Operation::Put {
            key: key(keys + round * count + number),
            value: value(),
        },
        Workload::Map(_, MapLoad::Remove) => Operation::Remove {
            key: key(round * count + number),
        },
        Workload::Map(_, MapLoad::Balanced) if number % 2 == 1 => Operation::Get { key: any() },
        Workload::Map(_, MapLoad::Lookup) | Workload::TableGet => Operation::Get { key: any() },
        Workload::Map(_, MapLoad::Balanced) | Workload::TableSet => Operation::Put {
            key: any(),
            value: value(),
        },
    };
    (0..count).map(one).collect()
}

/// The operations that make the keys that are there before.
pub(super) fn preparation(keys: u64) -> impl Iterator<Item = Operation> {
    let mut values = fastrand::Rng::with_seed(u64::MAX);
    (0..keys).map(move |number| Operation::Put {
        key: key(number),
        value: values.u64(..),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_sizes_that_are_said() {
        let words: Vec<usize> = (0..4000).map(value_words).collect();
        let bytes = |words: &usize| *words as u64 * 8;
        assert!(
            words
                .iter()
                .map(bytes)
                .all(|bytes| VALUE_BYTES.contains(&bytes))
        );
        let small = words.iter().filter(|words| **words < 16).count();
        assert_eq!(small, 1000, "a quarter is below 128 bytes");
    }

    #[test]
    fn removals_take_what_is_there_and_insertions_make_what_is_not() {
        let (keys, rounds, count) = (10, 3, 4);
        let remove = Workload::Map(MapKind::CTree, MapLoad::Remove);
        let before = remove.keys_before(keys, (rounds, count));
        let there: Vec<u64> = (0..before).map(key).collect();
        let insert = Workload::Map(MapKind::CTree, MapLoad::Insert);
        let mut all = Vec::new();
        for round in 0..rounds {
            for operation in operations(remove, (keys, count), round) {
                assert!(matches!(operation, Operation::Remove { key } if there.contains(&key)));
                all.push(operation);
            }
            for operation in operations(insert, (keys, count), round) {
                let is_new = |key| !there[..keys as usize].contains(&key);
                assert!(matches!(operation, Operation::Put { key, .. } if is_new(key)));
                all.push(operation);
            }
        }
        let distinct = |operation: &Operation| format!("{operation:?}");
        let names: std::collections::BTreeSet<String> = all.iter().map(distinct).collect();
        assert_eq!(names.len(), all.len());
    }
}
