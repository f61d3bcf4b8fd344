//! The journals of a pool's volumes: found, watched, and written back last.

mod content;
mod defer;
mod state;
mod watch;

pub(crate) use defer::DeferredBlocks;
pub(crate) use state::DeferredJournal;
