//! The fence of a plain file: one fdatasync for all threads that wait for one.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Which stores the last sync covered.
#[derive(Debug, Default)]
pub(super) struct PageSync {
    /// Stores that have been done.
    stored: AtomicU64,
    /// Stores the last successful sync covered.
    synced: Mutex<u64>,
}

impl PageSync {
    /// To be called after a store.
    pub(super) fn note_store(&self) {
        self.stored.fetch_add(1, Ordering::Release);
    }

    /// Returns when every store this thread has done is on the disk, at once if it was already.
    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        let wanted = self.stored.load(Ordering::Acquire);
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= wanted {
            return Ok(());
        }
        // Others may have stored while this thread waited for the lock: one sync serves them too.
        let covered = self.stored.load(Ordering::Acquire);
        file.sync_data()?;
        *synced = covered;
        Ok(())
    }
}
