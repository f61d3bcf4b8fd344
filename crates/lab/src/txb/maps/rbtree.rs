//! `rbtree_map`: a red-black tree with a sentinel for all that is not there, and a node above the first one.

use crate::txb::error::Result;
use crate::txb::heap::{Heap, Transaction};
use crate::txb::layout::Object;

// The map.
const SENTINEL: u64 = 0;
const ROOT: u64 = 1;
const MAP_WORDS: u64 = 2;
// A node.
const KEY: u64 = 0;
const VALUE: u64 = 1;
const COLOR: u64 = 2;
const PARENT: u64 = 3;
const SLOTS: u64 = 4;
const NODE_WORDS: u64 = 6;
const BLACK: u64 = 0;
const RED: u64 = 1;
const LEFT: u64 = 0;
const RIGHT: u64 = 1;

pub(super) fn create(tx: &mut Transaction<'_>) -> Result<Object> {
    let (map, sentinel, root) = (
        tx.alloc(MAP_WORDS)?,
        tx.alloc(NODE_WORDS)?,
        tx.alloc(NODE_WORDS)?,
    );
    let none = sentinel.to_word();
    for node in [sentinel, root] {
        tx.fill(node, &[0, 0, BLACK, none, none, none])?;
    }
    tx.fill(map, &[none, root.to_word()])?;
    Ok(map)
}

fn link(heap: &Heap, object: Object, word: u64) -> Object {
    Object::from_word(heap.get(object, word))
}

fn slot(heap: &Heap, node: Object, side: u64) -> Object {
    link(heap, node, SLOTS + side)
}

fn parent(heap: &Heap, node: Object) -> Object {
    link(heap, node, PARENT)
}

fn is_red(heap: &Heap, node: Object) -> bool {
    heap.get(node, COLOR) == RED
}

/// On which side of its parent a node is.
fn side(heap: &Heap, node: Object) -> u64 {
    u64::from(slot(heap, parent(heap, node), RIGHT) == node)
}

/// The topmost node that has a key.
fn first(heap: &Heap, map: Object) -> Object {
    slot(heap, link(heap, map, ROOT), LEFT)
}

fn find(heap: &Heap, map: Object, key: u64) -> Option<Object> {
    let sentinel = link(heap, map, SENTINEL);
    let mut node = first(heap, map);
    while node != sentinel {
        let its_key = heap.get(node, KEY);
        if its_key == key {
            return Some(node);
        }
        node = slot(heap, node, u64::from(key > its_key));
    }
    None
}

pub(super) fn get(heap: &Heap, map: Object, key: u64) -> Option<u64> {
    find(heap, map, key).map(|node| heap.get(node, VALUE))
}

fn set_slot(tx: &mut Transaction<'_>, node: Object, side: u64, to: Object) -> Result<()> {
    tx.set(node, SLOTS + side, to.to_word())
}

fn set_parent(tx: &mut Transaction<'_>, node: Object, to: Object) -> Result<()> {
    tx.set(node, PARENT, to.to_word())
}

/// A node and its child on the other side change places, so that the node comes to be on `to` of the child.
fn rotate(tx: &mut Transaction<'_>, map: Object, node: Object, to: u64) -> Result<()> {
    let child = slot(tx, node, 1 - to);
    let sentinel = link(tx, map, SENTINEL);
    tx.add(node, 0..NODE_WORDS)?;
    tx.add(child, 0..NODE_WORDS)?;
    let inner = slot(tx, child, to);
    set_slot(tx, node, 1 - to, inner)?;
    if inner != sentinel {
        set_parent(tx, inner, node)?;
    }
    let (above, its_side) = (parent(tx, node), side(tx, node));
    set_parent(tx, child, above)?;
    set_slot(tx, above, its_side, child)?;
    set_slot(tx, child, to, node)?;
    set_parent(tx, node, child)
}

fn insert_node(tx: &mut Transaction<'_>, map: Object, node: Object, key: u64) -> Result<()> {
    let sentinel = link(tx, map, SENTINEL);
    let (mut above, mut its_side) = (link(tx, map, ROOT), LEFT);
    loop {
        let next = slot(tx, above, its_side);
        if next == sentinel {
            break;
        }
        its_side = u64::from(key > tx.get(next, KEY));
        above = next;
    }
    set_parent(tx, node, above)?;
    set_slot(tx, above, its_side, node)
}

/// Puts right that a node and its parent, which is on side `c`, are both red; the node to look at next.
fn recolor(tx: &mut Transaction<'_>, map: Object, mut node: Object, c: u64) -> Result<Object> {
    let above = parent(tx, node);
    let grandparent = parent(tx, above);
    let uncle = slot(tx, grandparent, 1 - c);
    if is_red(tx, uncle) {
        tx.set(uncle, COLOR, BLACK)?;
        tx.set(above, COLOR, BLACK)?;
        tx.set(grandparent, COLOR, RED)?;
        return Ok(grandparent);
    }
    if side(tx, node) == 1 - c {
        node = above;
        rotate(tx, map, node, c)?;
    }
    let above = parent(tx, node);
    tx.set(above, COLOR, BLACK)?;
    let grandparent = parent(tx, above);
    tx.set(grandparent, COLOR, RED)?;
    rotate(tx, map, grandparent, 1 - c)?;
    Ok(node)
}

