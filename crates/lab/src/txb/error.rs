//! What can go wrong.

use forebay_pmem::PmemError;

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no room for an object.
    #[error("the region has no room for an object of {bytes} bytes; make it larger")]
    Full {
        /// Its size.
        bytes: u64,
    },
    /// A transaction changes more than its log holds.
    #[error("the transaction changes more than its log of {bytes} bytes holds; make it smaller")]
    LogFull {
        /// The log's size.
        bytes: u64,
    },
    /// There is no heap.
    #[error("{path}: {found}; make a heap there first")]
    NoHeap {
        /// The file.
        path: String,
        /// What is there instead.
        found: &'static str,
    },
    /// The medium's.
    #[error(transparent)]
    Medium(#[from] PmemError),
    /// The mapped region's.
    #[error(transparent)]
    Region(#[from] forebay_dax::Error),
}
