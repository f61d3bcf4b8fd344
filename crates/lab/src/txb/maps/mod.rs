//! The maps of libpmemobj's examples (PMDK 1.12, `examples/libpmemobj`: `hashmap_tx`, `ctree_map`, `rbtree_map`,
//! `btree_map`), whose workloads the paper has (§4.3), and a table of values like Redis' (§4.2).
//!
//! The structures are theirs: what a node holds, which ranges a transaction adds, in which order. A reference is a word,
//! not two; a value is a word, and looking whether a key is there is part of an insertion.

mod btree;
mod ctree;
mod hashmap;
mod map;
mod rbtree;
mod table;

pub use map::{Map, MapKind};
pub use table::Table;