pub(super) fn insert(
    tx: &mut Transaction<'_>,
    map: Object,
    (key, value): (u64, u64),
) -> Result<()> {
    if let Some(node) = find(tx, map, key) {
        return tx.set(node, VALUE, value);
    }
    let none = link(tx, map, SENTINEL).to_word();
    let mut node = tx.alloc(NODE_WORDS)?;
    tx.fill(node, &[key, value, RED, none, none, none])?;
    insert_node(tx, map, node, key)?;
    while is_red(tx, parent(tx, node)) {
        let c = side(tx, parent(tx, node));
        node = recolor(tx, map, node, c)?;
    }
    let first = first(tx, map);
    tx.set(first, COLOR, BLACK)
}

/// The node after one that has a right child.
fn successor(heap: &Heap, map: Object, node: Object) -> Object {
    let sentinel = link(heap, map, SENTINEL);
    let mut next = slot(heap, node, RIGHT);
    loop {
        let left = slot(heap, next, LEFT);
        if left == sentinel {
            return next;
        }
        next = left;
    }
}

/// Puts right that a black node was taken out above `node`, which is on side `c`; the node to look at next.
fn repair_branch(tx: &mut Transaction<'_>, map: Object, node: Object, c: u64) -> Result<Object> {
    let above = parent(tx, node);
    let mut sibling = slot(tx, above, 1 - c);
    if is_red(tx, sibling) {
        tx.set(sibling, COLOR, BLACK)?;
        tx.set(above, COLOR, RED)?;
        rotate(tx, map, above, c)?;
        sibling = slot(tx, parent(tx, node), 1 - c);
    }
    let nephews = [LEFT, RIGHT].map(|side| slot(tx, sibling, side));
    if !nephews.iter().any(|nephew| is_red(tx, *nephew)) {
        tx.set(sibling, COLOR, RED)?;
        return Ok(parent(tx, node));
    }
    let outer = slot(tx, sibling, 1 - c);
    if !is_red(tx, outer) {
        let inner = slot(tx, sibling, c);
        tx.set(inner, COLOR, BLACK)?;
        tx.set(sibling, COLOR, RED)?;
        rotate(tx, map, sibling, 1 - c)?;
        sibling = slot(tx, parent(tx, node), 1 - c);
    }
    let above = parent(tx, node);
    let color = tx.get(above, COLOR);
    tx.set(sibling, COLOR, color)?;
    tx.set(above, COLOR, BLACK)?;
    let outer = slot(tx, sibling, 1 - c);
    tx.set(outer, COLOR, BLACK)?;
    rotate(tx, map, above, c)?;
    Ok(first(tx, map))
}

pub(super) fn remove(tx: &mut Transaction<'_>, map: Object, key: u64) -> Result<Option<u64>> {
    let Some(node) = find(tx, map, key) else {
        return Ok(None);
    };
    let value = tx.get(node, VALUE);
    let (sentinel, root) = (link(tx, map, SENTINEL), link(tx, map, ROOT));
    let has_both = [LEFT, RIGHT]
        .into_iter()
        .all(|side| slot(tx, node, side) != sentinel);
    // What leaves its place in the tree: the node, or the one that takes over its place.
    let leaving = match has_both {
        true => successor(tx, map, node),
        false => node,
    };
    let left = slot(tx, leaving, LEFT);
    let child = match left == sentinel {
        true => slot(tx, leaving, RIGHT),
        false => left,
    };
    let above = parent(tx, leaving);
    set_parent(tx, child, above)?;
    let its_side = match above == root {
        true => LEFT,
        false => side(tx, leaving),
    };
    set_slot(tx, above, its_side, child)?;
    if !is_red(tx, leaving) {
        let mut fixed = child;
        while fixed != first(tx, map) && !is_red(tx, fixed) {
            let c = side(tx, fixed);
            fixed = repair_branch(tx, map, fixed, c)?;
        }
        tx.set(fixed, COLOR, BLACK)?;
    }
    if leaving != node {
        take_place(tx, leaving, node)?;
    }
    tx.free(node)?;
    Ok(Some(value))
}

/// Puts a node where another one is.
fn take_place(tx: &mut Transaction<'_>, node: Object, other: Object) -> Result<()> {
    tx.add(node, 0..NODE_WORDS)?;
    for word in [SLOTS + LEFT, SLOTS + RIGHT, PARENT, COLOR] {
        let value = tx.get(other, word);
        tx.set(node, word, value)?;
    }
    for side in [LEFT, RIGHT] {
        let child = slot(tx, other, side);
        set_parent(tx, child, node)?;
    }
    let (above, its_side) = (parent(tx, other), side(tx, other));
    set_slot(tx, above, its_side, node)
}
