//! `btree_map`: a B-tree of order 8.
//!
//! One thing is not as there: where the successor of an item takes its place, every node on the way to it is refilled, not the
//! lowest alone. In the example's, a node on that way can run out of items.

use crate::txb::error::Result;
use crate::txb::heap::{Heap, Transaction};
use crate::txb::layout::Object;

const ORDER: u64 = 8;
const ITEMS_MAX: u64 = ORDER - 1;
const ITEMS_MIN: u64 = ORDER / 2 - 1;
// The map.
const ROOT: u64 = 0;
const MAP_WORDS: u64 = 1;
// A node: how many items it has, the items, the nodes between them.
const COUNT: u64 = 0;
const ITEMS: u64 = 1;
const ITEM_WORDS: u64 = 2;
const SLOTS: u64 = ITEMS + ITEMS_MAX * ITEM_WORDS;
const NODE_WORDS: u64 = SLOTS + ORDER;

/// A key and its value.
type Item = [u64; ITEM_WORDS as usize];

pub(super) fn create(tx: &mut Transaction<'_>) -> Result<Object> {
    let map = tx.alloc(MAP_WORDS)?;
    tx.fill(map, &[Object::NONE.to_word()])?;
    Ok(map)
}

fn new_node(tx: &mut Transaction<'_>) -> Result<Object> {
    let node = tx.alloc(NODE_WORDS)?;
    tx.fill(node, &[0; NODE_WORDS as usize])?;
    Ok(node)
}

fn root(heap: &Heap, map: Object) -> Object {
    Object::from_word(heap.get(map, ROOT))
}

fn count(heap: &Heap, node: Object) -> u64 {
    heap.get(node, COUNT)
}

fn item(heap: &Heap, node: Object, number: u64) -> Item {
    [0, 1].map(|word| heap.get(node, ITEMS + number * ITEM_WORDS + word))
}

fn slot(heap: &Heap, node: Object, number: u64) -> Object {
    Object::from_word(heap.get(node, SLOTS + number))
}

fn is_leaf(heap: &Heap, node: Object) -> bool {
    slot(heap, node, 0).is_none()
}

fn put_item(tx: &mut Transaction<'_>, node: Object, number: u64, item: Item) -> Result<()> {
    for (word, value) in (0..).zip(item) {
        tx.set(node, ITEMS + number * ITEM_WORDS + word, value)?;
    }
    Ok(())
}

fn put_slot(tx: &mut Transaction<'_>, node: Object, number: u64, slot: Object) -> Result<()> {
    tx.set(node, SLOTS + number, slot.to_word())
}

fn add_all(tx: &mut Transaction<'_>, node: Object) -> Result<()> {
    tx.add(node, 0..NODE_WORDS)
}

/// The number of the first item that is not below a key.
fn lower_bound(heap: &Heap, node: Object, key: u64) -> u64 {
    let count = count(heap, node);
    (0..count)
        .find(|number| item(heap, node, *number)[0] >= key)
        .unwrap_or(count)
}

fn find(heap: &Heap, map: Object, key: u64) -> Option<(Object, u64)> {
    let mut node = root(heap, map);
    while !node.is_none() {
        let number = lower_bound(heap, node, key);
        if number < count(heap, node) && item(heap, node, number)[0] == key {
            return Some((node, number));
        }
        node = slot(heap, node, number);
    }
    None
}

pub(super) fn get(heap: &Heap, map: Object, key: u64) -> Option<u64> {
    find(heap, map, key).map(|(node, number)| item(heap, node, number)[1])
}

pub(super) fn insert(
    tx: &mut Transaction<'_>,
    map: Object,
    (key, value): (u64, u64),
) -> Result<()> {
    if let Some((node, number)) = find(tx, map, key) {
        return tx.set(node, ITEMS + number * ITEM_WORDS + 1, value);
    }
    let mut node = root(tx, map);
    if node.is_none() {
        tx.add(map, ROOT..ROOT + 1)?;
        node = new_node(tx)?;
        tx.set(map, ROOT, node.to_word())?;
    }
    let mut above: Option<(Object, u64)> = None;
    loop {
        if count(tx, node) == ITEMS_MAX {
            node = split(tx, map, (node, above), key)?;
        }
        let number = lower_bound(tx, node, key);
        if is_leaf(tx, node) {
            add_all(tx, node)?;
            return make_room(tx, node, number, [key, value]);
        }
        above = Some((node, number));
        node = slot(tx, node, number);
    }
}

