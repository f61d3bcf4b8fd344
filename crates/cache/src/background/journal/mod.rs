//! The journals of a pool's volumes: found, watched, and written back last.

mod content;
mod hold;
mod watch;

pub(crate) use hold::{Held, Holding};
