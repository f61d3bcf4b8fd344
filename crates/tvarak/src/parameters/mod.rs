//! The numbers of the simulated machine: one file for all workloads.

mod check;
mod file;
mod sections;
mod sourced;

pub use sections::{
    CacheLevel, Controller, Cores, Fio, Llc, Memory, Parameters, ParametersError, Passes, Stream,
    Txb,
};
pub use sourced::{Source, Sourced};
