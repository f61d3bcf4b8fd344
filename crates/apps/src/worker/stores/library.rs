//! A store that is a C library, behind the few functions of `stores/store.h`: a small C file for each store
//! is compiled where it is measured, so that this program needs none of them to be built.
#![allow(unsafe_code)] // Functions of C.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use libloading::Symbol;

use crate::worker::stores::{Client, Store, VALUE_BYTES};
use forebay_harness::Result;

type Open = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type Close = unsafe extern "C" fn(*mut c_void) -> c_int;
type Error = unsafe extern "C" fn() -> *const c_char;
type Begin = unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void;
type Put = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, usize) -> c_int;
type Get = unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void, usize) -> isize;
type Scan = unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize;

#[derive(Debug)]
struct Functions {
    close: Close,
    error: Error,
    begin: Begin,
    end: Close,
    put: Put,
    get: Get,
    scan: Scan,
}

#[derive(Debug)]
pub struct Library {
    functions: Functions,
    store: NonNull<c_void>,
    /// Unloaded last.
    _library: libloading::Library,
}

// SAFETY: the C side allows a store to be used by several threads, see store.h.
unsafe impl Sync for Library {}

impl Library {
    /// Opens the store in `directory`.
    pub fn open(path: &Path, directory: &Path) -> Result<Library> {
        // SAFETY: we compiled the library; loading it runs nothing but the store's own initialisers.
        let library = unsafe { libloading::Library::new(path) }?;
        // SAFETY: the types are those of store.h.
        let (open, functions) =
            unsafe { (load::<Open>(&library, "store_open")?, load_all(&library)?) };
        let directory = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: a string that lives as long as the call.
        let store = unsafe { open(directory.as_ptr()) };
        match NonNull::new(store) {
            Some(store) => Ok(Library {
                functions,
                store,
                _library: library,
            }),
            None => Err(functions.failure()),
        }
    }
}

/// # Safety
/// The library has the functions of store.h.
unsafe fn load_all(library: &libloading::Library) -> Result<Functions> {
    // SAFETY: by our contract the library has these functions, with the types of store.h.
    unsafe {
        Ok(Functions {
            close: load(library, "store_close")?,
            error: load(library, "store_error")?,
            begin: load(library, "client_begin")?,
            end: load(library, "client_end")?,
            put: load(library, "client_put")?,
            get: load(library, "client_get")?,
            scan: load(library, "client_scan")?,
        })
    }
}

/// # Safety
/// The function of that name is a `T`, and is not called after the library is gone.
unsafe fn load<T: Copy>(library: &libloading::Library, name: &str) -> Result<T> {
    // SAFETY: by our contract the function of that name is a `T`, not called after the library is gone.
    let symbol: Symbol<'_, T> = unsafe { library.get(name.as_bytes()) }?;
    Ok(*symbol)
}

impl Functions {
    fn failure(&self) -> forebay_harness::Failure {
        // SAFETY: it returns a string of its thread that stays until the thread's next call.
        let message = unsafe { CStr::from_ptr((self.error)()) };
        message.to_string_lossy().into_owned().into()
    }

    fn check(&self, result: isize) -> Result<usize> {
        usize::try_from(result).map_err(|_| self.failure())
    }
}

impl Store for Library {
    fn client(&self, is_durable: bool) -> Result<Box<dyn Client + '_>> {
        // SAFETY: the store is open.
        let client = unsafe { (self.functions.begin)(self.store.as_ptr(), is_durable.into()) };
        match NonNull::new(client) {
            Some(client) => Ok(Box::new(LibraryClient {
                functions: &self.functions,
                client,
            })),
            None => Err(self.functions.failure()),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the store is open and no client of it is left: they borrow it.
        unsafe { (self.functions.close)(self.store.as_ptr()) };
    }
}

#[derive(Debug)]
struct LibraryClient<'a> {
    functions: &'a Functions,
    client: NonNull<c_void>,
}

impl Client for LibraryClient<'_> {
    fn put(&mut self, key: &str, value: &[u8], _is_new: bool) -> Result<()> {
        let key = CString::new(key)?;
        // SAFETY: the client is open, the string and the bytes live as long as the call.
        let result = unsafe {
            let (value, value_bytes) = (value.as_ptr().cast(), value.len());
            (self.functions.put)(self.client.as_ptr(), key.as_ptr(), value, value_bytes)
        };
        self.functions.check(result as isize).map(drop)
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let key = CString::new(key)?;
        let mut value = vec![0_u8; VALUE_BYTES];
        // SAFETY: the client is open, the string and the room live as long as the call.
        let result = unsafe {
            let room = value.as_mut_ptr().cast();
            (self.functions.get)(self.client.as_ptr(), key.as_ptr(), room, value.len())
        };
        // An empty value is none.
        let length = self.functions.check(result)?;
        value.truncate(length);
        Ok((length > 0).then_some(value))
    }

    fn scan(&mut self, key: &str, count: usize) -> Result<usize> {
        let key = CString::new(key)?;
        // SAFETY: the client is open, the string lives as long as the call.
        let result = unsafe { (self.functions.scan)(self.client.as_ptr(), key.as_ptr(), count) };
        self.functions.check(result)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Drop for LibraryClient<'_> {
    fn drop(&mut self) {
        // SAFETY: the client is open, and not used afterwards.
        unsafe { (self.functions.end)(self.client.as_ptr()) };
    }
}
