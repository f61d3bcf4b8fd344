//! The folder of files behind everyone: filled once, written again and again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use forebay_harness::{TempDir, temporary_folder};

use super::scope::FilesScope;

/// What is written at once when files are filled.
const PIECE_BYTES: usize = 1 << 20;

/// The folder; gone when this is.
#[derive(Debug)]
pub struct FilesOnDisk {
    folder: TempDir,
    files_bytes: u64,
}

impl FilesOnDisk {
    /// Makes a file for each thread below `directory`, as long as the largest share of that thread.
    ///
    /// # Errors
    /// The file system's.
    pub fn new(directory: &Path, scope: &FilesScope) -> io::Result<FilesOnDisk> {
        let folder = temporary_folder(directory).map_err(io::Error::other)?;
        let files = FilesOnDisk {
            folder,
            files_bytes: scope.files_bytes,
        };
        for thread in 0..scope.threads.iter().copied().max().unwrap_or(0) {
            files.fill(thread)?;
        }
        Ok(files)
    }

    /// A folder without filled files, for appends.
    pub(super) fn empty_in(directory: &Path) -> io::Result<FilesOnDisk> {
        Ok(FilesOnDisk {
            folder: temporary_folder(directory).map_err(io::Error::other)?,
            files_bytes: 0,
        })
    }

    fn fill(&self, thread: usize) -> io::Result<()> {
        let mut file = self.create(&self.filled(thread))?;
        let mut left = self.share_bytes(thread + 1) as usize;
        let piece = vec![0x5a; PIECE_BYTES];
        while left > 0 {
            file.write_all(&piece[..left.min(PIECE_BYTES)])?;
            left -= left.min(PIECE_BYTES);
        }
        file.sync_all()
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.path().join(name))
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The name of a thread's file that has content.
    pub(super) fn filled(&self, thread: usize) -> String {
        format!("filled-{thread}")
    }

    /// Bytes of a file that one of so many threads writes to.
    pub(super) fn share_bytes(&self, threads: usize) -> u64 {
        // Whole blocks of any contender.
        (self.files_bytes / threads as u64) >> 16 << 16
    }

    /// The name of a fresh file for appends.
    pub(super) fn fresh(&self, thread: usize) -> String {
        format!("appended-{thread}")
    }

    /// Removes what [`FilesOnDisk::fresh`] named.
    pub(super) fn remove_fresh(&self, threads: usize) -> io::Result<()> {
        for thread in 0..threads {
            std::fs::remove_file(self.path().join(self.fresh(thread)))?;
        }
        Ok(())
    }
}
