//! Which inode a file is.

use std::io;
use std::os::fd::AsFd;

/// Which inode: the device and the number, as `stat` gives them, while the inode exists.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileIdentity {
    /// The file system's device.
    pub device: u64,
    /// The inode's number.
    pub inode: u64,
}

impl FileIdentity {
    /// The identity of an open descriptor.
    ///
    /// # Errors
    /// `fstat`'s.
    pub fn of(descriptor: impl AsFd) -> io::Result<FileIdentity> {
        let stat = rustix::fs::fstat(descriptor)?;
        Ok(FileIdentity {
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }
}
