//! The journals of a pool's volumes: found, watched, and written back last.
//!
//! Which order write-back takes is all that is decided here: a wrong or missing journal costs writes, never data.

mod content;
mod defer;
mod deferred;
mod state;
mod watch;

pub(crate) use deferred::DeferredBlocks;
pub(crate) use state::DeferredJournal;
