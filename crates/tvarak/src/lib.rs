//! TVARAK's simulator: what a redundancy controller beside the last-level cache costs and finds.
//!
//! After "TVARAK: Software-Managed Hardware Offload for DAX NVM Storage Redundancy" (CMU-PDL-19-105, 2019): cores with
//! caches, a shared cache with a directory, DIMMs of DRAM and NVM, and the designs of its §3 over real bytes.
//! `docs/inside/tvarak.md` has the model in words.

mod array;
mod banks;
pub mod campaign;
pub mod change;
pub mod claims;
mod clock;
pub mod controller;
pub mod counts;
pub mod design;
mod device;
mod digest;
mod dram;
pub mod figures;
pub mod fuse;
pub mod line;
pub mod machine;
pub mod measure;
mod mix;
pub mod mutants;
pub mod name;
pub mod nvm;
pub mod parameters;
pub mod programs;
pub mod row;
mod sparse;
pub mod trace;
pub mod workload;

pub use controller::state::{Findings, Loss};
pub use design::Design;
pub use machine::state::Machine;
pub use parameters::Parameters;

#[cfg(test)]
mod tests;
