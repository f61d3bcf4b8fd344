//! The run of bytes that a program sees: all data extents side by side.

#![allow(unsafe_code, reason = "mappings are the system's own interface")]

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use forebay_pmem::MediaKind;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{PAGE_BYTES, UNIT_BYTES};
use crate::medium::Medium;
use crate::track::Span;

/// The mapping; unmapped when dropped. It begins at a multiple of 2 MiB.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut u8,
    len: usize,
}

// SAFETY: a mapping is memory that belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: nothing here accesses what it maps.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping; it is being dropped, so nothing here uses it any more, and the caller of
        // `DaxRegion::as_ptr` has promised the same.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

impl Mapping {
    /// Maps the extents of a region. The mapping shares the open files of `medium`, so that nobody else counts as
    /// having them open.
    pub fn new(medium: &Medium) -> Result<Mapping> {
        let geometry = medium.geometry;
        let path = &medium.parts[0].path;
        let failed = |error| Error::io("map it", path, error);
        let len = usize::try_from(geometry.size_bytes)
            .map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        let mapping = reserve(len).map_err(failed)?;
        let unit = match geometry.width {
            1 => geometry.size_bytes,
            _ => UNIT_BYTES,
        };
        for at in (0..geometry.size_bytes).step_by(unit as usize) {
            let (extent, row) = geometry.place(at / PAGE_BYTES);
            let part = &medium.parts[extent];
            let Some(file) = part.region.descriptor() else {
                let found = "models are not mapped".to_owned();
                let todo = "name files";
                return Err(ErrorKind::Invalid { found, todo }.into());
            };
            let flags = match part.region.kind() {
                MediaKind::FsDax => libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
                _ => libc::MAP_SHARED,
            };
            // SAFETY: a piece of our own reservation is replaced, which nobody has a pointer into yet.
            let mapped = unsafe {
                libc::mmap(
                    mapping.start.add(at as usize).cast(),
                    unit as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    flags | libc::MAP_FIXED,
                    file.as_raw_fd(),
                    (row * PAGE_BYTES) as libc::off_t,
                )
            };
            if mapped == libc::MAP_FAILED {
                return Err(Error::io("map it", &part.path, io::Error::last_os_error()));
            }
        }
        Ok(mapping)
    }

    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// What a tracker looks at. It must be dropped before the mapping is.
    pub fn span(&self) -> Span {
        // SAFETY: our own mapping, readable and writable; the region that owns it drops its tracker first, and changes
        // no protection but to end all stores.
        unsafe { Span::new(self.start, self.len as u64 / PAGE_BYTES) }
    }

    /// From now on a store through it ends the process: nobody may have a use for it any more.
    pub fn end_stores(&self) {
        // SAFETY: our own mapping.
        unsafe { libc::mprotect(self.start.cast(), self.len, libc::PROT_READ) };
    }
}

/// Address space of `len` bytes from a multiple of 2 MiB on.
fn reserve(len: usize) -> io::Result<Mapping> {
    let align = UNIT_BYTES as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let reserved_len = len.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: a new mapping at an address that the kernel chooses; what is not aligned of it is given back.
    unsafe {
        let reserved = libc::mmap(ptr::null_mut(), reserved_len, libc::PROT_NONE, flags, -1, 0);
        if reserved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let reserved = reserved.cast::<u8>();
        let before = reserved.align_offset(align);
        if before > 0 {
            libc::munmap(reserved.cast(), before);
        }
        let start = reserved.add(before);
        libc::munmap(start.add(len).cast(), reserved_len - before - len);
        Ok(Mapping { start, len })
    }
}