/// Puts an item where it belongs; those behind it move on, and so do the slots behind those.
fn make_room(tx: &mut Transaction<'_>, node: Object, number: u64, new: Item) -> Result<()> {
    let count = count(tx, node);
    for from in (number..count).rev() {
        let (moved, after) = (item(tx, node, from), slot(tx, node, from + 1));
        put_item(tx, node, from + 1, moved)?;
        put_slot(tx, node, from + 2, after)?;
    }
    put_item(tx, node, number, new)?;
    tx.set(node, COUNT, count + 1)
}

/// Splits a full node; the half that a key goes to.
fn split(
    tx: &mut Transaction<'_>,
    map: Object,
    (node, above): (Object, Option<(Object, u64)>),
    key: u64,
) -> Result<Object> {
    const MIDDLE: u64 = ORDER / 2 - 1;
    let right = new_node(tx)?;
    let median = item(tx, node, MIDDLE);
    add_all(tx, node)?;
    for from in MIDDLE + 1..ITEMS_MAX {
        let moved = item(tx, node, from);
        put_item(tx, right, from - MIDDLE - 1, moved)?;
    }
    for from in MIDDLE + 1..ORDER {
        let moved = slot(tx, node, from);
        put_slot(tx, right, from - MIDDLE - 1, moved)?;
        put_slot(tx, node, from, Object::NONE)?;
    }
    tx.set(right, COUNT, ITEMS_MAX - MIDDLE - 1)?;
    tx.set(node, COUNT, MIDDLE)?;
    let (parent, number) = match above {
        Some(above) => {
            add_all(tx, above.0)?;
            above
        }
        None => {
            let up = new_node(tx)?;
            put_slot(tx, up, 0, node)?;
            tx.add(map, ROOT..ROOT + 1)?;
            tx.set(map, ROOT, up.to_word())?;
            (up, 0)
        }
    };
    make_room(tx, parent, number, median)?;
    put_slot(tx, parent, number + 1, right)?;
    Ok(match key > median[0] {
        true => right,
        false => node,
    })
}

pub(super) fn remove(tx: &mut Transaction<'_>, map: Object, key: u64) -> Result<Option<u64>> {
    match root(tx, map) {
        Object::NONE => Ok(None),
        root => remove_below(tx, map, root, key),
    }
}

fn remove_below(
    tx: &mut Transaction<'_>,
    map: Object,
    node: Object,
    key: u64,
) -> Result<Option<u64>> {
    let number = lower_bound(tx, node, key);
    let is_here = number < count(tx, node) && item(tx, node, number)[0] == key;
    match (is_here, is_leaf(tx, node)) {
        (false, true) => Ok(None),
        (false, false) => {
            let child = slot(tx, node, number);
            let value = remove_below(tx, map, child, key)?;
            refill(tx, map, (node, number))?;
            Ok(value)
        }
        (true, true) => {
            let [_, value] = take_item(tx, node, number)?;
            Ok(Some(value))
        }
        (true, false) => {
            let [_, value] = item(tx, node, number);
            let child = slot(tx, node, number + 1);
            let next = take_first(tx, map, child)?;
            let at = ITEMS + number * ITEM_WORDS;
            tx.add(node, at..at + ITEM_WORDS)?;
            put_item(tx, node, number, next)?;
            refill(tx, map, (node, number + 1))?;
            Ok(Some(value))
        }
    }
}

/// Takes an item out of a leaf.
fn take_item(tx: &mut Transaction<'_>, leaf: Object, number: u64) -> Result<Item> {
    let taken = item(tx, leaf, number);
    add_all(tx, leaf)?;
    let count = count(tx, leaf);
    for from in number + 1..count {
        let moved = item(tx, leaf, from);
        put_item(tx, leaf, from - 1, moved)?;
    }
    tx.set(leaf, COUNT, count - 1)?;
    Ok(taken)
}

/// Takes the first item out of all below a node.
fn take_first(tx: &mut Transaction<'_>, map: Object, node: Object) -> Result<Item> {
    if is_leaf(tx, node) {
        return take_item(tx, node, 0);
    }
    let child = slot(tx, node, 0);
    let taken = take_first(tx, map, child)?;
    refill(tx, map, (node, 0))?;
    Ok(taken)
}

