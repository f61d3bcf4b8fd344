//! The one folder in which a run leaves anything, in memory where the machine has such a place.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_harness::{TempDir, memory_folder, temporary_folder};

use crate::Result;

/// The folder; it is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    next: AtomicU32,
}

impl Scratch {
    /// Makes it.
    pub fn new() -> Result<Scratch> {
        Ok(Scratch {
            folder: temporary_folder(&memory_folder())?,
            next: AtomicU32::new(0),
        })
    }

    /// Something in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A new folder in it, named `prefix-N`.
    pub fn new_folder(&self, prefix: &str) -> Result<PathBuf> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.path(&format!("{prefix}-{number}"));
        std::fs::create_dir(&path)?;
        Ok(path)
    }

    /// A file of `size_bytes` zeroes that takes no room yet.
    pub fn sparse_file(&self, name: &str, size_bytes: u64) -> Result<PathBuf> {
        let path = self.path(name);
        File::create(&path)?.set_len(size_bytes)?;
        Ok(path)
    }
}
