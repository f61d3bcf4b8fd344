//! The files behind the buffer: of a real file system, or of a test's.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that blocks go to. Errors are the file system's.
pub trait StoredFile: Send + Sync + std::fmt::Debug {
    /// The number of its inode.
    ///
    /// # Errors
    /// The file system's.
    fn number(&self) -> io::Result<u64>;
    /// Its size.
    ///
    /// # Errors
    /// The file system's.
    fn size_bytes(&self) -> io::Result<u64>;
    /// Reads as many bytes as there are from `offset` on, and says how many.
    ///
    /// # Errors
    /// The file system's.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize>;
    /// Writes all of it, and makes the file longer where that is needed.
    ///
    /// # Errors
    /// The file system's.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// As `fdatasync`.
    ///
    /// # Errors
    /// The file system's.
    fn sync(&self) -> io::Result<()>;
}

/// Where files are found by their full paths.
pub trait Folder: Send + Sync + std::fmt::Debug {
    /// Opens a file to read and write; makes it, if it may, where it is not there.
    ///
    /// # Errors
    /// The file system's.
    fn open(&self, path: &Path, may_create: bool) -> io::Result<Arc<dyn StoredFile>>;
}

/// Files below a folder of the system.
#[derive(Debug)]
pub struct RealFolder(PathBuf);

impl RealFolder {
    /// Those below this one.
    #[must_use]
    pub fn new(root: &Path) -> RealFolder {
        RealFolder(root.to_owned())
    }
}

#[derive(Debug)]
struct RealFile(File);

impl Folder for RealFolder {
    fn open(&self, path: &Path, may_create: bool) -> io::Result<Arc<dyn StoredFile>> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(may_create)
            .truncate(false)
            .mode(0o600)
            .open(self.0.join(path))?;
        Ok(Arc::new(RealFile(opened)))
    }
}

impl StoredFile for RealFile {
    fn number(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.ino())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match self.0.read_at(&mut out[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
