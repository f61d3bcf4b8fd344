//! What the engine keeps of its checkpoints.

use crate::media::seals::Round;

/// What the last checkpoint wrote.
pub(crate) struct CheckpointState {
    /// Which of the two lines is written next.
    pub(crate) next_line: usize,
    /// S.
    pub(crate) sequence: u64,
    /// The last round of lines of the table that is whole, if they have seals.
    pub(crate) round: Round,
    pub(crate) count: u64,
}
