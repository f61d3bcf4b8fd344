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

impl Outcome {
    /// Processors that others took while its clock ran; none where that was too short to tell.
    pub(super) fn others(&self) -> Option<f64> {
        match self {
            Outcome::Work(work) => work.measurement.others,
            Outcome::Blocks(_) => None,
        }
    }

    /// Whether everything that is counted is the same in both; times may differ.
    #[must_use]
    pub fn counts_as(&self, other: &Outcome) -> bool {
        match (self, other) {
            (Outcome::Work(one), Outcome::Work(other)) => {
                let (one, other) = (&one.measurement, &other.measurement);
                one.asked == other.asked && one.done == other.done
            }
            _ => false,
        }
    }
}
