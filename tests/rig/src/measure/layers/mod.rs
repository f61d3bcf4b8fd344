//! The study's figures 1, 4, 6 and 10 and its Table 1: devices and caches, and where a request's time goes.

mod contender;
mod measured;
mod page;
mod points;
mod probe;
mod run;
mod stage;

pub use run::{Options, run};
