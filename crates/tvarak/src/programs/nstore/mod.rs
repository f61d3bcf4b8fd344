//! An engine like N-Store's with its write-ahead log in NVM (§4.4): tuples of ten fields under an index, and a log that is a
//! linked list. An update allocates the new field and a node of the log, which has the old one.
//!
//! The log is the engine's own. A node is linked before the tuple changes, and named as the one under way until it has; so what
//! was under way when power failed is undone from it. The heap keeps nothing for it. Nodes stay until a checkpoint
//! would drop them, which here is when there are as many as the log is to have: then the oldest goes with each update, and its old
//! field. What is freed lies anywhere, and what is allocated next lies there: the log's nodes are not sequential in NVM.

#[cfg(test)]
mod tests;

use crate::programs::heap::Heap;
use crate::programs::memory::{Halt, Memory, Work};
use crate::programs::trees::{Tree, TreeCosts, TreeKind, btree};

/// Fields of a tuple, as in YCSB.
pub const FIELDS: u64 = 10;

/// The types of the objects.
const ENGINE: u64 = 0x656E_6769;
const TUPLE: u64 = 0x7475_706C;
const FIELD: u64 = 0x6669_656C;
const LOG: u64 = 0x6C6F_6720;

/// Of the engine's object: the index, the oldest node of the log, the newest, their number, and the one under way.
const INDEX: u64 = 0;
const OLDEST: u64 = 8;
const NEWEST: u64 = 16;
const NODES: u64 = 24;
const UNDER_WAY: u64 = 32;
const ENGINE_BYTES: u64 = 40;

/// Of a tuple: its key, and where its fields are.
const TUPLE_FIELDS: u64 = 8;
const TUPLE_BYTES: u64 = TUPLE_FIELDS + FIELDS * 8;

/// Of a node: the next one, the tuple, which field, and the field as it was.
const NEXT: u64 = 0;
const OLD: u64 = 24;
const NODE_BYTES: u64 = 32;

/// What a transaction takes in the engine, and how large things are.
#[derive(Clone, Copy, Debug, Default)]
pub struct NStoreCosts {
    /// A transaction that updates a field.
    pub update: Work,
    /// A transaction that reads a tuple.
    pub read: Work,
    /// Of its index.
    pub index: TreeCosts,
    /// Bytes of a field.
    pub field_bytes: u64,
    /// Nodes that the log has.
    pub log_nodes: u64,
}

/// An engine with one table.
#[derive(Clone, Debug)]
pub struct NStore {
    costs: NStoreCosts,
    engine: u64,
    index: Tree,
}

impl NStore {
    /// An empty one, within a transaction.
    ///
    /// # Errors
    /// As of [`Heap::allocate`].
    pub fn create(
        memory: &mut impl Memory,
        heap: &mut Heap,
        costs: NStoreCosts,
    ) -> Result<NStore, Halt> {
        let engine = heap.allocate_zeroed(memory, ENGINE_BYTES, ENGINE)?;
        let index = Tree::create(memory, heap, TreeKind::BTree, costs.index)?;
        memory.set(engine + INDEX, index.map())?;
        Ok(NStore {
            costs,
            engine,
            index,
        })
    }

    /// The one whose object is there: a transaction that was under way is undone.
    ///
    /// # Errors
    /// What it needs is lost, or power failed again.
    pub fn open(memory: &mut impl Memory, engine: u64, costs: NStoreCosts) -> Result<NStore, Halt> {
        let node = memory.pointer(engine + UNDER_WAY)?;
        if node != 0 {
            let mut words = [0; NODE_BYTES as usize / 8];
            memory.load_all(node, &mut words)?;
            let [_, tuple, field, old] = words;
            memory.set(tuple + TUPLE_FIELDS + field * 8, old)?;
            // Only now: the node says what is to be undone.
            memory.set(engine + UNDER_WAY, 0)?;
        }
        let map = memory.pointer(engine + INDEX)?;
        Ok(NStore {
            costs,
            engine,
            index: Tree::open(map, TreeKind::BTree, costs.index),
        })
    }

    /// The object from which all others are found.
    pub fn engine(&self) -> u64 {
        self.engine
    }

    /// Inserts a tuple, each of whose fields is made of its number of `values`, in a transaction of the heap's.
    ///
    /// # Errors
    /// As of [`Heap::allocate`].
    pub fn insert(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        key: u64,
        values: &[u64; FIELDS as usize],
    ) -> Result<(), Halt> {
        heap.begin(memory)?;
        let tuple = heap.allocate(memory, TUPLE_BYTES, TUPLE)?;
        memory.set(tuple, key)?;
        for (field, value) in (0..).zip(values) {
            let field_at = self.new_field(memory, heap, *value)?;
            memory.set(tuple + TUPLE_FIELDS + field * 8, field_at)?;
        }
        self.index.insert(memory, heap, key, tuple)?;
        heap.commit(memory)
    }

