//! Growing: a second table of twice the buckets, to which the first one's go one by one.

use crate::programs::heap::Heap;
use crate::programs::memory::{Halt, Memory};
use crate::programs::redis::strings::Key;
use crate::programs::redis::{BUCKETS, HALF_BYTES, MOVING, NEXT, Redis, TABLE, USED};

/// Empty buckets that one request passes over at most, as in Redis.
const EMPTY_BUCKETS: u64 = 10;

impl Redis {
    /// Begins to grow if there are as many entries as buckets.
    pub(in crate::programs::redis) fn grow(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
    ) -> Result<(), Halt> {
        if self.is_moving(memory)? {
            return Ok(());
        }
        let buckets = memory.word(self.half(0) + BUCKETS)?;
        let used = memory.pointer(self.half(0) + USED)?;
        if used < buckets {
            return Ok(());
        }
        let table = heap.allocate_zeroed(memory, 2 * buckets * 8, TABLE)?;
        heap.snapshot(memory, self.dict, HALF_BYTES..MOVING + 8)?;
        memory.store_all(self.half(1), &[table, 2 * buckets, 0])?;
        memory.set(self.dict + MOVING, 1)
    }

    /// Moves the next bucket, while there is a second table.
    pub(in crate::programs::redis) fn move_some(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
    ) -> Result<(), Halt> {
        if !self.is_moving(memory)? {
            return Ok(());
        }
        let buckets = memory.word(self.half(0) + BUCKETS)?;
        let table = memory.word(self.half(0))?;
        let mut at = memory.pointer(self.dict + MOVING)? - 1;
        let last = (at + EMPTY_BUCKETS).min(buckets);
        let mut entry = 0;
        while at < last && entry == 0 {
            entry = memory.pointer(table + at * 8)?;
            at += 1;
        }
        heap.snapshot(memory, self.dict, 0..MOVING + 8)?;
        if entry != 0 {
            heap.snapshot(memory, table, (at - 1) * 8..at * 8)?;
            memory.set(table + (at - 1) * 8, 0)?;
        }
        while entry != 0 {
            entry = self.move_entry(memory, heap, entry)?;
        }
        match at == buckets {
            true => self.end_moving(memory, heap, table),
            false => memory.set(self.dict + MOVING, at + 1),
        }
    }

    /// Moves an entry, which is in no bucket any more, to the second table: the one that was next to it.
    fn move_entry(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        entry: u64,
    ) -> Result<u64, Halt> {
        let next = memory.pointer(entry + NEXT)?;
        let string = memory.pointer(entry)?;
        let key = Key::at(memory, string)?;
        let bucket = self.bucket(memory, 1, &key)?;
        let table = memory.pointer(self.half(1))?;
        heap.snapshot(memory, entry, NEXT..NEXT + 8)?;
        let head = memory.word(bucket)?;
        memory.set(entry + NEXT, head)?;
        heap.snapshot(memory, table, bucket - table..bucket - table + 8)?;
        memory.set(bucket, entry)?;
        self.count(memory, heap, 0, -1)?;
        self.count(memory, heap, 1, 1)?;
        Ok(next)
    }

    /// The second table is the only one from now on.
    fn end_moving(&self, memory: &mut impl Memory, heap: &mut Heap, old: u64) -> Result<(), Halt> {
        heap.free(memory, old);
        let mut words = [0; 3];
        memory.load_all(self.half(1), &mut words)?;
        memory.store_all(self.half(0), &words)?;
        memory.store_all(self.half(1), &[0; 3])?;
        memory.set(self.dict + MOVING, 0)
    }
}
