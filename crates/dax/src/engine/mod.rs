//! What keeps sums and parity: over the files of a region and a tracker, whatever these are.

mod accept;
mod alone;
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

pub(crate) use alone::Alone;
pub(crate) use format::{format, put_lines, put_on_all};
pub(crate) use quiet::QuietTracker;
pub(crate) use state::{Engine, FirstPass};
