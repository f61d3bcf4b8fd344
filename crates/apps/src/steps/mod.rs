//! What is measured once, whatever the place.

mod append_counts;
mod torture;

use forebay_harness::Row;

use crate::Result;
use crate::context::Context;

/// A measurement of its own.
#[derive(Debug)]
pub struct Step {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it needs and this machine does not have.
    pub lacks: fn(&Context) -> Option<String>,
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
        lacks: append_counts::lacks,
        run: append_counts::run,
    },
    Step {
        name: "torture",
        lacks: torture::lacks,
        run: torture::run,
    },
];
