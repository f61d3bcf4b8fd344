//! Any of the maps.

use super::{btree, ctree, hashmap, rbtree};
use crate::txb::error::Result;
use crate::txb::heap::Heap;
use crate::txb::layout::Object;

/// Which map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapKind {
    /// A table of chains.
    Hashmap,
    /// A crit-bit tree.
    CTree,
    /// A red-black tree.
    RbTree,
    /// A B-tree of order 8.
    BTree,
}

impl MapKind {
    /// All of them.
    pub const ALL: [MapKind; 4] = [
        MapKind::Hashmap,
        MapKind::CTree,
        MapKind::RbTree,
        MapKind::BTree,
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MapKind::Hashmap => "hashmap",
            MapKind::CTree => "ctree",
            MapKind::RbTree => "rbtree",
            MapKind::BTree => "btree",
        }
    }
}

/// A map in a heap, from keys above zero to words.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    kind: MapKind,
    pub(super) object: Object,
}

impl Map {
    /// Makes an empty one, which the heap's program finds from then on. `keys` is how many it is made for.
    ///
    /// # Errors
    /// There is no room; the medium's.
    pub fn create(heap: &mut Heap, kind: MapKind, keys: u64) -> Result<Map> {
        heap.run(|tx| {
            let object = match kind {
                MapKind::Hashmap => hashmap::create(tx, keys),
                MapKind::CTree => ctree::create(tx),
                MapKind::RbTree => rbtree::create(tx),
                MapKind::BTree => btree::create(tx),
            }?;
            tx.set_program(object)?;
            Ok(Map { kind, object })
        })
    }

    /// Finds the one that is there.
    #[must_use]
    pub fn open(heap: &Heap, kind: MapKind) -> Map {
        let object = heap.program();
        Map { kind, object }
    }

    /// Gives a key its value, in a transaction.
    ///
    /// # Errors
    /// There is no room; the medium's.
    pub fn insert(&self, heap: &mut Heap, key: u64, value: u64) -> Result<()> {
        heap.run(|tx| match self.kind {
            MapKind::Hashmap => hashmap::insert(tx, self.object, (key, value)),
            MapKind::CTree => ctree::insert(tx, self.object, (key, value)),
            MapKind::RbTree => rbtree::insert(tx, self.object, (key, value)),
            MapKind::BTree => btree::insert(tx, self.object, (key, value)),
        })
    }

    /// Takes a key out, in a transaction; the value that it had.
    ///
    /// # Errors
    /// The medium's.
    pub fn remove(&self, heap: &mut Heap, key: u64) -> Result<Option<u64>> {
        heap.run(|tx| match self.kind {
            MapKind::Hashmap => hashmap::remove(tx, self.object, key),
            MapKind::CTree => ctree::remove(tx, self.object, key),
            MapKind::RbTree => rbtree::remove(tx, self.object, key),
            MapKind::BTree => btree::remove(tx, self.object, key),
        })
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, heap: &Heap, key: u64) -> Option<u64> {
        match self.kind {
            MapKind::Hashmap => hashmap::get(heap, self.object, key),
            MapKind::CTree => ctree::get(heap, self.object, key),
            MapKind::RbTree => rbtree::get(heap, self.object, key),
            MapKind::BTree => btree::get(heap, self.object, key),
        }
    }
}
