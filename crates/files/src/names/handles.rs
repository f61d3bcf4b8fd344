//! The kernel's file handles: what an inode is, whatever its names.

#![allow(unsafe_code, reason = "rustix has no calls for file handles")]

use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::AtFlags;
use rustix::io::Errno;

/// The longest handle of any file system.
const HANDLE_BYTES_MAX: usize = 128;

/// The kernel's own struct with room behind it.
#[repr(C)]
struct FileHandle {
    bytes: libc::c_uint,
    kind: libc::c_int,
    handle: [u8; HANDLE_BYTES_MAX],
}
const _: () = assert!(
    size_of::<FileHandle>() == size_of::<libc::file_handle>() + HANDLE_BYTES_MAX,
    "as the kernel lays it out"
);

/// The handle behind a name, its kind first; none where the file system has none.
pub(super) fn handle_of(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    flags: AtFlags,
) -> Option<(i32, Vec<u8>)> {
    let name = CString::new(name.as_bytes()).ok()?;
    let mut handle = FileHandle {
        bytes: HANDLE_BYTES_MAX as libc::c_uint,
        kind: 0,
        handle: [0; HANDLE_BYTES_MAX],
    };
    let mut mount_id = 0;
    // SAFETY: the name ends with a zero byte, and the kernel writes at most `bytes` bytes behind the
    // header of the handle, which is laid out as its own; all live until the call returns.
    let result = unsafe {
        libc::name_to_handle_at(
            directory.as_raw_fd(),
            name.as_ptr(),
            std::ptr::from_mut(&mut handle).cast(),
            &raw mut mount_id,
            flags.bits() as libc::c_int,
        )
    };
    let len = handle.bytes as usize;
    (result == 0 && len <= HANDLE_BYTES_MAX).then(|| (handle.kind, handle.handle[..len].to_vec()))
}

/// Holds the inode of a handle, without any access to it. `mount` is a directory of its file system,
/// open for reading.
pub(super) fn open(mount: BorrowedFd<'_>, kind: i32, bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let mut handle = FileHandle {
        bytes: bytes.len() as libc::c_uint,
        kind,
        handle: [0; HANDLE_BYTES_MAX],
    };
    let room = handle.handle.get_mut(..bytes.len()).ok_or(Errno::INVAL)?;
    room.copy_from_slice(bytes);
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: the kernel reads `bytes` bytes behind the header of the handle, which is laid out as its
    // own and lives until the call returns.
    let result = unsafe {
        let handle = std::ptr::from_mut(&mut handle).cast();
        libc::open_by_handle_at(mount.as_raw_fd(), handle, flags)
    };
    if result < 0 {
        let number = std::io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(number.unwrap_or(libc::EIO)));
    }
    // SAFETY: the call has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}
