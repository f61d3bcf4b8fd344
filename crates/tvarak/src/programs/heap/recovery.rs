//! Opening a heap: a transaction that had not ended is rolled back.

use crate::programs::heap::format::{
    ENTRY_HEADER_BYTES, LOG_AT, LOG_BYTES, LOG_END_AT, MAGIC, MAGIC_AT, SIZE_AT, STATE_AT,
    STATE_NONE,
};
use crate::programs::heap::{Heap, HeapCosts};
use crate::programs::memory::{Halt, Memory};

impl Heap {
    /// Opens the heap of a region. Whatever stopped the last program, the heap is as its last transaction left it.
    ///
    /// # Errors
    /// The region holds no heap of this size, something is lost, or power failed again: it can be opened still.
    pub fn open(
        memory: &mut impl Memory,
        region_bytes: u64,
        costs: HeapCosts,
    ) -> Result<Heap, Halt> {
        let found = memory.word(MAGIC_AT)?;
        if found != MAGIC || memory.word(SIZE_AT)? != region_bytes {
            return Err(Halt::NotAHeap {
                found,
                region_bytes,
            });
        }
        let end = memory.pointer(LOG_END_AT)?;
        for entry in entries(memory, end)?.into_iter().rev() {
            restore(memory, entry, region_bytes)?;
        }
        // Only now: until here all of the log is there to be rolled back again.
        memory.set(LOG_END_AT, 0)?;
        memory.set(STATE_AT, STATE_NONE)?;
        Ok(Heap::closed(region_bytes, costs))
    }
}

/// Where the entries of the log are, in the order in which they were made.
fn entries(memory: &mut impl Memory, end: u64) -> Result<Vec<u64>, Halt> {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < end.min(LOG_BYTES) {
        entries.push(LOG_AT + at);
        at += ENTRY_HEADER_BYTES + memory.pointer(LOG_AT + at + 8)?;
    }
    Ok(entries)
}

fn restore(memory: &mut impl Memory, entry: u64, region_bytes: u64) -> Result<(), Halt> {
    let address = memory.pointer(entry)?;
    let bytes = memory.pointer(entry + 8)?;
    assert!(
        address + bytes <= region_bytes && bytes <= LOG_BYTES,
        "the log is of this region"
    );
    for at in (0..bytes).step_by(8) {
        let word = memory.word(entry + ENTRY_HEADER_BYTES + at)?;
        memory.set(address + at, word)?;
    }
    Ok(())
}
