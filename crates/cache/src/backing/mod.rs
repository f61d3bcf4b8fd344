//! What lies behind a volume: a file, a block device, or memory in tests.
//!
//! Everything that a slow device can do to the cache, errors included, enters through
//! [`BackingStore`]; a test that wants faults wraps one (see [`FaultyStore`]). A store promises:
//!
//! * what `write_runs` reported as done survives a power cut once a *later* `sync` returned `Ok`;
//! * after a failed `sync` nothing is known about any write since the last good one;
//! * reads see the newest write that completed; past the end they see zeroes.

mod aligned;
mod counters;
mod faulty;
mod file;
mod holes;
mod limited;
mod mark_files;
mod memory;
mod page_cache;
mod queued;
mod store;
mod uring;
mod waits;

pub use aligned::AlignedBuffer;
pub(crate) use counters::LiveCounters;
pub use counters::{BACKING_BLOCK_BYTES, BackingCounters};
pub use faulty::FaultyStore;
pub use file::{FileBackingOptions, FileStore};
pub use holes::BackingRun;
pub(crate) use limited::Limited;
pub use mark_files::{MarkFiles, TRUSTED_ATTRIBUTE, USER_ATTRIBUTE, file_of_pool, mark_folder};
pub use memory::MemoryStore;
pub(crate) use queued::{QueuedRead, ReadContext, ReadDone};
pub(crate) use store::clipped_len;
pub use store::{
    BackingError, BackingIdentity, BackingStore, FailedDomains, FaultDomain, MarkPlace, WriteRun,
};
pub use waits::BackingWait;
pub(crate) use waits::Waiting;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// A shared handle on a [`BackingStore`], which is what a volume is attached to.
#[derive(Clone)]
pub struct Backing(Arc<dyn BackingStore>);

impl Backing {
    /// Opens the regular file or block device at `path` for this process alone.
    ///
    /// # Errors
    /// [`BackingError`] where it is missing, empty, neither file nor block device, not writable, or
    /// already the backing of another process.
    pub fn file(path: impl AsRef<Path>) -> Result<Backing, BackingError> {
        Self::file_with(path, FileBackingOptions::default())
    }

    /// As [`Backing::file`], with the transport restricted by `options`.
    ///
    /// # Errors
    /// As [`Backing::file`].
    pub fn file_with(
        path: impl AsRef<Path>,
        options: FileBackingOptions,
    ) -> Result<Backing, BackingError> {
        Ok(Backing(Arc::new(FileStore::open(path.as_ref(), options)?)))
    }

    /// An all-zero backing of `size_bytes` in memory, for tests.
    #[must_use]
    pub fn memory(size_bytes: u64) -> Backing {
        Backing(Arc::new(MemoryStore::new(size_bytes)))
    }

    /// Wraps any store.
    #[must_use]
    pub fn from_store(store: Arc<dyn BackingStore>) -> Backing {
        Backing(store)
    }
}

impl Deref for Backing {
    type Target = dyn BackingStore;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backing")
            .field("identity", &self.identity())
            .field("transport", &self.transport())
            .finish()
    }
}

#[cfg(test)]
mod tests;
