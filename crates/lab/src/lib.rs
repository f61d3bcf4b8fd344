//! The published NVM caches as engines beside Forebay's own, on the same substrate, and the papers'
//! experiments over all of them.
//!
//! Every engine stores real data in a real region, serves reads and writes, evicts, writes back and
//! recovers after a crash; its lines and fences are those that the region counted. What a paper
//! leaves open, and where its protocol as printed loses data, is in `docs/inside/papers.md`.

mod action;
pub mod autobahn;
mod cleaner;
pub mod dax;
pub mod disk;
pub mod elsewhere;
mod engine;
mod engine_name;
pub mod engines;
pub mod experiments;
pub mod figures;
pub mod files;
pub mod filesystem;
pub mod measure;
pub mod mutants;
pub mod paper;
mod scratch;
mod shared;
#[cfg(test)]
mod testing;
pub mod txb;
pub mod virtual_time;
pub mod workload;

pub use engine::{Engine, EngineStats, EngineTransaction};
