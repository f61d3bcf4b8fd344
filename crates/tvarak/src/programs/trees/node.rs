//! What the nodes of all three have in common.

use crate::programs::heap::Heap;
use crate::programs::memory::{Halt, Memory};

/// The first eight bytes of an object's identity, which name its pool.
pub(super) const POOL: u64 = 0x7472_6565;
/// The type of an object that is a tree's own.
pub(super) const NODE: u64 = 0x6E6F_6465;
/// The first eight bytes of what is a value.
pub(super) const VALUE: u64 = 0x7661_6C75;

/// Gives a place within an object another value.
pub(super) fn set_value(
    memory: &mut impl Memory,
    heap: &mut Heap,
    (object, at): (u64, u64),
    value: u64,
) -> Result<(), Halt> {
    heap.snapshot(memory, object, at..at + 16)?;
    memory.store_all(object + at, &[VALUE, value])
}
