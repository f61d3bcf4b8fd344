//! A red-black tree with a node that stands for all leaves and one above the root, so that none is a special case.

use crate::programs::heap::Heap;
use crate::programs::memory::{Halt, Memory, Work};
use crate::programs::trees::node::{NODE, POOL, VALUE, set_value};

/// Where a node's key is.
const KEY: u64 = 0;
/// Where the identity of its value is.
const VALUE_AT: u64 = 8;
/// Where its colour is.
const COLOUR: u64 = 24;
/// Where the identity of its parent is.
const PARENT: u64 = 32;
/// Where those of its children are.
const CHILDREN: u64 = 48;
/// Bytes of a node.
const NODE_BYTES: u64 = CHILDREN + 2 * 16;

const BLACK: u64 = 0;
const RED: u64 = 1;

/// Of the map: the node that stands for all leaves.
const LEAF_AT: u64 = 0;
/// Of the map: the node whose left child is the root.
const ABOVE_AT: u64 = 16;

const LEFT: u64 = 0;
const RIGHT: u64 = 1;

/// Which link of a node leads to a child.
fn child_at(side: u64) -> u64 {
    CHILDREN + side * 16
}

fn follow(memory: &mut impl Memory, node: u64, link: u64) -> Result<u64, Halt> {
    memory.pointer(node + link + 8)
}

fn link(
    memory: &mut impl Memory,
    heap: &mut Heap,
    node: u64,
    link: u64,
    to: u64,
) -> Result<(), Halt> {
    heap.snapshot(memory, node, 0..NODE_BYTES)?;
    memory.store_all(node + link, &[POOL, to])
}

fn paint(memory: &mut impl Memory, heap: &mut Heap, node: u64, colour: u64) -> Result<(), Halt> {
    heap.snapshot(memory, node, 0..NODE_BYTES)?;
    memory.set(node + COLOUR, colour)
}

pub fn create(memory: &mut impl Memory, heap: &mut Heap, map: u64) -> Result<(), Halt> {
    let leaf = heap.allocate_zeroed(memory, NODE_BYTES, NODE)?;
    let above = heap.allocate_zeroed(memory, NODE_BYTES, NODE)?;
    for node in [leaf, above] {
        for at in [PARENT, child_at(LEFT), child_at(RIGHT)] {
            link(memory, heap, node, at, leaf)?;
        }
    }
    memory.store_all(map + LEAF_AT, &[POOL, leaf, POOL, above])
}

/// The node of a key, nought if there is none; and below which node, on which side, it is or would be.
fn find(
    memory: &mut impl Memory,
    (map, level): (u64, Work),
    key: u64,
) -> Result<(u64, u64, u64), Halt> {
    let leaf = memory.pointer(map + LEAF_AT + 8)?;
    let mut parent = memory.pointer(map + ABOVE_AT + 8)?;
    let mut side = LEFT;
    let mut node = follow(memory, parent, child_at(side))?;
    while node != leaf {
        memory.work(level.without(2));
        let found = memory.pointer(node + KEY)?;
        if found == key {
            return Ok((node, parent, side));
        }
        (parent, side) = (node, u64::from(found < key));
        node = follow(memory, node, child_at(side))?;
    }
    Ok((0, parent, side))
}

pub fn get(memory: &mut impl Memory, tree: (u64, Work), key: u64) -> Result<Option<u64>, Halt> {
    match find(memory, tree, key)? {
        (0, ..) => Ok(None),
        (node, ..) => Ok(Some(memory.pointer(node + VALUE_AT + 8)?)),
    }
}

