//! Stores that no tracker sees: by children, by other openers, by system calls on the files.

mod events;
mod extent;
mod forks;
mod look;
mod openers;

pub(crate) use look::{Children, Look, Watch};
pub(crate) use openers::Openers;
