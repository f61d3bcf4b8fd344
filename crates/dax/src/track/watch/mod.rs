//! Stores that no tracker sees: by children, by other openers, by system calls on the files.

mod extent;
mod forks;
mod look;

pub(crate) use look::{Children, Look, Watch};
