//! What is open, by the numbers that the kernel was given for it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuser::FileHandle;
use parking_lot::RwLock;

/// Open things of one kind.
#[derive(Debug)]
pub struct OpenTable<T> {
    opened: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for OpenTable<T> {
    fn default() -> Self {
        OpenTable {
            opened: RwLock::default(),
            next: AtomicU64::new(1),
        }
    }
}

impl<T> OpenTable<T> {
    /// Enters it.
    pub fn insert(&self, value: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut opened = self.opened.write();
        opened.insert(number, Arc::new(value));
        FileHandle(number)
    }

    /// Finds it.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn get(&self, handle: FileHandle) -> io::Result<Arc<T>> {
        let opened = self.opened.read();
        let found = opened.get(&handle.0).map(Arc::clone);
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// Takes it out.
    pub fn remove(&self, handle: FileHandle) -> Option<Arc<T>> {
        let mut opened = self.opened.write();
        opened.remove(&handle.0)
    }
}
