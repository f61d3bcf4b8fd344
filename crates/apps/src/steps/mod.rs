//! What is measured once, whatever the place.

mod torture;

use forebay_report::Row;

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
    pub run: fn(&Context) -> Result<Vec<Row>>,
}

/// All of them.
pub const STEPS: &[Step] = &[Step {
    name: "torture",
    lacks: torture::lacks,
    run: torture::run,
}];
