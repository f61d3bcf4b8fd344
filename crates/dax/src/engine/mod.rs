//! What keeps sums and parity: over the files of a region and a tracker, whatever these are.

mod cover;
mod format;
mod pages;
mod pass;
mod quiet;
mod rows;
mod seal;
mod state;
mod verify;
mod window;

pub(crate) use format::{file_lines, format, put_lines};
pub(crate) use quiet::QuietTracker;
pub(crate) use seal::Alone;
pub(crate) use state::Engine;
