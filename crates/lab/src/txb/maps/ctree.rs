//! `ctree_map`: a crit-bit tree. An entry of a node is a leaf with its key, or another node.

use std::ops::Range;

use crate::txb::error::Result;
use crate::txb::heap::{Heap, Transaction};
use crate::txb::layout::Object;

// An entry: what it is, the key of a leaf, the leaf's value or the node.
const KIND: u64 = 0;
const KEY: u64 = 1;
const SLOT: u64 = 2;
const ENTRY_WORDS: u64 = 3;
const EMPTY: u64 = 0;
const LEAF: u64 = 1;
const NODE: u64 = 2;
// A node: the bit that tells its two entries apart, and these.
const BIT: u64 = 0;
const ENTRIES: u64 = 1;
const NODE_WORDS: u64 = ENTRIES + 2 * ENTRY_WORDS;

/// Where an entry lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    object: Object,
    word: u64,
}

impl Place {
    /// The map is one entry.
    fn first(map: Object) -> Place {
        Place {
            object: map,
            word: 0,
        }
    }

    fn words(self) -> Range<u64> {
        self.word..self.word + ENTRY_WORDS
    }

    fn get(self, heap: &Heap, field: u64) -> u64 {
        heap.get(self.object, self.word + field)
    }

    fn read(self, heap: &Heap) -> [u64; 3] {
        [KIND, KEY, SLOT].map(|field| self.get(heap, field))
    }

    /// Stores an entry that was added before, or is new.
    fn put(self, tx: &mut Transaction<'_>, entry: [u64; 3]) -> Result<()> {
        for (field, value) in (0..).zip(entry) {
            tx.set(self.object, self.word + field, value)?;
        }
        Ok(())
    }
}

pub(super) fn create(tx: &mut Transaction<'_>) -> Result<Object> {
    let map = tx.alloc(ENTRY_WORDS)?;
    tx.fill(map, &[EMPTY, 0, 0])?;
    Ok(map)
}

fn child(node: Object, side: u64) -> Place {
    Place {
        object: node,
        word: ENTRIES + side * ENTRY_WORDS,
    }
}

fn side(key: u64, bit: u64) -> u64 {
    key >> bit & 1
}

/// The entry where a key's leaf is or would be, and the one above.
fn find(heap: &Heap, map: Object, key: u64) -> (Place, Option<(Place, u64)>) {
    let (mut place, mut above) = (Place::first(map), None);
    while place.get(heap, KIND) == NODE {
        let node = Object::from_word(place.get(heap, SLOT));
        let side = side(key, heap.get(node, BIT));
        above = Some((place, side));
        place = child(node, side);
    }
    (place, above)
}

fn is_leaf_of(entry: [u64; 3], key: u64) -> bool {
    entry[KIND as usize] == LEAF && entry[KEY as usize] == key
}

pub(super) fn get(heap: &Heap, map: Object, key: u64) -> Option<u64> {
    let entry = find(heap, map, key).0.read(heap);
    is_leaf_of(entry, key).then_some(entry[SLOT as usize])
}

pub(super) fn insert(
    tx: &mut Transaction<'_>,
    map: Object,
    (key, value): (u64, u64),
) -> Result<()> {
    let (place, _) = find(tx, map, key);
    let there = place.read(tx);
    if there[KIND as usize] == EMPTY || is_leaf_of(there, key) {
        tx.add(place.object, place.words())?;
        return place.put(tx, [LEAF, key, value]);
    }
    // The highest bit in which it differs from what is there says where the new node goes.
    let bit = u64::from((there[KEY as usize] ^ key).ilog2());
    let mut place = Place::first(map);
    while place.get(tx, KIND) == NODE {
        let node = Object::from_word(place.get(tx, SLOT));
        let its_bit = tx.get(node, BIT);
        if its_bit < bit {
            break;
        }
        place = child(node, side(key, its_bit));
    }
    let (node, own) = (tx.alloc(NODE_WORDS)?, side(key, bit));
    tx.set(node, BIT, bit)?;
    child(node, own).put(tx, [LEAF, key, value])?;
    let moved = place.read(tx);
    child(node, 1 - own).put(tx, moved)?;
    tx.add(place.object, place.words())?;
    place.put(tx, [NODE, 0, node.to_word()])
}

pub(super) fn remove(tx: &mut Transaction<'_>, map: Object, key: u64) -> Result<Option<u64>> {
    let (place, above) = find(tx, map, key);
    let there = place.read(tx);
    if !is_leaf_of(there, key) {
        return Ok(None);
    }
    match above {
        None => {
            tx.add(place.object, place.words())?;
            place.put(tx, [EMPTY, 0, 0])?;
        }
        Some((parent, side)) => {
            let node = Object::from_word(parent.get(tx, SLOT));
            let sibling = child(node, 1 - side).read(tx);
            tx.add(parent.object, parent.words())?;
            parent.put(tx, sibling)?;
            tx.free(node)?;
        }
    }
    Ok(Some(there[SLOT as usize]))
}
