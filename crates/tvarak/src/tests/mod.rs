//! Trials, and each named fault of the controllers noticed by one of them.

#[cfg_attr(feature = "mutants", allow(dead_code, reason = "some are run by name"))]
pub(crate) mod directed;
#[cfg_attr(feature = "mutants", allow(dead_code, reason = "some are run by name"))]
pub(crate) mod trials;

#[cfg(feature = "mutants")]
mod mutants;
#[cfg(not(feature = "mutants"))]
mod runs;