    /// Gives a field of a tuple another value, in a transaction of the engine's. Whether there is the tuple.
    ///
    /// # Errors
    /// As of [`Heap::allocate`].
    pub fn update(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        (key, field): (u64, u64),
        value: u64,
    ) -> Result<bool, Halt> {
        memory.work(self.costs.update);
        let Some(tuple) = self.index.get(memory, key)? else {
            return Ok(false);
        };
        heap.begin_unlogged();
        let place = TUPLE_FIELDS + field * 8;
        let old = memory.pointer(tuple + place)?;
        let new = self.new_field(memory, heap, value)?;
        let node = heap.allocate(memory, NODE_BYTES, LOG)?;
        memory.store_all(node, &[0, tuple, field, old])?;
        heap.snapshot(memory, self.engine, OLDEST..ENGINE_BYTES)?;
        // From here on there is something to undo, and the log says what.
        memory.set(self.engine + UNDER_WAY, node)?;
        heap.snapshot(memory, tuple, place..place + 8)?;
        memory.set(tuple + place, new)?;
        // Here the transaction commits.
        memory.set(self.engine + UNDER_WAY, 0)?;
        self.append(memory, heap, node)?;
        heap.commit(memory)?;
        Ok(true)
    }

    /// Links a node as the newest, and drops the oldest if there are too many.
    fn append(&self, memory: &mut impl Memory, heap: &mut Heap, node: u64) -> Result<(), Halt> {
        let newest = memory.pointer(self.engine + NEWEST)?;
        match newest {
            0 => memory.set(self.engine + OLDEST, node)?,
            _ => {
                heap.snapshot(memory, newest, NEXT..NEXT + 8)?;
                memory.set(newest + NEXT, node)?;
            }
        }
        memory.set(self.engine + NEWEST, node)?;
        let nodes = memory.pointer(self.engine + NODES)?;
        if nodes < self.costs.log_nodes {
            return memory.set(self.engine + NODES, nodes + 1);
        }
        let oldest = memory.pointer(self.engine + OLDEST)?;
        let next = memory.word(oldest + NEXT)?;
        let old = memory.word(oldest + OLD)?;
        memory.set(self.engine + OLDEST, next)?;
        heap.free(memory, old);
        heap.free(memory, oldest);
        Ok(())
    }

    /// Reads a tuple: of each field the number of which it is made. None, if there is no such tuple.
    ///
    /// # Errors
    /// What it loads is lost.
    pub fn read(
        &self,
        memory: &mut impl Memory,
        key: u64,
    ) -> Result<Option<[u64; FIELDS as usize]>, Halt> {
        memory.work(self.costs.read);
        let Some(tuple) = self.index.get(memory, key)? else {
            return Ok(None);
        };
        let mut fields = [0; FIELDS as usize];
        memory.load_all(tuple + TUPLE_FIELDS, &mut fields)?;
        memory.wait_for_last_load();
        let mut values = [0; FIELDS as usize];
        for (value, field) in values.iter_mut().zip(&fields) {
            *value = self.field(memory, *field)?;
        }
        Ok(Some(values))
    }

    /// How many tuples there are, by the index.
    ///
    /// # Errors
    /// What it loads is lost.
    pub fn tuples(&self, memory: &mut impl Memory) -> Result<u64, Halt> {
        btree::count(memory, self.index.map())
    }

    fn field_words(&self) -> u64 {
        self.costs.field_bytes.div_ceil(8)
    }

    fn new_field(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        value: u64,
    ) -> Result<u64, Halt> {
        let field = heap.allocate(memory, self.field_words() * 8, FIELD)?;
        for word in (0..self.field_words()).step_by(2) {
            let words = [value.wrapping_add(word), value.wrapping_add(word + 1)];
            let left = (self.field_words() - word).min(2);
            memory.store_all(field + word * 8, &words[..left as usize])?;
        }
        Ok(field)
    }

    /// The number of which a field is made; another one, if one of its words is not of it.
    fn field(&self, memory: &mut impl Memory, field: u64) -> Result<u64, Halt> {
        let mut first = 0;
        for word in (0..self.field_words()).step_by(2) {
            let left = (self.field_words() - word).min(2) as usize;
            let mut words = [0; 2];
            memory.load_all(field + word * 8, &mut words[..left])?;
            if word == 0 {
                first = words[0];
            }
            for (at, found) in words[..left].iter().enumerate() {
                if *found != first.wrapping_add(word + at as u64) {
                    return Ok(!first);
                }
            }
        }
        Ok(first)
    }
}
