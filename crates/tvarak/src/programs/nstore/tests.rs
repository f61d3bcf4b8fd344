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
