//! The paper's figures: which cells they need, what came out of these, and what that says of the paper's claims.

pub mod cell;
pub mod judge;
pub mod lines;
pub mod measured;
pub mod plan;
pub mod reasons;
pub mod results;
pub mod sweep;
#[cfg(test)]
mod tests;
