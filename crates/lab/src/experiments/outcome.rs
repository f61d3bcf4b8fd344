//! What was measured.

use super::blocks::BlockOutcome;
use super::work::WorkOutcome;

/// What was measured.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Of an engine under a workload.
    Work(Box<WorkOutcome>),
    /// Of one of the study's jobs.
    Blocks(BlockOutcome),
}
