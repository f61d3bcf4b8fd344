//! Holding on to an inode of the backing without its name: by a descriptor, or by the file handle that
//! a descriptor can be made from again.
//!
//! A file handle names the inode and its generation, so that it never opens another inode that got the
//! same number later.

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use forebay_files::{Directory, FileBuffer};

/// The kernel's own limit, MAX_HANDLE_SZ.
const HANDLE_BYTES_MAX: usize = 128;

/// An `O_PATH` descriptor of an inode, and what is made of it when names change in it.
#[derive(Debug)]
pub struct PathFd {
    descriptor: OwnedFd,
    directory: OnceLock<Directory>,
}

impl PathFd {
    pub fn new(descriptor: OwnedFd) -> PathFd {
        PathFd {
            descriptor,
            directory: OnceLock::new(),
        }
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The directory as the buffer sees it.
    pub fn directory(&self, buffer: &Arc<FileBuffer>) -> io::Result<&Directory> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory);
        }
        let directory = buffer.directory(self.descriptor.try_clone()?)?;
        Ok(self.directory.get_or_init(|| directory))
    }
}

/// As the kernel lays it out for `name_to_handle_at`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawHandle {
    bytes: u32,
    kind: i32,
    handle: [u8; HANDLE_BYTES_MAX],
}

/// What `name_to_handle_at` gave; kept short, since there is one for each inode that is known.
#[derive(Clone, PartialEq, Eq)]
pub struct InodeHandle {
    kind: i32,
    handle: Box<[u8]>,
}

impl fmt::Debug for InodeHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "InodeHandle({}, {:x?})", self.kind, self.handle)
    }
}

impl InodeHandle {
    /// The handle of an open inode.
    ///
    /// # Errors
    /// The file system has none (`EOPNOTSUPP`).
    pub fn of(descriptor: BorrowedFd<'_>) -> io::Result<InodeHandle> {
        let mut raw = RawHandle {
            bytes: HANDLE_BYTES_MAX as u32,
            kind: 0,
            handle: [0; HANDLE_BYTES_MAX],
        };
        let mut mount_id = 0;
        // SAFETY: the path is an empty C string, `raw` has room for the number of bytes it states and
        // the layout of struct file_handle, and both outlive the call.
        let result = unsafe {
            libc::name_to_handle_at(
                descriptor.as_raw_fd(),
                c"".as_ptr(),
                (&raw mut raw).cast(),
                &mut mount_id,
                libc::AT_EMPTY_PATH,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(InodeHandle {
            kind: raw.kind,
            handle: raw.handle[..raw.bytes as usize].into(),
        })
    }

    /// An `O_PATH` descriptor of the inode; `mount` is an open directory of its file system, not `O_PATH`.
    ///
    /// # Errors
    /// `ESTALE` where the inode is gone, `EPERM` without the right to open by handle.
    pub fn open(&self, mount: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let mut raw = RawHandle {
            bytes: self.handle.len() as u32,
            kind: self.kind,
            handle: [0; HANDLE_BYTES_MAX],
        };
        raw.handle[..self.handle.len()].copy_from_slice(&self.handle);
        // SAFETY: `raw` has the layout of struct file_handle, holds as many bytes as it states, and
        // outlives the call.
        let result = unsafe {
            libc::open_by_handle_at(
                mount.as_raw_fd(),
                (&raw mut raw).cast(),
                libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor, which nothing else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(result) })
    }
}
