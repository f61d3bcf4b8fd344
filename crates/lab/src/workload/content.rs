//! Bytes that nothing can compress or share.

/// A stream of fresh bytes.
pub(super) struct Fresh(fastrand::Rng);

impl Fresh {
    pub(super) fn new(seed: u64) -> Fresh {
        // Not the stream that chooses the operations.
        Fresh(fastrand::Rng::with_seed(seed ^ 0x6672_6573_6800_0000))
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }
}
