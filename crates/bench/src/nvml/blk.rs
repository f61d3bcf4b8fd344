//! libpmemblk: an array of blocks that are each written atomically.

use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::path::Path;

use libloading::Library;

use super::{c_path, function, last_error, load};
use crate::payload::BLOCK_BYTES;
use forebay_harness::Result;

type Handle = *mut c_void;

/// An open pool of 4 KiB blocks.
pub struct BlkPool {
    handle: Handle,
    blocks: u64,
    write: unsafe extern "C" fn(Handle, *const c_void, c_longlong) -> c_int,
    close: unsafe extern "C" fn(Handle),
    errormsg: unsafe extern "C" fn() -> *const c_char,
    _library: Library,
}

// SAFETY: libpmemblk's functions may be called from any thread (libpmemblk(7)).
unsafe impl Sync for BlkPool {}

impl BlkPool {
    /// A new pool. Errors name the package to install where the library is missing.
    pub fn create(path: &Path, bytes: u64) -> Result<BlkPool> {
        let library = load("libpmemblk.so.1", "libpmemblk1")?;
        type Create =
            unsafe extern "C" fn(*const c_char, usize, usize, libc::mode_t) -> *mut c_void;
        // SAFETY: the types are those of libpmemblk.h.
        unsafe {
            let create: Create = function(&library, "pmemblk_create")?;
            let count: unsafe extern "C" fn(Handle) -> usize =
                function(&library, "pmemblk_nblock")?;
            let errormsg = function(&library, "pmemblk_errormsg")?;
            let (write, close) = (
                function(&library, "pmemblk_write")?,
                function(&library, "pmemblk_close")?,
            );
            let name = c_path(path)?;
            let handle = create(name.as_ptr(), BLOCK_BYTES, bytes as usize, 0o600);
            if handle.is_null() {
                let why = last_error(errormsg);
                return Err(format!("{}: pmemblk_create: {why}", path.display()).into());
            }
            Ok(BlkPool {
                handle,
                blocks: count(handle) as u64,
                write,
                close,
                errormsg,
                _library: library,
            })
        }
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Writes a block, atomically and durably.
    #[inline]
    pub fn write(&self, block: u64, data: &[u8]) -> Result<()> {
        assert_eq!(data.len(), BLOCK_BYTES);
        // SAFETY: an open pool, and as many bytes as its blocks have.
        if unsafe { (self.write)(self.handle, data.as_ptr().cast(), block as c_longlong) } != 0 {
            return Err(format!("pmemblk_write: {}", last_error(self.errormsg)).into());
        }
        Ok(())
    }
}

impl Drop for BlkPool {
    fn drop(&mut self) {
        // SAFETY: open, and closed once.
        unsafe { (self.close)(self.handle) };
    }
}
