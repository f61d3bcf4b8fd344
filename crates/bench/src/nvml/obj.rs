//! libpmemobj: transactions with undo logs over persistent objects.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use libloading::Library;

use super::{c_path, function, last_error, load};
use crate::payload::Payload;
use forebay_harness::Result;

type Handle = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
struct Oid {
    pool_uuid_lo: u64,
    offset: u64,
}

/// The end of the variadic list of locks that a transaction takes.
const TX_PARAM_NONE: c_int = 0;

/// An open pool with one large object.
pub struct ObjPool {
    handle: Handle,
    object: *mut u8,
    object_bytes: u64,
    begin: unsafe extern "C" fn(Handle, *mut c_void, ...) -> c_int,
    add_range: unsafe extern "C" fn(*const c_void, usize) -> c_int,
    commit: unsafe extern "C" fn(),
    end: unsafe extern "C" fn() -> c_int,
    close: unsafe extern "C" fn(Handle),
    errormsg: unsafe extern "C" fn() -> *const c_char,
    _library: Library,
}

// SAFETY: transactions belong to the thread that begins them, the pool to all (libpmemobj(7)).
unsafe impl Sync for ObjPool {}

impl ObjPool {
    /// A new pool whose object has `object_bytes` bytes. Errors name the package to install where
    /// the library is missing.
    pub fn create(path: &Path, bytes: u64, object_bytes: u64) -> Result<ObjPool> {
        let library = load("libpmemobj.so.1", "libpmemobj1")?;
        type Create =
            unsafe extern "C" fn(*const c_char, *const c_char, usize, libc::mode_t) -> *mut c_void;
        // SAFETY: the types are those of libpmemobj's headers.
        unsafe {
            let create: Create = function(&library, "pmemobj_create")?;
            let root: unsafe extern "C" fn(Handle, usize) -> Oid =
                function(&library, "pmemobj_root")?;
            let direct: unsafe extern "C" fn(Oid) -> *mut c_void =
                function(&library, "pmemobj_direct")?;
            let errormsg = function(&library, "pmemobj_errormsg")?;
            let begin = function(&library, "pmemobj_tx_begin")?;
            let add_range = function(&library, "pmemobj_tx_add_range_direct")?;
            let commit = function(&library, "pmemobj_tx_commit")?;
            let end = function(&library, "pmemobj_tx_end")?;
            let close = function(&library, "pmemobj_close")?;
            let name = c_path(path)?;
            let handle = create(name.as_ptr(), c"bench".as_ptr(), bytes as usize, 0o600);
            if handle.is_null() {
                let why = last_error(errormsg);
                return Err(format!("{}: pmemobj_create: {why}", path.display()).into());
            }
            let object = direct(root(handle, object_bytes as usize));
            let pool = ObjPool {
                handle,
                object: object.cast(),
                object_bytes,
                begin,
                add_range,
                commit,
                end,
                close,
                errormsg,
                _library: library,
            };
            if object.is_null() {
                let why = pool.error("pmemobj_root");
                return Err(format!("{}: {why}", path.display()).into());
            }
            Ok(pool)
        }
    }

    fn error(&self, what: &str) -> String {
        format!("{what}: {}", last_error(self.errormsg))
    }

    /// One transaction that overwrites the blocks at these offsets of the object, each with the
    /// next one of `payload`.
    #[inline]
    pub fn overwrite(&self, offsets: &[u64], payload: &mut Payload) -> Result<()> {
        // SAFETY: an open pool, no jump buffer, no locks; the ranges lie inside the object, as
        // checked, and an error inside aborts the transaction, after which it only has to end.
        unsafe {
            if (self.begin)(self.handle, std::ptr::null_mut(), TX_PARAM_NONE) != 0 {
                (self.end)();
                return Err(self.error("pmemobj_tx_begin").into());
            }
            for offset in offsets {
                let from = payload.next();
                assert!(offset + from.len() as u64 <= self.object_bytes);
                let to = self.object.add(*offset as usize);
                if (self.add_range)(to.cast(), from.len()) != 0 {
                    let why = self.error("pmemobj_tx_add_range_direct");
                    (self.end)();
                    return Err(why.into());
                }
                to.copy_from_nonoverlapping(from.as_ptr(), from.len());
            }
            (self.commit)();
            if (self.end)() != 0 {
                return Err(self.error("pmemobj_tx_end").into());
            }
        }
        Ok(())
    }
}

impl Drop for ObjPool {
    fn drop(&mut self) {
        // SAFETY: open, and closed once.
        unsafe { (self.close)(self.handle) };
    }
}
