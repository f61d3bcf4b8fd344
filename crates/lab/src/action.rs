//! What a file system asks of the cache below it.

use std::ops::Range;

/// Bytes of a block, the unit in which file systems ask.
pub const BLOCK_BYTES: usize = 4096;

/// One request to the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read whole blocks.
    Read {
        /// The first one.
        block: u64,
        /// How many.
        blocks: u32,
    },
    /// Give a block of data new bytes, within the transaction.
    Write {
        /// Which.
        block: u64,
        /// All of them.
        bytes: Box<[u8]>,
    },
    /// Give a block of metadata new bytes, within the transaction.
    Update {
        /// Which.
        block: u64,
        /// All of them.
        bytes: Box<[u8]>,
        /// Where they differ from the old ones: ascending, not overlapping.
        changed: Vec<Range<usize>>,
    },
    /// Make the writes and updates since the last commit durable, all or none.
    Commit,
}

impl Action {
    /// Bytes that it gives to the cache.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Action::Write { bytes, .. } | Action::Update { bytes, .. } => bytes.len(),
            Action::Read { .. } | Action::Commit => 0,
        }
    }
}
