//! What the thread that maintains the log remembers from one turn to the next.

use std::collections::BTreeSet;

/// How far the pool is cleaned. Changed by the thread that maintains it alone.
#[derive(Debug, Default)]
pub(crate) struct Maintained {
    /// Segments below were cleaned, but for what the volumes below did not take.
    pub(crate) cleaned: u64,
    /// Volumes of which something in those segments is not on the backing. Their clean points stay where they are until a
    /// round writes all of them back.
    pub(crate) behind: BTreeSet<u32>,
}

impl Maintained {
    /// The segments are looked at again from the tail on, as after an opening: each failure is found anew before a point moves past it.
    pub(crate) fn begin_again(&mut self) {
        *self = Maintained::default();
    }

    /// A round has written back all of a volume.
    pub(crate) fn note_whole(&mut self, volume: u32) {
        self.behind.remove(&volume);
    }
}
