//! A table of values of many sizes, as Redis' dictionary is: a SET makes a new value, hangs it where the old one was,
//! and gives the old one up, in one transaction. A GET reads, and is none: Redis' GETs are transactions only for the sake of its
//! rehashing, a step of which every request does there. The chains are those of the hashmap.

use super::hashmap;
use super::map::{Map, MapKind};
use crate::txb::error::Result;
use crate::txb::heap::Heap;
use crate::txb::layout::Object;

/// Words of a value before its bytes.
const LENGTH: u64 = 0;
const VALUE: u64 = 1;

/// The table.
#[derive(Clone, Copy, Debug)]
pub struct Table(Map);

impl Table {
    /// Makes an empty one, for so many keys.
    ///
    /// # Errors
    /// There is no room; the medium's.
    pub fn create(heap: &mut Heap, keys: u64) -> Result<Table> {
        Map::create(heap, MapKind::Hashmap, keys).map(Table)
    }

    /// Finds the one that is there.
    #[must_use]
    pub fn open(heap: &Heap) -> Table {
        Table(Map::open(heap, MapKind::Hashmap))
    }

    /// Gives a key its value, in a transaction.
    ///
    /// # Errors
    /// There is no room; the medium's.
    pub fn set(&self, heap: &mut Heap, key: u64, value: &[u64]) -> Result<()> {
        let map = self.0;
        heap.run(|tx| {
            let new = tx.alloc(VALUE + value.len() as u64)?;
            tx.fill(new, &[value.len() as u64])?;
            for (word, part) in (VALUE..).zip(value) {
                tx.set(new, word, *part)?;
            }
            let old = hashmap::get(tx, map.object, key);
            hashmap::insert(tx, map.object, (key, new.to_word()))?;
            match old {
                Some(old) => tx.free(Object::from_word(old)),
                None => Ok(()),
            }
        })
    }

    /// The words of a key's value.
    #[must_use]
    pub fn get(&self, heap: &Heap, key: u64) -> Option<Vec<u64>> {
        let value = Object::from_word(self.0.get(heap, key)?);
        let words = VALUE..VALUE + heap.get(value, LENGTH);
        Some(words.map(|word| heap.get(value, word)).collect())
    }
}
