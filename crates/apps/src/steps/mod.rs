//! What is measured once, whatever the place.

mod append_counts;
mod torture;

use forebay_harness::{Result, Row};

use crate::context::Context;

#[derive(Debug)]
pub struct Step {
    pub name: &'static str,
    pub run: fn(&Context) -> Result<Measured>,
}

#[derive(Debug)]
pub struct Measured {
    pub rows: Vec<Row>,
    /// What is wrong nevertheless.
    pub complaint: Option<String>,
}

pub const STEPS: &[Step] = &[
    Step {
        name: "append-counts",
        run: append_counts::run,
    },
    Step {
        name: "torture",
        run: torture::run,
    },
];
