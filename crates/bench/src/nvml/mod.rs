//! The references: the C libraries of the Persistent Memory Development Kit, loaded where they are
//! installed. Their prototypes are those of `/usr/include/libpmem*.h`, version 1.

#![allow(unsafe_code, reason = "calls into C libraries")]

mod blk;
mod obj;
mod pmem;

pub use blk::BlkPool;
pub use obj::ObjPool;
pub use pmem::{Pmem, PmemFile};

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libloading::Library;

use forebay_harness::Result;

/// Loads a library, or says what to install.
fn load(soname: &str, package: &str) -> Result<Library> {
    // SAFETY: the library's initialisers run, which is what they are there for.
    unsafe { Library::new(soname) }
        .map_err(|error| format!("{soname} cannot be loaded ({error}): install {package}").into())
}

/// A function of a library.
///
/// # Safety
/// `T` must be the function's type.
unsafe fn function<T: Copy>(library: &Library, name: &str) -> Result<T> {
    // SAFETY: by our contract the function of that name is a `T`.
    let symbol = unsafe { library.get::<T>(name) }
        .map_err(|error| format!("{name} is missing from its library: {error}"))?;
    Ok(*symbol)
}

fn c_path(path: &Path) -> Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// What a library says of its last error in this thread.
fn last_error(errormsg: unsafe extern "C" fn() -> *const c_char) -> String {
    // SAFETY: the libraries return a string of their own that stays until the next error.
    unsafe { CStr::from_ptr(errormsg()) }
        .to_string_lossy()
        .into_owned()
}

/// Has the libraries treat /dev/shm as persistent memory, as Forebay does: caches are flushed and
/// fences executed, and nothing calls msync. Before any of them is loaded.
pub fn force_pmem() {
    // SAFETY: called at the start of main, when there is one thread.
    unsafe { std::env::set_var("PMEM_IS_PMEM_FORCE", "1") };
}
