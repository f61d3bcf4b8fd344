//! The journals of a pool's volumes: found, watched, and written back last.
//!
//! Which order write-back takes is all that is decided here: a wrong or missing journal costs writes, never data.

mod content;
mod defer;
mod state;
mod watch;

pub(crate) use defer::DeferredBlocks;
pub(crate) use state::DeferredJournal;
