//! What the engine keeps of its checkpoints.

/// What the last checkpoint wrote.
pub(crate) struct CheckpointState {
    /// Which of the two lines is written next.
    pub(crate) next_line: usize,
    /// S.
    pub(crate) sequence: u64,
    pub(crate) count: u64,
}
