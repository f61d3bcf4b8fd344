//! The programs of §4: a persistent heap with transactions, and on it a table like Redis's, three trees, and an
//! engine like N-Store's. They run over anything that loads and stores words: a core of the machine, or plain memory.

pub mod application;
pub mod core;
pub mod heap;
pub mod instance;
pub mod measure;
pub mod media;
pub mod memory;
pub mod nstore;
pub mod prepared;
pub mod redis;
pub mod schedule;
pub mod store;
pub mod trees;
pub mod vector;
