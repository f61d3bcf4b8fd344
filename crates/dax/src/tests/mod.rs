//! Regions over models of memory: every crash at every step, stores in between, faults of the medium.

mod crash;
#[cfg(not(feature = "mutants"))]
mod crashes;
#[cfg(not(feature = "mutants"))]
mod evidence;
#[cfg(not(feature = "mutants"))]
mod golden;
#[cfg_attr(feature = "mutants", allow(dead_code, reason = "some are run by name"))]
mod histories;
#[cfg(feature = "mutants")]
mod mutants;
#[cfg_attr(feature = "mutants", allow(dead_code, reason = "some are run by name"))]
mod scenarios;
#[cfg_attr(feature = "mutants", allow(dead_code, reason = "some are run by name"))]
mod steps;
