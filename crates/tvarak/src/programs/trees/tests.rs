//! The trees against a map, and with power failing at every store.

use std::collections::BTreeMap;

use crate::programs::heap::{Heap, HeapCosts};
use crate::programs::memory::Halt;
use crate::programs::trees::{Tree, TreeCosts, TreeKind, rbtree};
use crate::programs::vector::VectorMemory;

const REGION_BYTES: u64 = 1 << 21;

fn create(kind: TreeKind, bytes: u64) -> (VectorMemory, Heap, Tree) {
    let mut memory = VectorMemory::new(bytes);
    let mut heap = Heap::format(&mut memory, bytes, HeapCosts::default()).unwrap();
    heap.begin(&mut memory).unwrap();
    let tree = Tree::create(&mut memory, &mut heap, kind, TreeCosts::default()).unwrap();
    heap.set_root(&mut memory, tree.map()).unwrap();
    heap.commit(&mut memory).unwrap();
    (memory, heap, tree)
}

fn insert(
    tree: &Tree,
    (memory, heap): (&mut VectorMemory, &mut Heap),
    key: u64,
    value: u64,
) -> Result<(), Halt> {
    heap.begin(memory)?;
    tree.insert(memory, heap, key, value)?;
    heap.commit(memory)
}

#[test]
fn a_tree_holds_what_a_map_holds() {
    for kind in TreeKind::ALL {
        for (seed, bits) in [(1, 64), (2, 10), (3, 6)] {
            let (mut memory, mut heap, tree) = create(kind, REGION_BYTES);
            let mut random = fastrand::Rng::with_seed(seed);
            let mut map = BTreeMap::new();
            for value in 1..3000 {
                let key = random.u64(..) >> (64 - bits);
                insert(&tree, (&mut memory, &mut heap), key, value).unwrap();
                map.insert(key, value);
                let other = random.u64(..) >> (64 - bits);
                let found = tree.get(&mut memory, other).unwrap();
                assert_eq!(found, map.get(&other).copied(), "{kind:?}, {seed}");
            }
            for (key, value) in &map {
                let found = tree.get(&mut memory, *key).unwrap();
                assert_eq!(found, Some(*value), "{kind:?}");
            }
            if kind == TreeKind::RbTree {
                assert!(rbtree::checks::black_height(&mut memory, tree.map) > 2);
            }
        }
    }
}

#[test]
fn sorted_keys_make_no_difference() {
    for kind in TreeKind::ALL {
        let (mut memory, mut heap, tree) = create(kind, REGION_BYTES);
        for key in (0..500).chain((500..1000).rev()) {
            insert(&tree, (&mut memory, &mut heap), key, key + 7).unwrap();
        }
        for key in 0..1000 {
            assert_eq!(tree.get(&mut memory, key).unwrap(), Some(key + 7));
        }
        assert_eq!(tree.get(&mut memory, 1000).unwrap(), None);
    }
}

/// Keys that make nodes split and rotate.
fn keys() -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(9);
    let key = |at: u64| {
        if at.is_multiple_of(3) {
            at
        } else {
            random.u64(..)
        }
    };
    (0..60).map(key).collect()
}

#[test]
fn an_insertion_is_whole_or_not_there_wherever_power_fails() {
    let bytes = crate::programs::heap::OBJECTS_AT + (4 << 16);
    let costs = HeapCosts::default();
    for kind in TreeKind::ALL {
        let (mut memory, mut heap, tree) = create(kind, bytes);
        let mut before: Vec<u64> = Vec::new();
        for (at, key) in keys().into_iter().enumerate() {
            let mut whole = memory.clone();
            insert(&tree, (&mut whole, &mut heap), key, key ^ 5).unwrap();
            for stores in (at as u64 % 5..whole.stored - memory.stored).step_by(5) {
                let mut cut = memory.clone();
                let mut other = Heap::open(&mut cut, bytes, costs).unwrap();
                cut.stores_left = Some(stores);
                insert(&tree, (&mut cut, &mut other), key, key ^ 5).unwrap_err();
                cut.stores_left = None;
                let heap = Heap::open(&mut cut, bytes, costs).unwrap();
                let map = heap.root(&mut cut).unwrap();
                let opened = Tree::open(map, kind, TreeCosts::default());
                let found = opened.get(&mut cut, key).unwrap();
                assert!([None, Some(key ^ 5)].contains(&found), "{kind:?}");
                for old in &before {
                    let found = opened.get(&mut cut, *old).unwrap();
                    assert_eq!(found, Some(*old ^ 5), "{kind:?}");
                }
                if kind == TreeKind::RbTree {
                    rbtree::checks::black_height(&mut cut, opened.map);
                }
            }
            memory = whole;
            before.push(key);
        }
    }
}
