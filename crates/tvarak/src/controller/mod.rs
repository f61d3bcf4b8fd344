//! The redundancy controllers, one beside each bank of the LLC (§3).

pub mod caches;
pub mod diffs;
mod dimm;
pub mod duel;
pub mod examine;
mod file_system;
mod fill;
mod pace;
mod repair;
pub mod shadow;
pub mod state;
mod write_back;
