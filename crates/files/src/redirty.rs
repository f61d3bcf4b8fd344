//! Pages of a file that are to be written to the disk once more, whatever the kernel takes them for.
//!
//! After a failed sync the kernel calls pages clean that the disk lacks, and tells of it only descriptors
//! that were open then. For a later descriptor they must be dirty before a sync means anything.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use crate::identity::FileIdentity;
use crate::observe;

const PAGE_BYTES: u64 = 4096;
/// Bytes that are mapped at once.
const WINDOW_BYTES: u64 = 64 << 20;

/// Dirties the pages of the range, as far as the file reaches, without changing a byte: others may write to
/// them meanwhile. Where the kernel (before 5.14) or the file system cannot, it does nothing.
///
/// # Errors
/// A page cannot be had: the disk does not give it, or has no room for it.
pub(crate) fn redirty(file: &File, range: Range<u64>) -> io::Result<()> {
    let mut start = range.start / PAGE_BYTES * PAGE_BYTES;
    loop {
        let end = range.end.min(file.metadata()?.len());
        let end = end.next_multiple_of(PAGE_BYTES).min(start + WINDOW_BYTES);
        if start >= end {
            return Ok(());
        }
        match populate(file, start, (end - start) as usize) {
            Ok(true) => observe::redirtied(FileIdentity::of(file)?, start..end),
            Ok(false) => return Ok(()),
            // Cut meanwhile: what lies behind the end is no data.
            Err(_) if file.metadata()?.len().next_multiple_of(PAGE_BYTES) < end => continue,
            Err(error) => return Err(error),
        }
        start = end;
    }
}

/// False if that is not supported.
#[allow(unsafe_code, reason = "a mapping that no reference points into")]
fn populate(file: &File, start: u64, len: usize) -> io::Result<bool> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (null, number) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: a new mapping at an address that the kernel chooses; nothing in it is touched from here, so
    // that a file that is cut meanwhile raises no signal, and it is gone before this returns.
    let (result, error) = unsafe {
        let at = libc::mmap(null, len, access, libc::MAP_SHARED, number, start as i64);
        let is_mapped = at != libc::MAP_FAILED;
        let result = is_mapped.then(|| libc::madvise(at, len, libc::MADV_POPULATE_WRITE));
        let error = io::Error::last_os_error();
        if is_mapped {
            libc::munmap(at, len);
        }
        (result, error)
    };
    match error.raw_os_error() {
        _ if result == Some(0) => Ok(true),
        Some(libc::EINVAL) => Ok(false),
        // The file system maps nothing, or not this file to be written.
        Some(libc::ENODEV | libc::EACCES | libc::EPERM) if result.is_none() => Ok(false),
        // The signal that a store would have raised.
        Some(libc::EFAULT) => Err(io::Error::from_raw_os_error(libc::EIO)),
        _ => Err(error),
    }
}
