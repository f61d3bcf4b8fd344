//! Recovery, with power failing at every store.

use crate::programs::heap::{Heap, HeapCosts, OBJECTS_AT};
use crate::programs::memory::{Halt, Memory};
use crate::programs::vector::VectorMemory;

const REGION_BYTES: u64 = OBJECTS_AT + (3 << 16);

/// What a program can see of a heap: the root's eight words, and every object that its words name, with its words.
fn seen(memory: &mut VectorMemory, heap: &Heap) -> Vec<u64> {
    let root = heap.root(memory).unwrap();
    let mut seen = vec![root];
    if root != 0 {
        for place in 0..8 {
            let object = memory.word(root + place * 8).unwrap();
            seen.push(object);
            if object != 0 {
                seen.extend((0..14).map(|word| memory.word(object + word * 8).unwrap()));
            }
        }
    }
    seen
}

fn begin(memory: &mut VectorMemory) -> Result<Heap, Halt> {
    let mut heap = Heap::format(memory, REGION_BYTES, HeapCosts::default())?;
    heap.begin(memory)?;
    let root = heap.allocate_zeroed(memory, 64, 1)?;
    heap.set_root(memory, root)?;
    heap.commit(memory)?;
    Ok(heap)
}

/// One transaction: replaces, changes, removes and adds objects.
fn transact(
    memory: &mut VectorMemory,
    heap: &mut Heap,
    random: &mut fastrand::Rng,
) -> Result<(), Halt> {
    let root = heap.root(memory)?;
    heap.begin(memory)?;
    for _ in 0..random.u64(1..5) {
        let place = random.u64(0..8) * 8;
        let old = memory.word(root + place)?;
        if old != 0 && random.bool() {
            let from = random.u64(0..10) * 8;
            heap.snapshot(memory, old, from..from + 24)?;
            memory.store_all(
                old + from,
                &[random.u64(..), random.u64(..), random.u64(..)],
            )?;
            continue;
        }
        heap.snapshot(memory, root, place..place + 8)?;
        let mut new = 0;
        if random.u8(0..4) != 0 {
            new = heap.allocate(memory, 112, 2)?;
            let words: [u64; 14] = std::array::from_fn(|_| random.u64(..));
            memory.store_all(new, &words)?;
        }
        if old != 0 {
            heap.free(memory, old);
        }
        memory.set(root + place, new)?;
    }
    heap.commit(memory)
}

/// Opens the heap with power failing again at each of its stores, and last with none.
fn recovered(image: &VectorMemory) -> (VectorMemory, Heap) {
    for stores in 0.. {
        let mut memory = image.clone();
        memory.stores_left = Some(stores);
        let opened = Heap::open(&mut memory, REGION_BYTES, HeapCosts::default());
        memory.stores_left = None;
        let again = Heap::open(&mut memory, REGION_BYTES, HeapCosts::default()).unwrap();
        if opened.is_ok() {
            return (memory, again);
        }
        let mut once = image.clone();
        Heap::open(&mut once, REGION_BYTES, HeapCosts::default()).unwrap();
        assert_eq!(
            once.words, memory.words,
            "an interrupted recovery makes no difference"
        );
    }
    unreachable!("recovery ends")
}

