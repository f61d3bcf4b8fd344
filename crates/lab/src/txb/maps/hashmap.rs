//! `hashmap_tx`: a table of chains. Its buckets are as many as it is made for and are not rehashed.

use crate::txb::error::Result;
use crate::txb::heap::{Heap, Transaction};
use crate::txb::layout::Object;
use crate::txb::media::UNIT_BYTES;

// The map.
const COUNT: u64 = 0;
const BUCKETS: u64 = 1;
const SHIFT: u64 = 2;
const MAP_WORDS: u64 = 3;
// An entry.
const KEY: u64 = 0;
const VALUE: u64 = 1;
const NEXT: u64 = 2;
const ENTRY_WORDS: u64 = 3;

/// One object has them all, and fits a unit.
const BUCKETS_MAX: u64 = 1 << 17;
const _: () = assert!(BUCKETS_MAX * 8 < UNIT_BYTES);

/// 2^64 over the golden ratio: consecutive keys are spread.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

pub(super) fn create(tx: &mut Transaction<'_>, keys: u64) -> Result<Object> {
    let count = keys.clamp(2, BUCKETS_MAX).next_power_of_two();
    let (map, buckets) = (tx.alloc(MAP_WORDS)?, tx.alloc(count)?);
    for bucket in 0..count {
        tx.set(buckets, bucket, Object::NONE.to_word())?;
    }
    let shift = 64 - count.trailing_zeros();
    tx.fill(map, &[0, buckets.to_word(), u64::from(shift)])?;
    Ok(map)
}

/// The array of the chains, and the number of the one that a key is in.
fn bucket(heap: &Heap, map: Object, key: u64) -> (Object, u64) {
    let number = key.wrapping_mul(SPREAD) >> heap.get(map, SHIFT);
    (Object::from_word(heap.get(map, BUCKETS)), number)
}

/// The entry of a key, and the object and word that lead to it.
fn find(heap: &Heap, map: Object, key: u64) -> Option<(Object, (Object, u64))> {
    let mut from = bucket(heap, map, key);
    loop {
        let entry = Object::from_word(heap.get(from.0, from.1));
        if entry.is_none() {
            return None;
        }
        if heap.get(entry, KEY) == key {
            return Some((entry, from));
        }
        from = (entry, NEXT);
    }
}

pub(super) fn get(heap: &Heap, map: Object, key: u64) -> Option<u64> {
    find(heap, map, key).map(|(entry, _)| heap.get(entry, VALUE))
}

pub(super) fn insert(
    tx: &mut Transaction<'_>,
    map: Object,
    (key, value): (u64, u64),
) -> Result<()> {
    if let Some((entry, _)) = find(tx, map, key) {
        return tx.set(entry, VALUE, value);
    }
    let (buckets, number) = bucket(tx, map, key);
    tx.add(buckets, number..number + 1)?;
    tx.add(map, COUNT..COUNT + 1)?;
    let entry = tx.alloc(ENTRY_WORDS)?;
    let next = tx.get(buckets, number);
    tx.fill(entry, &[key, value, next])?;
    tx.set(buckets, number, entry.to_word())?;
    let count = tx.get(map, COUNT);
    tx.set(map, COUNT, count + 1)
}

pub(super) fn remove(tx: &mut Transaction<'_>, map: Object, key: u64) -> Result<Option<u64>> {
    let Some((entry, (from, word))) = find(tx, map, key) else {
        return Ok(None);
    };
    let value = tx.get(entry, VALUE);
    tx.add(from, word..word + 1)?;
    tx.add(map, COUNT..COUNT + 1)?;
    let next = tx.get(entry, NEXT);
    tx.set(from, word, next)?;
    let count = tx.get(map, COUNT);
    tx.set(map, COUNT, count - 1)?;
    tx.free(entry)?;
    Ok(Some(value))
}
