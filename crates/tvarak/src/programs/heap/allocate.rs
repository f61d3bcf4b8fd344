//! Allocations and frees: lists of free objects by size, and runs of objects that were never used.

use crate::programs::heap::Heap;
use crate::programs::heap::format::{
    CLASS_BYTES, CLASS_END, CLASS_NEXT, CLASSES_AT, OBJECT_HEADER_BYTES, RUN_BYTES, UNUSED_AT,
    class_of,
};
use crate::programs::memory::{Halt, Memory};

/// Loads and stores of an allocation: of its class, of the object's header, and what is kept of them.
const ALLOCATE_ACCESSES: u64 = 14;
/// Those of a free.
const FREE_ACCESSES: u64 = 14;

impl Heap {
    /// Allocates an object in the transaction: where its bytes are, which hold anything.
    ///
    /// # Errors
    /// The region is full, the log is, something is lost, or power failed.
    pub fn allocate(
        &mut self,
        memory: &mut impl Memory,
        bytes: u64,
        kind: u64,
    ) -> Result<u64, Halt> {
        let object_bytes = bytes + OBJECT_HEADER_BYTES;
        let full = Halt::Full {
            region_bytes: self.region_bytes,
            object_bytes,
        };
        let (class, size) = class_of(object_bytes).ok_or(full)?;
        memory.work(self.costs.allocate.without(ALLOCATE_ACCESSES));
        let record = CLASSES_AT + class * CLASS_BYTES;
        let free = memory.pointer(record)?;
        let first = match free {
            0 => self.take_unused(memory, record, size)?,
            _ => {
                self.log_header(memory, record, CLASS_BYTES)?;
                // Its link: should this be rolled back, it is free again.
                self.log_link(memory, free..free + size)?;
                let next = memory.word(free + OBJECT_HEADER_BYTES)?;
                memory.set(record, next)?;
                free
            }
        };
        memory.store_all(first, &[size, kind])?;
        self.note_new(first..first + size);
        Ok(first + OBJECT_HEADER_BYTES)
    }

    /// Allocates an object all of whose words are nought.
    ///
    /// # Errors
    /// As of [`Heap::allocate`].
    pub fn allocate_zeroed(
        &mut self,
        memory: &mut impl Memory,
        bytes: u64,
        kind: u64,
    ) -> Result<u64, Halt> {
        let object = self.allocate(memory, bytes, kind)?;
        for at in (0..bytes).step_by(64) {
            let words = (bytes - at).div_ceil(8).min(8) as usize;
            memory.store_all(object + at, &[0; 8][..words])?;
        }
        Ok(object)
    }

    /// Frees an object when the transaction ends.
    pub fn free(&mut self, memory: &mut impl Memory, object: u64) {
        memory.work(self.costs.free.without(FREE_ACCESSES));
        self.note_freed(object - OBJECT_HEADER_BYTES);
    }

    /// The next object of a class's run, or of a new one.
    fn take_unused(
        &mut self,
        memory: &mut impl Memory,
        record: u64,
        size: u64,
    ) -> Result<u64, Halt> {
        let mut next = memory.word(record + CLASS_NEXT)?;
        let mut end = memory.pointer(record + CLASS_END)?;
        self.log_header(memory, record, CLASS_BYTES)?;
        if next == end || next == 0 {
            let run = (RUN_BYTES / size).max(1) * size;
            next = memory.pointer(UNUSED_AT)?;
            end = next + run;
            if end > self.region_bytes {
                return Err(Halt::Full {
                    region_bytes: self.region_bytes,
                    object_bytes: size,
                });
            }
            self.log_header(memory, UNUSED_AT, 8)?;
            memory.set(UNUSED_AT, end)?;
            // No run, until both of its ends are there: without a log, that is what is left when power fails.
            memory.set(record + CLASS_NEXT, 0)?;
            memory.set(record + CLASS_END, end)?;
        }
        memory.set(record + CLASS_NEXT, next + size)?;
        Ok(next)
    }

    pub(in crate::programs::heap) fn put_on_free_list(
        &mut self,
        memory: &mut impl Memory,
        first: u64,
    ) -> Result<(), Halt> {
        let size = memory.pointer(first)?;
        let (class, _) = class_of(size).expect("an object has a size that was allocated");
        let record = CLASSES_AT + class * CLASS_BYTES;
        let object = first + OBJECT_HEADER_BYTES;
        self.log_link(memory, first..first + size)?;
        self.log_header(memory, record, CLASS_BYTES)?;
        let head = memory.word(record)?;
        memory.set(object, head)?;
        memory.set(record, first)
    }
}
