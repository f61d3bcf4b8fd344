//! The numbers of the simulated machine: one file for all workloads.

mod check;
mod file;
mod sections;
mod sourced;

pub use sections::{
    CacheLevel, Controller, Cores, Fio, HeapWork, Llc, Memory, NStore, Parameters, ParametersError,
    Passes, Programs, Redis, Stream, TreeWork, Trees, Txb,
};
pub use sourced::{Source, Sourced};
