//! What other programs measured of the papers' figures, judged by the rule that the laboratory has for its own: the block cache
//! study's in guests, TVARAK's in its simulator, AutoBahn's beside file buffers and below applications.
//!
//! A report is read where it lies, with its commit and date. What is not there, or is no report, is not in the run: nothing is
//! remembered.

mod applications;
mod claim;
mod files;
mod reports;
mod rows;
mod study;
mod tvarak;

pub use applications::{LATENCIES_US, PROCESSORS, claims as application_claims};
pub use claim::{Claim, Verdict, table};
pub use reports::{Report, Reports, Source};
pub use rows::Rows;
pub use study::{TABLE_1, grid_claims, layer_claims};
