//! Protection that a store meets: which stores are noted, and which wait.

mod handler;
mod lock;
mod region;

pub(crate) use handler::{Registered, after_fork_in_child};
pub(crate) use lock::SignalsBlocked;
#[cfg(test)]
pub(crate) use region::Counts;
pub(crate) use region::{HELD_MAX, Mode};
