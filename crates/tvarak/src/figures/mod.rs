//! The paper's figures: which cells they need, what came out of these, and what that says of the paper's claims.

pub mod adaptive;
pub mod cell;
pub mod judge;
pub mod lines;
pub mod measured;
pub mod plan;
pub mod reasons;
pub mod results;
pub mod sweep;
#[cfg(all(test, not(feature = "mutants")))]
mod tests;
pub mod verdict;
