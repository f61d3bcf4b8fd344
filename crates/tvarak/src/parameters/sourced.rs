//! A number with where it is from.

use serde::Deserialize;

/// Where a number is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The paper's Table 3.
    Table3,
    /// A sentence of the paper.
    Text,
    /// Counted in a program that was compiled and run.
    Counted,
    /// Measured on a real kernel.
    Measured,
    /// Not given by the paper.
    Reconstructed,
}

/// A number and its source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced {
    /// The number, in the unit that its name ends in.
    pub value: u64,
    /// Where it is from.
    pub source: Source,
    /// What one that the paper does not give stands on.
    pub why: Option<String>,
}
