//! One file a command.

pub mod attach;
pub mod bench;
pub mod check;
pub mod create;
pub mod dax;
pub mod demo;
pub mod detach;
pub mod fault;
pub mod flush;
pub mod info;
pub mod member;
mod obstacles;
pub mod program;
pub mod recover;
pub mod resize;
pub mod run;
pub mod scrub;
pub mod set;
pub mod shared;
mod stale;
pub mod stat;
mod tally;
mod temporary;
pub mod within;
