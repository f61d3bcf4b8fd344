//! One file a command.

pub mod bench;
pub mod check;
pub mod create;
pub mod demo;
pub mod flush;
pub mod info;
pub mod recover;
pub mod serve;
pub mod stat;
