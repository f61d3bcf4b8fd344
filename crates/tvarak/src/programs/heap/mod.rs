//! A heap of objects in a region of persistent memory, with transactions, as libpmemobj has them in behaviour.
//!
//! All of it is in the region: the free lists, the log, the objects. A transaction snapshots what it is about to change
//! into the log, which rolls it back if it does not end; what it allocates is only its own until then, and what it frees
//! can be allocated from the next one on. Nothing is flushed: the battery flushes all caches (§3.2), so
//! what was stored is there after a power failure, in the order of the stores.

mod allocate;
mod format;
mod recovery;
#[cfg(test)]
mod tests;
mod transaction;

use crate::programs::memory::{Change, Halt, Memory, Work};

pub use format::{OBJECT_HEADER_BYTES, OBJECTS_AT, class_of};

/// What the heap's operations take in libpmemobj, accesses that are simulated included.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapCosts {
    /// Begin and end of a transaction.
    pub transaction: Work,
    /// What its first snapshot adds.
    pub first_snapshot: Work,
    /// A snapshot, without the bytes.
    pub snapshot: Work,
    /// For 16 bytes of a snapshot.
    pub snapshot_move: Work,
    /// An allocation.
    pub allocate: Work,
    /// A free.
    pub free: Work,
}

/// A heap that is open. What it holds besides the region's size is of the transaction that runs.
#[derive(Clone, Debug)]
pub struct Heap {
    region_bytes: u64,
    costs: HeapCosts,
    /// Bytes of the log that are taken.
    log_end: u64,
    changes: Vec<Change>,
    freed: Vec<u64>,
    is_running: bool,
    has_snapshot: bool,
    is_logged: bool,
}

impl Heap {
    /// Makes a region a heap, whatever it held.
    ///
    /// # Errors
    /// Power failed: the region holds no heap.
    ///
    /// # Panics
    /// If the region has no room for an object.
    pub fn format(
        memory: &mut impl Memory,
        region_bytes: u64,
        costs: HeapCosts,
    ) -> Result<Heap, Halt> {
        assert!(
            region_bytes >= OBJECTS_AT + format::RUN_BYTES,
            "no room for a heap"
        );
        memory.set(format::MAGIC_AT, 0)?;
        memory.set(format::SIZE_AT, region_bytes)?;
        memory.set(format::ROOT_AT, 0)?;
        memory.set(format::UNUSED_AT, OBJECTS_AT)?;
        memory.set(format::STATE_AT, format::STATE_NONE)?;
        memory.set(format::LOG_END_AT, 0)?;
        for class in 0..format::CLASSES {
            let record = format::CLASSES_AT + class * format::CLASS_BYTES;
            memory.store_all(record, &[0; format::CLASS_BYTES as usize / 8])?;
        }
        // Last: until here there is no heap.
        memory.set(format::MAGIC_AT, format::MAGIC)?;
        Ok(Heap::closed(region_bytes, costs))
    }

    /// Another one of the same region, for a look at it while no transaction runs.
    pub fn closed_like(other: &Heap) -> Heap {
        Heap::closed(other.region_bytes, other.costs)
    }

    fn closed(region_bytes: u64, costs: HeapCosts) -> Heap {
        Heap {
            region_bytes,
            costs,
            log_end: 0,
            changes: Vec::new(),
            freed: Vec::new(),
            is_running: false,
            has_snapshot: false,
            is_logged: true,
        }
    }

    /// Bytes that objects took at any time: of all runs.
    #[cfg(test)]
    pub(in crate::programs) fn used_bytes(&self, memory: &mut impl Memory) -> Result<u64, Halt> {
        memory.pointer(format::UNUSED_AT)
    }

    /// The root object: the one that the program finds all others from.
    ///
    /// # Errors
    /// It is lost.
    pub fn root(&self, memory: &mut impl Memory) -> Result<u64, Halt> {
        memory.pointer(format::ROOT_AT)
    }

    /// Makes an object the root, in a transaction.
    ///
    /// # Errors
    /// As of [`Heap::snapshot`].
    pub fn set_root(&mut self, memory: &mut impl Memory, object: u64) -> Result<(), Halt> {
        self.snapshot_header(memory, format::ROOT_AT, 8)?;
        memory.set(format::ROOT_AT, object)
    }
}
