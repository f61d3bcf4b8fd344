//! A table like Redis's over libpmemobj: chained, with two tables while it grows, of which the older one is moved bucket by
//! bucket with each request. Keys and values are strings, objects of their own.
//!
//! Every request is a transaction, also one that only reads (§4.2): it may have to move a bucket.

mod rehash;
mod strings;
#[cfg(test)]
mod tests;

use crate::programs::heap::Heap;
use crate::programs::memory::{Halt, Memory, Work};
use strings::Key;

/// The type of an object that is a table, or an entry.
const TABLE: u64 = 0x6469_6374;
const ENTRY: u64 = 0x656E_7472;

/// Bytes of the object from which all others are found: the two tables, and which bucket moves next.
const DICT_BYTES: u64 = 2 * HALF_BYTES + 8;
/// Bytes of what is known of a table: its buckets, their number, entries.
const HALF_BYTES: u64 = 24;
/// Of a table, where the number of its buckets is.
const BUCKETS: u64 = 8;
/// Of a table, where the number of its entries is.
const USED: u64 = 16;
/// Where one more than the number of the bucket is that moves next; nought while none does.
const MOVING: u64 = 2 * HALF_BYTES;
/// Buckets of a table at first, as in Redis.
const FIRST_BUCKETS: u64 = 4;

/// Bytes of an entry: its key, its value, and the next entry.
const ENTRY_BYTES: u64 = 24;
/// Of an entry, where the value is.
const VALUE: u64 = 8;
/// Of an entry, where the next one is.
const NEXT: u64 = 16;

/// Loads and stores of a request that are simulated, besides the heap's.
const REQUEST_ACCESSES: u64 = 16;

/// What a request takes in Redis, without what the heap's operations take.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisCosts {
    /// A request that sets.
    pub set: Work,
    /// A request that gets.
    pub get: Work,
    /// Bytes of a value.
    pub value_bytes: u64,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Redis {
    costs: RedisCosts,
    dict: u64,
}

/// An entry, and its value.
#[derive(Clone, Copy)]
struct Found {
    entry: u64,
    value: u64,
}

impl Redis {
    /// An empty one, within a transaction.
    ///
    /// # Errors
    /// As of [`Heap::allocate`].
    pub fn create(
        memory: &mut impl Memory,
        heap: &mut Heap,
        costs: RedisCosts,
    ) -> Result<Redis, Halt> {
        let dict = heap.allocate_zeroed(memory, DICT_BYTES, TABLE)?;
        let table = heap.allocate_zeroed(memory, FIRST_BUCKETS * 8, TABLE)?;
        memory.store_all(dict, &[table, FIRST_BUCKETS, 0])?;
        Ok(Redis { costs, dict })
    }

    /// The one whose object is there.
    pub fn open(dict: u64, costs: RedisCosts) -> Redis {
        Redis { costs, dict }
    }

    /// The object from which all others are found.
    pub fn dict(&self) -> u64 {
        self.dict
    }

    /// Sets a key, in a transaction of its own. The value's bytes are the number's, again and again.
    ///
    /// # Errors
    /// As of [`Heap::snapshot`] and [`Heap::allocate`].
    pub fn set(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        key: u64,
        value: u64,
    ) -> Result<(), Halt> {
        memory.work(self.costs.set.without(REQUEST_ACCESSES));
        heap.begin(memory)?;
        let key = Key::of(key);
        self.move_some(memory, heap)?;
        match self.find(memory, &key)? {
            Some(found) => {
                let new = strings::new_value(memory, heap, value, self.costs.value_bytes)?;
                heap.snapshot(memory, found.entry, VALUE..VALUE + 8)?;
                memory.set(found.entry + VALUE, new)?;
                heap.free(memory, found.value);
            }
            None => self.add(memory, heap, &key, value)?,
        }
        heap.commit(memory)
    }

    /// Gets a key's value, as the number of which it is made, in a transaction of its own.
    ///
    /// # Errors
    /// As of [`Heap::snapshot`].
    pub fn get(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        key: u64,
    ) -> Result<Option<u64>, Halt> {
        memory.work(self.costs.get.without(REQUEST_ACCESSES));
        heap.begin(memory)?;
        self.move_some(memory, heap)?;
        let value = self.look_up(memory, key)?;
        heap.commit(memory)?;
        Ok(value)
    }

    /// Gets a key's value, and changes nothing.
    ///
    /// # Errors
    /// What it loads is lost.
    pub fn look_up(&self, memory: &mut impl Memory, key: u64) -> Result<Option<u64>, Halt> {
        match self.find(memory, &Key::of(key))? {
            Some(found) => Ok(Some(strings::value(memory, found.value)?)),
            None => Ok(None),
        }
    }

    fn half(&self, half: u64) -> u64 {
        self.dict + half * HALF_BYTES
    }

    fn is_moving(&self, memory: &mut impl Memory) -> Result<bool, Halt> {
        Ok(memory.pointer(self.dict + MOVING)? != 0)
    }

    fn find(&self, memory: &mut impl Memory, key: &Key) -> Result<Option<Found>, Halt> {
        for half in 0..1 + u64::from(self.is_moving(memory)?) {
            let bucket = self.bucket(memory, half, key)?;
            let mut entry = memory.pointer(bucket)?;
            while entry != 0 {
                let own = memory.pointer(entry)?;
                if key.is_at(memory, own)? {
                    let value = memory.pointer(entry + VALUE)?;
                    return Ok(Some(Found { entry, value }));
                }
                entry = memory.pointer(entry + NEXT)?;
            }
        }
        Ok(None)
    }

    /// Where the bucket of a key is.
    fn bucket(&self, memory: &mut impl Memory, half: u64, key: &Key) -> Result<u64, Halt> {
        let buckets = memory.word(self.half(half) + BUCKETS)?;
        let table = memory.pointer(self.half(half))?;
        Ok(table + (key.hash() & (buckets - 1)) * 8)
    }

    /// Adds an entry for a key that has none.
    fn add(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        key: &Key,
        value: u64,
    ) -> Result<(), Halt> {
        self.grow(memory, heap)?;
        let half = u64::from(self.is_moving(memory)?);
        let own = key.new_string(memory, heap)?;
        let value = strings::new_value(memory, heap, value, self.costs.value_bytes)?;
        let entry = heap.allocate(memory, ENTRY_BYTES, ENTRY)?;
        let bucket = self.bucket(memory, half, key)?;
        let next = memory.word(bucket)?;
        memory.store_all(entry, &[own, value, next])?;
        let table = memory.pointer(self.half(half))?;
        heap.snapshot(memory, table, bucket - table..bucket - table + 8)?;
        memory.set(bucket, entry)?;
        self.count(memory, heap, half, 1)
    }

    /// Adds to the number of a table's entries.
    fn count(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        half: u64,
        by: i64,
    ) -> Result<(), Halt> {
        let at = half * HALF_BYTES + USED;
        heap.snapshot(memory, self.dict, at..at + 8)?;
        let used = memory.word(self.dict + at)?;
        memory.set(self.dict + at, used.wrapping_add_signed(by))
    }
}