pub fn insert(
    memory: &mut impl Memory,
    heap: &mut Heap,
    tree: (u64, Work),
    key: u64,
    value: u64,
) -> Result<(), Halt> {
    let (found, parent, side) = find(memory, tree, key)?;
    if found != 0 {
        return set_value(memory, heap, (found, VALUE_AT), value);
    }
    let leaf = memory.pointer(tree.0 + LEAF_AT + 8)?;
    let above = memory.pointer(tree.0 + ABOVE_AT + 8)?;
    let node = heap.allocate(memory, NODE_BYTES, NODE)?;
    let words = [key, VALUE, value, RED, POOL, parent, POOL, leaf, POOL, leaf];
    memory.store_all(node, &words)?;
    link(memory, heap, parent, child_at(side), node)?;
    restore_colours(memory, heap, (leaf, above), node)
}

/// No red node has a red parent: recolours and rotates on the way up, until that is so again.
fn restore_colours(
    memory: &mut impl Memory,
    heap: &mut Heap,
    (leaf, above): (u64, u64),
    mut node: u64,
) -> Result<(), Halt> {
    loop {
        let parent = follow(memory, node, PARENT)?;
        if parent == above {
            return paint(memory, heap, node, BLACK);
        }
        if memory.pointer(parent + COLOUR)? == BLACK {
            return Ok(());
        }
        let grandparent = follow(memory, parent, PARENT)?;
        let side = side_of(memory, grandparent, parent)?;
        let uncle = follow(memory, grandparent, child_at(1 - side))?;
        if uncle != leaf && memory.pointer(uncle + COLOUR)? == RED {
            paint(memory, heap, parent, BLACK)?;
            paint(memory, heap, uncle, BLACK)?;
            paint(memory, heap, grandparent, RED)?;
            node = grandparent;
            continue;
        }
        let mut top = parent;
        if side_of(memory, parent, node)? != side {
            rotate(memory, heap, leaf, parent, side)?;
            top = node;
        }
        paint(memory, heap, top, BLACK)?;
        paint(memory, heap, grandparent, RED)?;
        return rotate(memory, heap, leaf, grandparent, 1 - side);
    }
}

fn side_of(memory: &mut impl Memory, parent: u64, node: u64) -> Result<u64, Halt> {
    let left = follow(memory, parent, child_at(LEFT))?;
    Ok(u64::from(left != node))
}

/// Turns a node towards a side: its child of the other side takes its place.
fn rotate(
    memory: &mut impl Memory,
    heap: &mut Heap,
    leaf: u64,
    node: u64,
    side: u64,
) -> Result<(), Halt> {
    let up = follow(memory, node, child_at(1 - side))?;
    let inner = follow(memory, up, child_at(side))?;
    let parent = follow(memory, node, PARENT)?;
    let own_side = side_of(memory, parent, node)?;
    link(memory, heap, node, child_at(1 - side), inner)?;
    if inner != leaf {
        link(memory, heap, inner, PARENT, node)?;
    }
    link(memory, heap, up, PARENT, parent)?;
    link(memory, heap, parent, child_at(own_side), up)?;
    link(memory, heap, up, child_at(side), node)?;
    link(memory, heap, node, PARENT, up)
}

#[cfg(test)]
pub mod checks {
    use super::*;
    use crate::programs::vector::VectorMemory;

    /// Black nodes on every way down from the root: as many on each, and no red node has a red parent.
    pub fn black_height(memory: &mut VectorMemory, map: u64) -> u64 {
        let leaf = memory.word(map + LEAF_AT + 8).unwrap();
        let above = memory.word(map + ABOVE_AT + 8).unwrap();
        let root = follow(memory, above, child_at(LEFT)).unwrap();
        height(memory, leaf, root, true)
    }

    fn height(memory: &mut VectorMemory, leaf: u64, node: u64, may_be_red: bool) -> u64 {
        if node == leaf {
            return 0;
        }
        let is_red = memory.word(node + COLOUR).unwrap() == RED;
        assert!(may_be_red || !is_red, "a red node has a red parent");
        let sides = [LEFT, RIGHT].map(|side| {
            let child = follow(memory, node, child_at(side)).unwrap();
            height(memory, leaf, child, !is_red)
        });
        assert_eq!(sides[0], sides[1], "a side has more black nodes");
        sides[0] + u64::from(!is_red)
    }
}
