//! The three trees of PMDK's map examples, in behaviour and in the sizes of their nodes: keys of eight bytes, and as value
//! the sixteen bytes of an object's identity, of which the second eight are what is looked up.

pub(in crate::programs) mod btree;
mod ctree;
mod node;
mod rbtree;
#[cfg(test)]
mod tests;

use crate::programs::heap::Heap;
use crate::programs::memory::{Halt, Memory, Work};
use node::NODE;

/// Which tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// A crit-bit tree.
    CTree,
    /// A B-tree of order eight.
    BTree,
    /// A red-black tree.
    RbTree,
}

impl TreeKind {
    /// All of them.
    pub const ALL: [TreeKind; 3] = [TreeKind::CTree, TreeKind::BTree, TreeKind::RbTree];
}

/// What a tree's own code takes in PMDK, without what the heap's operations take.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeCosts {
    /// A look-up, whatever the depth.
    pub get: Work,
    /// For each node that it looks at.
    pub get_level: Work,
    /// An insertion, whatever the depth.
    pub insert: Work,
    /// For each node that it looks at.
    pub insert_level: Work,
}

/// A tree in a heap: its root object says where it begins.
#[derive(Clone, Debug)]
pub struct Tree {
    kind: TreeKind,
    costs: TreeCosts,
    /// The object from which all nodes are found.
    map: u64,
}

/// Bytes of the object from which all nodes are found.
const MAP_BYTES: u64 = 48;

impl Tree {
    /// An empty one, within a transaction.
    ///
    /// # Errors
    /// As of [`Heap::allocate`].
    pub fn create(
        memory: &mut impl Memory,
        heap: &mut Heap,
        kind: TreeKind,
        costs: TreeCosts,
    ) -> Result<Tree, Halt> {
        let map = heap.allocate_zeroed(memory, MAP_BYTES, NODE)?;
        if kind == TreeKind::RbTree {
            rbtree::create(memory, heap, map)?;
        }
        Ok(Tree { kind, costs, map })
    }

    /// The one whose object is there.
    pub fn open(map: u64, kind: TreeKind, costs: TreeCosts) -> Tree {
        Tree { kind, costs, map }
    }

    /// The object from which all nodes are found.
    pub fn map(&self) -> u64 {
        self.map
    }

    /// Inserts a key, or gives one that is there another value, within a transaction.
    ///
    /// # Errors
    /// As of [`Heap::snapshot`] and [`Heap::allocate`].
    pub fn insert(
        &self,
        memory: &mut impl Memory,
        heap: &mut Heap,
        key: u64,
        value: u64,
    ) -> Result<(), Halt> {
        memory.work(self.costs.insert);
        let tree = (self.map, self.costs.insert_level);
        match self.kind {
            TreeKind::CTree => ctree::insert(memory, heap, tree, key, value),
            TreeKind::BTree => btree::insert(memory, heap, tree, key, value),
            TreeKind::RbTree => rbtree::insert(memory, heap, tree, key, value),
        }
    }

    /// Looks a key up.
    ///
    /// # Errors
    /// What it loads is lost.
    pub fn get(&self, memory: &mut impl Memory, key: u64) -> Result<Option<u64>, Halt> {
        memory.work(self.costs.get);
        let tree = (self.map, self.costs.get_level);
        match self.kind {
            TreeKind::CTree => ctree::get(memory, tree, key),
            TreeKind::BTree => btree::get(memory, tree, key),
            TreeKind::RbTree => rbtree::get(memory, tree, key),
        }
    }
}
