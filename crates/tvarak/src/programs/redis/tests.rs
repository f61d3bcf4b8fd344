//! The table against a map, while it grows, and with power failing at every store.

use std::collections::BTreeMap;

use crate::programs::heap::{Heap, HeapCosts, OBJECTS_AT};
use crate::programs::memory::Memory;
use crate::programs::redis::strings::kept;
use crate::programs::redis::{MOVING, Redis, RedisCosts};
use crate::programs::vector::VectorMemory;

fn costs(value_bytes: u64) -> RedisCosts {
    RedisCosts {
        value_bytes,
        ..RedisCosts::default()
    }
}

fn create(region_bytes: u64, value_bytes: u64) -> (VectorMemory, Heap, Redis) {
    let mut memory = VectorMemory::new(region_bytes);
    let mut heap = Heap::format(&mut memory, region_bytes, HeapCosts::default()).unwrap();
    heap.begin(&mut memory).unwrap();
    let redis = Redis::create(&mut memory, &mut heap, costs(value_bytes)).unwrap();
    heap.set_root(&mut memory, redis.dict()).unwrap();
    heap.commit(&mut memory).unwrap();
    (memory, heap, redis)
}

#[test]
fn it_holds_what_a_map_holds_whether_it_grows_or_not() {
    for value_bytes in [3, 8, 100] {
        let (mut memory, mut heap, redis) = create(4 << 20, value_bytes);
        let mut random = fastrand::Rng::with_seed(value_bytes);
        let mut map = BTreeMap::new();
        let mut while_moving = 0;
        for _ in 0..4000 {
            let key = random.u64(0..2500);
            let value = random.u64(..);
            redis.set(&mut memory, &mut heap, key, value).unwrap();
            map.insert(key, kept(value, value_bytes));
            let other = random.u64(0..2500);
            while_moving += u64::from(memory.word(redis.dict() + MOVING).unwrap() != 0);
            let found = redis.get(&mut memory, &mut heap, other).unwrap();
            assert_eq!(found, map.get(&other).copied());
        }
        assert!(while_moving > 500, "{while_moving}");
        for (key, value) in &map {
            assert_eq!(redis.look_up(&mut memory, *key).unwrap(), Some(*value));
        }
    }
}

#[test]
fn a_request_is_whole_or_not_there_wherever_power_fails() {
    let bytes = OBJECTS_AT + (6 << 16);
    let heap_costs = HeapCosts::default();
    let (mut memory, mut heap, redis) = create(bytes, 3);
    let mut random = fastrand::Rng::with_seed(4);
    let mut map: BTreeMap<u64, u64> = BTreeMap::new();
    for at in 0..60 {
        let (key, value) = (random.u64(0..40), random.u64(0..1 << 24));
        let mut whole = memory.clone();
        redis.set(&mut whole, &mut heap, key, value).unwrap();
        for stores in (at % 3..whole.stored - memory.stored).step_by(3) {
            let mut cut = memory.clone();
            let mut other = Heap::open(&mut cut, bytes, heap_costs).unwrap();
            cut.stores_left = Some(stores);
            redis.set(&mut cut, &mut other, key, value).unwrap_err();
            cut.stores_left = None;
            let mut heap = Heap::open(&mut cut, bytes, heap_costs).unwrap();
            let opened = Redis::open(heap.root(&mut cut).unwrap(), costs(3));
            let found = opened.get(&mut cut, &mut heap, key).unwrap();
            assert!([map.get(&key).copied(), Some(value)].contains(&found));
            for (old, value) in map.iter().filter(|(old, _)| **old != key) {
                let found = opened.get(&mut cut, &mut heap, *old).unwrap();
                assert_eq!(found, Some(*value), "request {at}, store {stores}");
            }
        }
        memory = whole;
        map.insert(key, value);
    }
}
