//! What is measured once, whatever the place.

mod append_counts;
mod torture;

use forebay_harness::{Result, Row};

use crate::context::Context;

/// A measurement of its own.
#[derive(Debug)]
pub struct Step {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Measures.
    pub run: fn(&Context) -> Result<Measured>,
}

/// What it gave.
#[derive(Debug)]
pub struct Measured {
    /// Numbers.
    pub rows: Vec<Row>,
    /// What is wrong nevertheless.
    pub complaint: Option<String>,
}

/// All of them.
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