/// Gives the node in a slot of `parent` an item of a sibling, or merges the two, where it has too few.
fn refill(tx: &mut Transaction<'_>, map: Object, (parent, number): (Object, u64)) -> Result<()> {
    let node = slot(tx, parent, number);
    if count(tx, node) >= ITEMS_MIN {
        return Ok(());
    }
    let right = (number < count(tx, parent)).then(|| slot(tx, parent, number + 1));
    let left = (number > 0).then(|| slot(tx, parent, number - 1));
    if let Some(right) = right.filter(|right| count(tx, *right) > ITEMS_MIN) {
        return rotate_from_right(tx, (parent, number), node, right);
    }
    if let Some(left) = left.filter(|left| count(tx, *left) > ITEMS_MIN) {
        return rotate_from_left(tx, (parent, number), node, left);
    }
    match (left, right) {
        (_, Some(right)) => merge(tx, map, (parent, number), [node, right]),
        (Some(left), None) => merge(tx, map, (parent, number - 1), [left, node]),
        (None, None) => unreachable!("a node that is none of the root's has siblings"),
    }
}

fn rotate_from_right(
    tx: &mut Transaction<'_>,
    (parent, number): (Object, u64),
    node: Object,
    right: Object,
) -> Result<()> {
    add_all(tx, node)?;
    add_all(tx, right)?;
    let at = ITEMS + number * ITEM_WORDS;
    tx.add(parent, at..at + ITEM_WORDS)?;
    let (separator, own) = (item(tx, parent, number), count(tx, node));
    put_item(tx, node, own, separator)?;
    let (first, below) = (item(tx, right, 0), slot(tx, right, 0));
    put_slot(tx, node, own + 1, below)?;
    tx.set(node, COUNT, own + 1)?;
    put_item(tx, parent, number, first)?;
    let left_there = count(tx, right) - 1;
    for to in 0..left_there {
        let moved = item(tx, right, to + 1);
        put_item(tx, right, to, moved)?;
    }
    for to in 0..=left_there {
        let moved = slot(tx, right, to + 1);
        put_slot(tx, right, to, moved)?;
    }
    tx.set(right, COUNT, left_there)
}

fn rotate_from_left(
    tx: &mut Transaction<'_>,
    (parent, number): (Object, u64),
    node: Object,
    left: Object,
) -> Result<()> {
    add_all(tx, node)?;
    let at = ITEMS + (number - 1) * ITEM_WORDS;
    tx.add(parent, at..at + ITEM_WORDS)?;
    tx.add(left, COUNT..COUNT + 1)?;
    let separator = item(tx, parent, number - 1);
    let first = slot(tx, node, 0);
    make_room(tx, node, 0, separator)?;
    put_slot(tx, node, 1, first)?;
    let last = count(tx, left) - 1;
    let (moved, below) = (item(tx, left, last), slot(tx, left, last + 1));
    put_slot(tx, node, 0, below)?;
    put_item(tx, parent, number - 1, moved)?;
    tx.set(left, COUNT, last)
}

/// Puts the item between two nodes and all of the second one behind the first.
fn merge(
    tx: &mut Transaction<'_>,
    map: Object,
    (parent, number): (Object, u64),
    [node, right]: [Object; 2],
) -> Result<()> {
    add_all(tx, node)?;
    let (own, theirs) = (count(tx, node), count(tx, right));
    let separator = item(tx, parent, number);
    put_item(tx, node, own, separator)?;
    for from in 0..theirs {
        let moved = item(tx, right, from);
        put_item(tx, node, own + 1 + from, moved)?;
    }
    for from in 0..=theirs {
        let moved = slot(tx, right, from);
        put_slot(tx, node, own + 1 + from, moved)?;
    }
    tx.set(node, COUNT, own + 1 + theirs)?;
    tx.free(right)?;
    add_all(tx, parent)?;
    let left_there = count(tx, parent) - 1;
    for to in number..left_there {
        let (moved, below) = (item(tx, parent, to + 1), slot(tx, parent, to + 2));
        put_item(tx, parent, to, moved)?;
        put_slot(tx, parent, to + 1, below)?;
    }
    tx.set(parent, COUNT, left_there)?;
    // The tree is one lower when its topmost node is empty.
    if left_there == 0 && parent == root(tx, map) {
        tx.add(map, ROOT..ROOT + 1)?;
        tx.free(parent)?;
        tx.set(map, ROOT, node.to_word())?;
    }
    Ok(())
}
