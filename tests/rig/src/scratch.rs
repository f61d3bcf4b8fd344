//! The one folder in which a run leaves anything, in memory where the machine has such a place.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::Result;

/// The folder; it is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    next: AtomicU32,
}

impl Scratch {
    /// Makes a folder below `/dev/shm`, or the usual place for temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Scratch> {
        let memory = Path::new("/dev/shm");
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("forebay-rig-");
        let folder = match memory.is_dir() {
            true => builder.tempdir_in(memory)?,
            false => builder.tempdir()?,
        };
        Ok(Scratch {
            folder,
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
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new_folder(&self, prefix: &str) -> Result<PathBuf> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.path(&format!("{prefix}-{number}"));
        std::fs::create_dir(&path)?;
        Ok(path)
    }

    /// A file of `size_bytes` zeroes that takes no room yet.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn sparse_file(&self, name: &str, size_bytes: u64) -> Result<PathBuf> {
        let path = self.path(name);
        File::create(&path)?.set_len(size_bytes)?;
        Ok(path)
    }
}
