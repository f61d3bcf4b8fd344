//! A B-tree of order eight: full nodes are split on the way down, so that an insertion never goes up again.

use crate::programs::heap::Heap;
use crate::programs::memory::{Halt, Memory, Work};
use crate::programs::trees::node::{NODE, POOL, VALUE, set_value};

/// Children of a node at most.
const ORDER: u64 = 8;
/// Keys of a node at most.
const MAX_ITEMS: u64 = ORDER - 1;
/// The item that goes up when a node is split.
const MIDDLE: u64 = MAX_ITEMS / 2;
/// Where a node's items are; before them is their number.
const ITEMS: u64 = 8;
/// Bytes of an item: key, and the identity of its value.
const ITEM_BYTES: u64 = 24;
/// Where the identities of its children are.
const SLOTS: u64 = ITEMS + MAX_ITEMS * ITEM_BYTES;
/// Bytes of the identity of a child.
const SLOT_BYTES: u64 = 16;
/// Bytes of a node.
const NODE_BYTES: u64 = SLOTS + ORDER * SLOT_BYTES;

const _: () = assert!(NODE_BYTES == 304);

fn item(place: u64) -> u64 {
    ITEMS + place * ITEM_BYTES
}

fn slot(place: u64) -> u64 {
    SLOTS + place * SLOT_BYTES
}

/// The child at a place; nought where there is none.
fn child(memory: &mut impl Memory, node: u64, place: u64) -> Result<u64, Halt> {
    memory.pointer(node + slot(place) + 8)
}

/// The place of the first of a node's keys that is not less, and whether it is the same.
fn search(memory: &mut impl Memory, node: u64, items: u64, key: u64) -> Result<(u64, bool), Halt> {
    for place in 0..items {
        let found = memory.pointer(node + item(place))?;
        if found >= key {
            return Ok((place, found == key));
        }
    }
    Ok((items, false))
}

pub fn get(
    memory: &mut impl Memory,
    (map, level): (u64, Work),
    key: u64,
) -> Result<Option<u64>, Halt> {
    let mut node = memory.pointer(map + 8)?;
    while node != 0 {
        let items = memory.pointer(node)?;
        memory.work(level.without(2 + items / 2));
        let (place, is_it) = search(memory, node, items, key)?;
        if is_it {
            return Ok(Some(memory.pointer(node + item(place) + 16)?));
        }
        node = child(memory, node, place)?;
    }
    Ok(None)
}

/// How many keys there are.
pub fn count(memory: &mut impl Memory, map: u64) -> Result<u64, Halt> {
    let mut left = vec![memory.pointer(map + 8)?];
    let mut keys = 0;
    while let Some(node) = left.pop() {
        if node != 0 {
            let items = memory.pointer(node)?;
            keys += items;
            for place in 0..=items.min(MAX_ITEMS) {
                left.push(child(memory, node, place)?);
            }
        }
    }
    Ok(keys)
}

pub fn insert(
    memory: &mut impl Memory,
    heap: &mut Heap,
    (map, level): (u64, Work),
    key: u64,
    value: u64,
) -> Result<(), Halt> {
    let mut node = root_with_room(memory, heap, map)?;
    loop {
        let items = memory.pointer(node)?;
        memory.work(level.without(2 + items / 2));
        let (mut place, mut is_it) = search(memory, node, items, key)?;
        let mut below = child(memory, node, place)?;
        if !is_it && below != 0 && memory.pointer(below)? == MAX_ITEMS {
            split(memory, heap, node, place)?;
            let up = memory.pointer(node + item(place))?;
            is_it = up == key;
            place += u64::from(up < key);
            below = child(memory, node, place)?;
        }
        if is_it {
            return set_value(memory, heap, (node, item(place) + 8), value);
        }
        if below == 0 {
            return insert_item(memory, heap, (node, items), place, &[key, VALUE, value]);
        }
        node = below;
    }
}

/// The root: a new one if there is none, or if the one that is there is full.
fn root_with_room(memory: &mut impl Memory, heap: &mut Heap, map: u64) -> Result<u64, Halt> {
    let root = memory.pointer(map + 8)?;
    if root != 0 && memory.pointer(root)? < MAX_ITEMS {
        return Ok(root);
    }
    let above = heap.allocate_zeroed(memory, NODE_BYTES, NODE)?;
    heap.snapshot(memory, map, 0..16)?;
    memory.store_all(map, &[POOL, above])?;
    if root != 0 {
        memory.store_all(above + slot(0), &[POOL, root])?;
        split(memory, heap, above, 0)?;
    }
    Ok(above)
}

/// Moves words within a node up by some, the last first.
fn shift(memory: &mut impl Memory, from: u64, words: u64, by_words: u64) -> Result<(), Halt> {
    for word in (0..words).rev() {
        let moved = memory.word(from + word * 8)?;
        memory.set(from + (word + by_words) * 8, moved)?;
    }
    Ok(())
}

/// Puts an item at its place in a node that is not full.
fn insert_item(
    memory: &mut impl Memory,
    heap: &mut Heap,
    (node, items): (u64, u64),
    place: u64,
    words: &[u64; 3],
) -> Result<(), Halt> {
    assert!(items < MAX_ITEMS, "full nodes are split before");
    heap.snapshot(memory, node, 0..NODE_BYTES)?;
    shift(memory, node + item(place), (items - place) * 3, 3)?;
    memory.store_all(node + item(place), words)?;
    memory.set(node, items + 1)
}

/// Splits a full child: its middle item goes up between its halves.
fn split(memory: &mut impl Memory, heap: &mut Heap, parent: u64, place: u64) -> Result<(), Halt> {
    let left = child(memory, parent, place)?;
    let right = heap.allocate_zeroed(memory, NODE_BYTES, NODE)?;
    let moved = MAX_ITEMS - MIDDLE - 1;
    let mut words = [0; 3];
    for at in 0..moved {
        memory.load_all(left + item(MIDDLE + 1 + at), &mut words)?;
        memory.store_all(right + item(at), &words)?;
    }
    for at in 0..=moved {
        memory.load_all(left + slot(MIDDLE + 1 + at), &mut words[..2])?;
        memory.store_all(right + slot(at), &words[..2])?;
    }
    memory.set(right, moved)?;
    memory.load_all(left + item(MIDDLE), &mut words)?;
    let items = memory.pointer(parent)?;
    insert_item(memory, heap, (parent, items), place, &words)?;
    shift(memory, parent + slot(place + 1), (items - place) * 2, 2)?;
    memory.store_all(parent + slot(place + 1), &[POOL, right])?;
    heap.snapshot(memory, left, 0..NODE_BYTES)?;
    memory.set(left, MIDDLE)
}