#[test]
fn a_transaction_is_whole_or_not_there_wherever_power_fails() {
    let mut image = VectorMemory::new(REGION_BYTES);
    let mut heap = begin(&mut image).unwrap();
    let mut rolled_back = 0;
    for seed in 0..40 {
        let before = seen(&mut image, &heap);
        let mut after = image.clone();
        let stored = after.stored;
        transact(&mut after, &mut heap, &mut fastrand::Rng::with_seed(seed)).unwrap();
        let whole = seen(&mut after, &heap);
        for stores in 0..after.stored - stored {
            let mut cut = image.clone();
            cut.stores_left = Some(stores);
            let mut heap =
                Heap::open(&mut image.clone(), REGION_BYTES, HeapCosts::default()).unwrap();
            let ended = transact(&mut cut, &mut heap, &mut fastrand::Rng::with_seed(seed));
            assert_eq!(ended, Err(Halt::PowerFailed));
            cut.stores_left = None;
            // Interrupting recovery at each of its stores as well: now and then, for it takes long.
            let (mut opened, mut heap) = match stores % 16 == seed % 16 {
                true => recovered(&cut),
                false => {
                    let heap = Heap::open(&mut cut, REGION_BYTES, HeapCosts::default()).unwrap();
                    (cut, heap)
                }
            };
            let found = seen(&mut opened, &heap);
            assert!(
                found == before || found == whole,
                "seed {seed}, store {stores}"
            );
            rolled_back += u64::from(found == before);
            // The free lists are right, too: another transaction finds nothing that is in use.
            transact(
                &mut opened,
                &mut heap,
                &mut fastrand::Rng::with_seed(seed + 1),
            )
            .unwrap();
            no_object_twice(&mut opened, &heap);
        }
        image = after;
    }
    assert!(rolled_back > 1000, "{rolled_back}");
}

fn no_object_twice(memory: &mut VectorMemory, heap: &Heap) {
    let root = heap.root(memory).unwrap();
    let mut objects: Vec<u64> = (0..8)
        .map(|place| memory.word(root + place * 8).unwrap())
        .collect();
    objects.retain(|object| *object != 0);
    let mut free = memory.word(super::format::CLASSES_AT).unwrap();
    while free != 0 {
        objects.push(free + super::OBJECT_HEADER_BYTES);
        free = memory.word(free + super::OBJECT_HEADER_BYTES).unwrap();
        assert!(objects.len() < 10_000, "the free list ends");
    }
    let all = objects.len();
    objects.sort_unstable();
    objects.dedup();
    assert_eq!(objects.len(), all, "no object is two things");
}

#[test]
fn formatting_that_is_interrupted_leaves_no_heap() {
    for stores in 0.. {
        let mut memory = VectorMemory::new(REGION_BYTES);
        memory.words.fill(0x5555);
        memory.stores_left = Some(stores);
        let formatted = Heap::format(&mut memory, REGION_BYTES, HeapCosts::default());
        memory.stores_left = None;
        let opened = Heap::open(&mut memory, REGION_BYTES, HeapCosts::default());
        assert_eq!(opened.is_ok(), formatted.is_ok());
        if formatted.is_ok() {
            return;
        }
    }
}

#[test]
fn what_is_freed_is_allocated_again_and_a_full_region_says_so() {
    let mut memory = VectorMemory::new(REGION_BYTES);
    let mut heap = begin(&mut memory).unwrap();
    heap.begin(&mut memory).unwrap();
    let first = heap.allocate(&mut memory, 300, 1).unwrap();
    heap.commit(&mut memory).unwrap();
    heap.begin(&mut memory).unwrap();
    heap.free(&mut memory, first);
    let second = heap.allocate(&mut memory, 300, 1).unwrap();
    assert_ne!(first, second, "it is free only once the transaction ends");
    heap.commit(&mut memory).unwrap();
    heap.begin(&mut memory).unwrap();
    assert_eq!(heap.allocate(&mut memory, 300, 1).unwrap(), first);
    let refused = heap.allocate(&mut memory, 1 << 20, 1);
    assert!(matches!(refused, Err(Halt::Full { .. })), "{refused:?}");
}

#[test]
fn a_transaction_says_what_it_changed_and_where_the_old_bytes_are() {
    let mut memory = VectorMemory::new(REGION_BYTES);
    let mut heap = begin(&mut memory).unwrap();
    let root = heap.root(&mut memory).unwrap();
    memory.changes = Some(Vec::new());
    heap.begin(&mut memory).unwrap();
    heap.snapshot(&mut memory, root, 8..24).unwrap();
    memory.store_all(root + 8, &[5, 6]).unwrap();
    heap.commit(&mut memory).unwrap();
    let changes = memory.changes.take().unwrap().pop().unwrap();
    let change = changes
        .iter()
        .find(|change| change.changed.start == root + 8)
        .unwrap();
    assert_eq!(change.object, root - 16..root + 112);
    assert_eq!(memory.word(change.before.unwrap()).unwrap(), 0);
}
