//! Workloads: programs on the cores of a machine, which load and store real bytes.

pub mod behind;
pub mod fio;
pub mod keeping;
pub mod library;
pub mod passes;
pub mod program;
pub mod regions;
pub mod stream;
