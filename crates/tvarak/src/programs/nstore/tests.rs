//! The engine against a map, and with power failing at every store.

use std::collections::BTreeMap;

use crate::programs::heap::{Heap, HeapCosts, OBJECTS_AT};
use crate::programs::nstore::{FIELDS, NStore, NStoreCosts};
use crate::programs::vector::VectorMemory;

const REGION_BYTES: u64 = OBJECTS_AT + (5 << 16);

/// Few, but so many that the fields take a second run while they are updated.
const TUPLES: u64 = 44;

fn costs() -> NStoreCosts {
    NStoreCosts {
        field_bytes: 100,
        log_nodes: 20,
        ..NStoreCosts::default()
    }
}

fn values(key: u64) -> [u64; FIELDS as usize] {
    std::array::from_fn(|field| key << 40 | (field as u64) << 32)
}

fn create(bytes: u64, tuples: u64) -> (VectorMemory, Heap, NStore) {
    let mut memory = VectorMemory::new(bytes);
    let mut heap = Heap::format(&mut memory, bytes, HeapCosts::default()).unwrap();
    heap.begin(&mut memory).unwrap();
    let store = NStore::create(&mut memory, &mut heap, costs()).unwrap();
    heap.set_root(&mut memory, store.engine()).unwrap();
    heap.commit(&mut memory).unwrap();
    for key in 0..tuples {
        store
            .insert(&mut memory, &mut heap, key, &values(key))
            .unwrap();
    }
    (memory, heap, store)
}

#[test]
fn it_holds_what_a_map_holds() {
    let (mut memory, mut heap, store) = create(2 << 20, 500);
    let mut map: BTreeMap<u64, [u64; FIELDS as usize]> =
        (0..500).map(|key| (key, values(key))).collect();
    let mut random = fastrand::Rng::with_seed(8);
    for _ in 0..3000 {
        let (key, field, value) = (random.u64(0..510), random.u64(0..FIELDS), random.u64(..));
        let place = (key, field);
        let is_there = store.update(&mut memory, &mut heap, place, value).unwrap();
        assert_eq!(is_there, map.contains_key(&key));
        if let Some(values) = map.get_mut(&key) {
            values[field as usize] = value;
        }
        let other = random.u64(0..510);
        let found = store.read(&mut memory, other).unwrap();
        assert_eq!(found, map.get(&other).copied());
    }
    for (key, values) in &map {
        assert_eq!(store.read(&mut memory, *key).unwrap(), Some(*values));
    }
    assert_eq!(store.tuples(&mut memory).unwrap(), 500);
}

/// The heap keeps no log for the engine. What that costs: nothing while power is there, for all that updates take comes from what they
/// free once the log is full; and at most what one update allocates and frees, each time that power fails in one.
#[test]
fn objects_are_lost_by_power_failures_alone_and_few_by_each() {
    const FAILURES: u64 = 200;
    let bytes = OBJECTS_AT + (64 << 16);
    let (mut memory, mut heap, store) = create(bytes, TUPLES);
    let mut random = fastrand::Rng::with_seed(5);
    let mut update = |memory: &mut VectorMemory, heap: &mut Heap, store: &NStore| {
        let place = (random.u64(0..TUPLES), random.u64(0..FIELDS));
        store.update(memory, heap, place, 9).map(|_| ())
    };
    for _ in 0..100 {
        update(&mut memory, &mut heap, &store).unwrap();
    }
    let used = heap.used_bytes(&mut memory).unwrap();
    for _ in 0..5000 {
        update(&mut memory, &mut heap, &store).unwrap();
    }
    assert_eq!(heap.used_bytes(&mut memory).unwrap(), used);
    let mut stores = 0;
    for _ in 0..FAILURES {
        stores = (stores + 7) % 60;
        memory.stores_left = Some(stores);
        let _ = update(&mut memory, &mut heap, &store);
        memory.stores_left = None;
        heap = Heap::open(&mut memory, bytes, HeapCosts::default()).unwrap();
        let engine = heap.root(&mut memory).unwrap();
        let opened = NStore::open(&mut memory, engine, costs()).unwrap();
        update(&mut memory, &mut heap, &opened).unwrap();
    }
    // A new field and a node, an old field and a node; and runs are used up whole.
    let lost = heap.used_bytes(&mut memory).unwrap() - used;
    assert!(lost <= FAILURES * 2 * (128 + 128) + (2 << 16), "{lost}");
    assert_eq!(store.tuples(&mut memory).unwrap(), TUPLES);
}

#[test]
fn an_update_is_whole_or_not_there_wherever_power_fails() {
    let (mut memory, mut heap, store) = create(REGION_BYTES, TUPLES);
    let mut map: BTreeMap<u64, [u64; FIELDS as usize]> =
        (0..TUPLES).map(|key| (key, values(key))).collect();
    let mut random = fastrand::Rng::with_seed(3);
    let mut undone = 0;
    for _ in 0..60 {
        let (key, field, value) = (random.u64(0..TUPLES), random.u64(0..FIELDS), random.u64(..));
        let mut whole = memory.clone();
        store
            .update(&mut whole, &mut heap, (key, field), value)
            .unwrap();
        let mut changed = map[&key];
        changed[field as usize] = value;
        for stores in 0..whole.stored - memory.stored {
            let mut cut = memory.clone();
            let mut other = Heap::open(&mut cut, REGION_BYTES, HeapCosts::default()).unwrap();
            cut.stores_left = Some(stores);
            store
                .update(&mut cut, &mut other, (key, field), value)
                .unwrap_err();
            cut.stores_left = None;
            let heap = Heap::open(&mut cut, REGION_BYTES, HeapCosts::default()).unwrap();
            let engine = heap.root(&mut cut).unwrap();
            let opened = NStore::open(&mut cut, engine, costs()).unwrap();
            for (other, values) in &map {
                let found = opened.read(&mut cut, *other).unwrap();
                let is_whole = *other == key && found == Some(changed);
                assert!(is_whole || found == Some(*values), "{other} of {key}");
                undone += u64::from(*other == key && !is_whole);
            }
        }
        memory = whole;
        map.insert(key, changed);
    }
    assert!(undone > 1000, "{undone}");
}
