//! The engine: commits, checkpoints, and what it takes to read a cached block.

pub(crate) mod change;
pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod content;
pub(crate) mod core;
pub(crate) mod plan;
