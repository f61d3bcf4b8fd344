//! The fence of a plain file: one fdatasync for all threads that wait for one.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Which stores have been done, and which are on the disk.
#[derive(Debug)]
pub(super) struct PageSync {
    stored: AtomicU64,
    synced: Mutex<Synced>,
}

impl Default for PageSync {
    fn default() -> PageSync {
        PageSync {
            // An earlier process may have stored without a sync: the first fence covers that.
            stored: AtomicU64::new(1),
            synced: Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Synced {
    /// Stores the last successful sync covered.
    count: u64,
    /// The kernel may have dropped what a failed sync could not write, and a later one would
    /// succeed without it. Kept under the lock, so that a thread that waits for it sees the failure too.
    has_failed: bool,
}

impl PageSync {
    /// To be called after a store.
    pub(super) fn note_store(&self) {
        self.stored.fetch_add(1, Ordering::Release);
    }

    /// Returns when every store this thread has done is on the disk, at once if it was already.
    /// After the first failure it always fails.
    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        let wanted = self.stored.load(Ordering::Acquire);
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if synced.has_failed {
            return Err(io::Error::other("an earlier sync failed"));
        }
        if synced.count >= wanted {
            return Ok(());
        }
        // Others may have stored while this thread waited for the lock: one sync serves them too.
        let covered = self.stored.load(Ordering::Acquire);
        let result = file.sync_data();
        synced.has_failed = result.is_err();
        if result.is_ok() {
            synced.count = covered;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_synced_at_first_and_after_stores_and_never_after_a_failure() {
        // A device that refuses to be synced tells whether it was asked.
        let refusing = File::open("/dev/null").unwrap();
        let syncing = tempfile::tempfile().unwrap();
        let page_sync = PageSync::default();
        // An earlier process may have left unsynced stores.
        page_sync.sync(&syncing).unwrap();
        page_sync.sync(&refusing).unwrap();
        page_sync.note_store();
        page_sync.sync(&syncing).unwrap();
        page_sync.sync(&refusing).unwrap();
        page_sync.note_store();
        page_sync.sync(&refusing).unwrap_err();
        page_sync.sync(&syncing).unwrap_err();
    }
}
