//! libpmem: copies to persistent memory.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use libloading::Library;

use super::{c_path, function, last_error, load};
use forebay_harness::Result;

const PMEM_FILE_CREATE: c_int = 1;

type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
type MapFile = unsafe extern "C" fn(
    *const c_char,
    usize,
    c_int,
    libc::mode_t,
    *mut usize,
    *mut c_int,
) -> *mut c_void;

/// The library's functions.
pub struct Pmem {
    memcpy_persist: Copy,
    memcpy_nodrain: Copy,
    drain: unsafe extern "C" fn(),
    map_file: MapFile,
    unmap: unsafe extern "C" fn(*mut c_void, usize) -> c_int,
    errormsg: unsafe extern "C" fn() -> *const c_char,
    _library: Library,
}

impl Pmem {
    /// Loads it. Errors name the package to install.
    pub fn load() -> Result<Pmem> {
        let library = load("libpmem.so.1", "libpmem1")?;
        // SAFETY: the types are those of libpmem.h.
        unsafe {
            Ok(Pmem {
                memcpy_persist: function(&library, "pmem_memcpy_persist")?,
                memcpy_nodrain: function(&library, "pmem_memcpy_nodrain")?,
                drain: function(&library, "pmem_drain")?,
                map_file: function(&library, "pmem_map_file")?,
                unmap: function(&library, "pmem_unmap")?,
                errormsg: function(&library, "pmem_errormsg")?,
                _library: library,
            })
        }
    }

    /// `pmem_memcpy_persist`.
    ///
    /// # Safety
    /// `to` is valid for writes of as many bytes, and no reference to them exists.
    #[inline]
    pub unsafe fn copy_persist(&self, to: *mut u8, from: &[u8]) {
        // SAFETY: by our contract `to` has room for `from`, which is a slice.
        unsafe { (self.memcpy_persist)(to.cast(), from.as_ptr().cast(), from.len()) };
    }

    /// `pmem_memcpy_nodrain`.
    ///
    /// # Safety
    /// As [`Pmem::copy_persist`].
    #[inline]
    pub unsafe fn copy_without_drain(&self, to: *mut u8, from: &[u8]) {
        // SAFETY: by our contract, which is `copy_persist`'s, `to` has room for `from`, which is a
        // slice.
        unsafe { (self.memcpy_nodrain)(to.cast(), from.as_ptr().cast(), from.len()) };
    }

    /// `pmem_drain`: a fence.
    #[inline]
    pub fn drain(&self) {
        // SAFETY: it takes nothing.
        unsafe { (self.drain)() };
    }

    /// A new file, mapped as the library does it.
    pub fn map_file(&self, path: &Path, len: usize) -> Result<PmemFile<'_>> {
        let name = c_path(path)?;
        let (mut mapped_len, mut is_pmem) = (0, 0);
        // SAFETY: the out-parameters outlive the call.
        let start = unsafe {
            (self.map_file)(
                name.as_ptr(),
                len,
                PMEM_FILE_CREATE,
                0o600,
                &mut mapped_len,
                &mut is_pmem,
            )
        };
        if start.is_null() || is_pmem == 0 {
            let why = last_error(self.errormsg);
            return Err(format!("{}: pmem_map_file: {why}", path.display()).into());
        }
        Ok(PmemFile {
            pmem: self,
            start: start.cast(),
            len: mapped_len,
        })
    }
}

/// A file that libpmem mapped.
pub struct PmemFile<'l> {
    pmem: &'l Pmem,
    start: *mut u8,
    len: usize,
}

// SAFETY: the mapping belongs to the process; it is only written through C, which bears races.
unsafe impl Sync for PmemFile<'_> {}

impl PmemFile<'_> {
    /// Where byte `offset` lies. Panics where `len` bytes from there are not inside.
    #[inline]
    pub fn address(&self, offset: u64, len: usize) -> *mut u8 {
        assert!(offset as usize + len <= self.len, "inside the mapping");
        // SAFETY: inside, as just checked.
        unsafe { self.start.add(offset as usize) }
    }
}

impl Drop for PmemFile<'_> {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which is no longer in use.
        unsafe { (self.pmem.unmap)(self.start.cast(), self.len) };
    }
}
