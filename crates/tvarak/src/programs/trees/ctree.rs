//! A crit-bit tree (Bernstein): a node has the bit by which its two sides differ first, and an entry for each. Entries
//! are values with their key, or further nodes.

use crate::programs::heap::Heap;
use crate::programs::memory::{Halt, Memory, Work};
use crate::programs::trees::node::{NODE, POOL, VALUE, set_value};

/// Where a node's entries are; before them is the bit's number.
const ENTRIES: u64 = 8;
/// Bytes of an entry: key, and the identity of a value or a node.
const ENTRY_BYTES: u64 = 24;
/// Bytes of a node.
const NODE_BYTES: u64 = ENTRIES + 2 * ENTRY_BYTES;

const _: () = assert!(NODE_BYTES == 56);

/// An entry: the object it is in, where in it, and what it holds.
#[derive(Clone, Copy)]
struct Entry {
    object: u64,
    at: u64,
    pool: u64,
    offset: u64,
}

fn entry(memory: &mut impl Memory, object: u64, at: u64) -> Result<Entry, Halt> {
    let mut identity = [0; 2];
    memory.load_all(object + at + 8, &mut identity)?;
    memory.wait_for_last_load();
    let [pool, offset] = identity;
    Ok(Entry {
        object,
        at,
        pool,
        offset,
    })
}

/// Where a node's entry for a key is.
fn side(bit: u64, key: u64) -> u64 {
    ENTRIES + (key >> bit & 1) * ENTRY_BYTES
}

/// Goes down to where a key is or would be; given a bit, not past nodes of lower ones.
fn descend(
    memory: &mut impl Memory,
    (map, level): (u64, Work),
    key: u64,
    down_to: Option<u64>,
) -> Result<Entry, Halt> {
    let mut found = entry(memory, map, 0)?;
    while found.pool == POOL {
        memory.work(level.without(3));
        let bit = memory.pointer(found.offset)?;
        if down_to.is_some_and(|down_to| bit < down_to) {
            break;
        }
        found = entry(memory, found.offset, side(bit, key))?;
    }
    Ok(found)
}

pub fn get(memory: &mut impl Memory, tree: (u64, Work), key: u64) -> Result<Option<u64>, Halt> {
    let found = descend(memory, tree, key, None)?;
    let is_it = found.pool == VALUE && memory.pointer(found.object + found.at)? == key;
    Ok(is_it.then_some(found.offset))
}

pub fn insert(
    memory: &mut impl Memory,
    heap: &mut Heap,
    tree: (u64, Work),
    key: u64,
    value: u64,
) -> Result<(), Halt> {
    let found = descend(memory, tree, key, None)?;
    let address = found.object + found.at;
    if found.pool != VALUE {
        heap.snapshot(memory, found.object, found.at..found.at + ENTRY_BYTES)?;
        return memory.store_all(address, &[key, VALUE, value]);
    }
    let old = memory.pointer(address)?;
    if old == key {
        return set_value(memory, heap, (found.object, found.at + 8), value);
    }
    let bit = u64::from(63 - (old ^ key).leading_zeros());
    let place = descend(memory, tree, key, Some(bit))?;
    let node = heap.allocate(memory, NODE_BYTES, NODE)?;
    memory.set(node, bit)?;
    memory.store_all(node + side(bit, key), &[key, VALUE, value])?;
    // What was there goes to the other side.
    let mut moved = [0; 3];
    memory.load_all(place.object + place.at, &mut moved)?;
    memory.store_all(node + side(bit, !key), &moved)?;
    heap.snapshot(memory, place.object, place.at..place.at + ENTRY_BYTES)?;
    memory.store_all(place.object + place.at, &[0, POOL, node])
}
