//! The simulated machine: cores with their caches, the shared cache with its directory, memory, and the redundancy
//! controllers between.

mod access;
pub mod build;
mod divide;
#[cfg(all(test, not(feature = "mutants")))]
mod life;
mod llc;
mod memory;
mod power;
mod private;
pub mod state;
