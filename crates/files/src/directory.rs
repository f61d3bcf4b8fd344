//! Directories: names are made, changed and removed here.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};

use crate::buffer::FileBuffer;

/// Which inode: the device and the number, as `stat` gives them, while the inode lives.
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

/// What [`Directory::open`] returns.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor, with the flags asked for.
    pub descriptor: OwnedFd,
    /// Whether the call made the file.
    pub created: bool,
}

/// An open directory in which names change. Every change is made in the backing, and recorded so that
/// it survives a crash when the call returns.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
}

impl Directory {
    pub(crate) fn new(_buffer: &Arc<FileBuffer>, descriptor: OwnedFd) -> io::Result<Directory> {
        Ok(Directory { descriptor })
    }

    /// The backing's directory.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// `openat`; a file that `O_CREAT` makes is recorded. `O_TRUNC` is for the caller to carry out with
    /// [`crate::BufferedFile::truncate`] and is refused.
    ///
    /// # Errors
    /// `openat`'s, `EINVAL` with `O_TRUNC`.
    pub fn open(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<Opened> {
        if flags.contains(OFlags::TRUNC) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let open = |flags| rustix::fs::openat(&self.descriptor, name, flags, mode);
        if !flags.contains(OFlags::CREATE) {
            return Ok(Opened {
                descriptor: open(flags)?,
                created: false,
            });
        }
        loop {
            match open(flags | OFlags::EXCL) {
                Ok(descriptor) => {
                    return Ok(Opened {
                        descriptor,
                        created: true,
                    });
                }
                Err(rustix::io::Errno::EXIST) if !flags.contains(OFlags::EXCL) => {}
                Err(error) => return Err(error.into()),
            }
            match open(flags.difference(OFlags::CREATE)) {
                Ok(descriptor) => {
                    return Ok(Opened {
                        descriptor,
                        created: false,
                    });
                }
                // It went meanwhile (or is a link to nothing, which the first try follows then).
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// `mkdirat`.
    ///
    /// # Errors
    /// `mkdirat`'s.
    pub fn make_directory(&self, name: &OsStr, mode: Mode) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.descriptor, name, mode)?)
    }

    /// `mknodat`: fifos, sockets and devices.
    ///
    /// # Errors
    /// `mknodat`'s.
    pub fn make_node(
        &self,
        name: &OsStr,
        kind: FileType,
        mode: Mode,
        device: u64,
    ) -> io::Result<()> {
        Ok(rustix::fs::mknodat(
            &self.descriptor,
            name,
            kind,
            mode,
            device,
        )?)
    }

    /// `symlinkat`.
    ///
    /// # Errors
    /// `symlinkat`'s.
    pub fn make_symbolic_link(&self, name: &OsStr, target: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.descriptor, name)?)
    }

    /// `linkat` of a name; a symbolic link is linked itself, not followed.
    ///
    /// # Errors
    /// `linkat`'s.
    pub fn link(&self, from: &Directory, from_name: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(
            &from.descriptor,
            from_name,
            &self.descriptor,
            name,
            AtFlags::empty(),
        )?)
    }

    /// `linkat` of an open inode, which may be `O_PATH`: for callers that know inodes, not names.
    ///
    /// # Errors
    /// `linkat`'s; `ENOENT` where the inode has no name any more.
    pub fn link_open(&self, inode: impl AsFd, name: &OsStr) -> io::Result<()> {
        // AT_EMPTY_PATH would need a capability.
        let path = format!("/proc/self/fd/{}", inode.as_fd().as_raw_fd());
        Ok(rustix::fs::linkat(
            rustix::fs::CWD,
            path,
            &self.descriptor,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )?)
    }

    /// `unlinkat` of anything but a directory.
    ///
    /// # Errors
    /// `unlinkat`'s.
    pub fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.descriptor,
            name,
            AtFlags::empty(),
        )?)
    }

    /// `rmdir`.
    ///
    /// # Errors
    /// `unlinkat`'s.
    pub fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.descriptor,
            name,
            AtFlags::REMOVEDIR,
        )?)
    }

    /// `renameat2`.
    ///
    /// # Errors
    /// `renameat2`'s.
    pub fn rename(
        &self,
        name: &OsStr,
        to: &Directory,
        to_name: &OsStr,
        flags: RenameFlags,
    ) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(
            &self.descriptor,
            name,
            &to.descriptor,
            to_name,
            flags,
        )?)
    }

    /// `fsync` of the directory: every change of its names so far survives a crash.
    ///
    /// # Errors
    /// The pool's.
    pub fn sync(&self) -> io::Result<()> {
        // An O_PATH descriptor cannot be synced.
        let readable = rustix::fs::openat(
            &self.descriptor,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(rustix::fs::fsync(readable)?)
    }
}
