//! Choices that no correctness depends on: which block leaves, how fast a writer may go, where comparing
//! pays, what is a journal's.

pub(crate) mod candidates;
pub mod journal;
pub(crate) mod pace;
pub mod plan;
pub(crate) mod predictor;
pub mod replace;
pub(crate) mod streams;
pub(crate) mod watermarks;
