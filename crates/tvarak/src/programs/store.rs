//! One of the programs, as its workload sees it: keys, each with the values of one or ten fields.

use crate::programs::heap::{Heap, OBJECT_HEADER_BYTES, class_of};
use crate::programs::memory::{Halt, Memory};
use crate::programs::nstore::{FIELDS, NStore, NStoreCosts};
use crate::programs::redis::{Redis, RedisCosts};
use crate::programs::trees::{Tree, TreeCosts, TreeKind};

/// Which program, with what it takes.
#[derive(Clone, Copy, Debug)]
pub enum StoreKind {
    /// Redis.
    Redis(RedisCosts),
    /// A tree.
    Tree(TreeKind, TreeCosts),
    /// N-Store.
    NStore(NStoreCosts),
}

impl StoreKind {
    /// Fields of a key.
    pub fn fields(&self) -> u64 {
        match self {
            StoreKind::NStore(_) => FIELDS,
            StoreKind::Redis(_) | StoreKind::Tree(..) => 1,
        }
    }

    /// Bytes that a region needs for so many keys, and so many transactions that only replace values.
    pub fn region_bytes(&self, keys: u64) -> u64 {
        // Runs that are not full, small tables, and what only a few have.
        const MORE_BYTES: u64 = 1 << 20;
        // Of a tree, for each key; of the B-tree's nodes, three keys at least share one.
        const KEY_BYTES: u64 = 144;
        let (key_bytes, log_bytes) = match self {
            // Key, value, entry; tables of twice the keys at most, and all that there were before.
            StoreKind::Redis(costs) => (object_bytes(costs.value_bytes + 24) + 2 * 128 + 128, 0),
            StoreKind::Tree(..) => (KEY_BYTES, 0),
            StoreKind::NStore(costs) => {
                let field_bytes = object_bytes(costs.field_bytes + 8);
                let tuple_bytes = 128 + FIELDS * field_bytes + KEY_BYTES;
                (tuple_bytes, (costs.log_nodes + 1) * (128 + field_bytes))
            }
        };
        (MORE_BYTES + keys * key_bytes + log_bytes).next_multiple_of(4096)
    }
}

/// What an object of so many bytes takes in a heap.
fn object_bytes(bytes: u64) -> u64 {
    class_of(bytes + OBJECT_HEADER_BYTES).map_or(u64::MAX, |(_, size)| size)
}

/// A program in a heap.
#[derive(Clone, Debug)]
pub enum Store {
    /// Redis.
    Redis(Redis),
    /// A tree.
    Tree(Tree),
    /// N-Store.
    NStore(NStore),
}

impl Store {
    /// An empty one, which the heap's root leads to.
    ///
    /// # Errors
    /// The region is too small.
    pub fn create(
        memory: &mut impl Memory,
        heap: &mut Heap,
        kind: &StoreKind,
    ) -> Result<Store, Halt> {
        heap.begin(memory)?;
        let (store, root) = match *kind {
            StoreKind::Redis(costs) => {
                let redis = Redis::create(memory, heap, costs)?;
                let root = redis.dict();
                (Store::Redis(redis), root)
            }
            StoreKind::Tree(kind, costs) => {
                let tree = Tree::create(memory, heap, kind, costs)?;
                let root = tree.map();
                (Store::Tree(tree), root)
            }
            StoreKind::NStore(costs) => {
                let engine = NStore::create(memory, heap, costs)?;
                let root = engine.engine();
                (Store::NStore(engine), root)
            }
        };
        heap.set_root(memory, root)?;
        heap.commit(memory)?;
        Ok(store)
    }

    /// Adds a key, with the values of its fields.
    ///
    /// # Errors
    /// The region is full, or what is accessed is lost.
    pub fn add(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        key: u64,
        value: impl Fn(u64) -> u64,
    ) -> Result<(), Halt> {
        match self {
            Store::NStore(engine) => {
                let values = std::array::from_fn(|field| value(field as u64));
                engine.insert(memory, heap, key, &values)
            }
            Store::Redis(_) | Store::Tree(_) => self.write(memory, heap, (key, 0), value(0)),
        }
    }

    /// Writes a field of a key.
    ///
    /// # Errors
    /// The region is full, or what is accessed is lost.
    pub fn write(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        (key, field): (u64, u64),
        value: u64,
    ) -> Result<(), Halt> {
        match self {
            Store::Redis(redis) => redis.set(memory, heap, key, value),
            Store::Tree(tree) => {
                heap.begin(memory)?;
                tree.insert(memory, heap, key, value)?;
                heap.commit(memory)
            }
            Store::NStore(engine) => {
                let is_there = engine.update(memory, heap, (key, field), value)?;
                assert!(is_there, "only tuples that are there are updated");
                Ok(())
            }
        }
    }

    /// How many keys there are, of a program that never removes nor adds one while it is measured.
    ///
    /// # Errors
    /// What is accessed is lost.
    pub fn keys(&self, memory: &mut impl Memory) -> Result<Option<u64>, Halt> {
        match self {
            Store::NStore(engine) => engine.tuples(memory).map(Some),
            Store::Redis(_) | Store::Tree(_) => Ok(None),
        }
    }

    /// Reads a key as the program does, by a transaction if it uses one: its fields' values, none if it is not there.
    ///
    /// # Errors
    /// What is accessed is lost.
    pub fn read(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        key: u64,
        values: &mut Vec<u64>,
    ) -> Result<(), Halt> {
        values.clear();
        match self {
            Store::Redis(redis) => values.extend(redis.get(memory, heap, key)?),
            Store::Tree(tree) => values.extend(tree.get(memory, key)?),
            Store::NStore(engine) => {
                values.extend(engine.read(memory, key)?.into_iter().flatten());
            }
        }
        Ok(())
    }
}
