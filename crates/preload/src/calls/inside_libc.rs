//! Functions that read, write or make files inside libc, by calls that cannot be intercepted.

use std::ffi::{c_char, c_int, c_void};
use std::io;

use forebay_files::tally::Count;

use super::bypass::{escape_as, escape_descriptor};
use super::name::note_unlogged;
use super::{answer, real};

/// Where a call that must not be made is sent instead.
#[cfg(target_arch = "x86_64")]
extern "C" fn refuse() -> c_int {
    answer(Err(super::os_error(libc::EIO)))
}

/// Prints to a descriptor are written past us: the file is plain before.
#[cfg(target_arch = "x86_64")]
macro_rules! prints {
    ($($name:ident, $find:ident;)*) => {
        $(
            extern "C" fn $find(fd: c_int) -> *const c_void {
                match escape_as(fd, Count::Stdio) {
                    Ok(()) => real::$name() as *const c_void,
                    Err(_) => refuse as *const c_void,
                }
            }
        )*
        jumps! { $($name, $find;)* }
    };
}
#[cfg(target_arch = "x86_64")]
prints! {
    dprintf, find_dprintf;
    __dprintf_chk, find_fortified_dprintf;
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    match escape_as(fd, Count::Stdio) {
        // SAFETY: our caller keeps the contract of `vdprintf`; a list of arguments is passed by its
        // address.
        Ok(()) => unsafe { real::vdprintf()(fd, format, list) },
        Err(error) => answer(Err(error)),
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    match escape_as(fd, Count::Stdio) {
        // SAFETY: our caller keeps the contract of `__vdprintf_chk`; a list of arguments is passed by its
        // address.
        Ok(()) => unsafe { real::__vdprintf_chk()(fd, flag, format, list) },
        Err(error) => answer(Err(error)),
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn backtrace_symbols_fd(
    addresses: *const *mut c_void,
    count: c_int,
    fd: c_int,
) {
    // It cannot fail; from a handler that interrupted us nothing is written.
    if escape_as(fd, Count::Stdio).is_ok() {
        // SAFETY: our caller keeps the contract of `backtrace_symbols_fd`, whose arguments go on unchanged.
        unsafe { real::backtrace_symbols_fd()(addresses, count, fd) }
    }
}

/// The file of a request to libc's threads for asynchronous input and output is plain from now on.
///
/// # Safety
/// `request` is null or points to an `aiocb`.
unsafe fn escape_request(request: *const libc::aiocb) -> io::Result<()> {
    match request.is_null() {
        true => Ok(()),
        // SAFETY: not null, so by our contract a whole request.
        false => escape_descriptor(unsafe { (*request).aio_fildes }),
    }
}

macro_rules! requests {
    ($($name:ident, $real:ident;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(request: *mut libc::aiocb) -> c_int {
            // SAFETY: our caller keeps the contract of the real function: `request` is null or a whole
            // request. On this machine the long and the short form are one.
            unsafe {
                match escape_request(request) {
                    Ok(()) => real::$real()(request),
                    Err(error) => answer(Err(error)),
                }
            }
        }
    )* };
}
requests! {
    aio_read, aio_read;
    aio_read64, aio_read;
    aio_write, aio_write;
    aio_write64, aio_write;
}

macro_rules! requested_syncs {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(kind: c_int, request: *mut libc::aiocb) -> c_int {
            // SAFETY: our caller keeps the contract of `aio_fsync`: `request` is null or a whole request.
            unsafe {
                match escape_request(request) {
                    Ok(()) => real::aio_fsync()(kind, request),
                    Err(error) => answer(Err(error)),
                }
            }
        }
    )* };
}
requested_syncs!(aio_fsync, aio_fsync64);

macro_rules! request_lists {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(mode: c_int, requests: *const *mut libc::aiocb, count: c_int, event: *mut c_void) -> c_int {
            // SAFETY: by the contract of `lio_listio` there are `count` requests in the list, each null or
            // whole.
            unsafe {
                for index in 0..count.max(0) as usize {
                    if let Err(error) = escape_request(*requests.add(index)) {
                        return answer(Err(error));
                    }
                }
                real::lio_listio()(mode, requests, count, event)
            }
        }
    )* };
}
request_lists!(lio_listio, lio_listio64);

/// Files and folders with names of libc's choosing: the log of names does not know them.
macro_rules! temporary {
    ($($name:ident, $real:ident($($argument:ident),*);)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(template: *mut c_char $(, $argument: c_int)*) -> c_int {
            // SAFETY: by the contract of the real function `template` is a writable C string, and after the
            // call the name.
            unsafe {
                let fd = real::$real()(template $(, $argument)*);
                note_unlogged(fd >= 0, libc::AT_FDCWD, template);
                fd
            }
        }
    )* };
}
temporary! {
    mkstemp, mkstemp();
    mkstemp64, mkstemp();
    mkostemp, mkostemp(flags);
    mkostemp64, mkostemp(flags);
    mkstemps, mkstemps(suffix);
    mkstemps64, mkstemps(suffix);
    mkostemps, mkostemps(suffix, flags);
    mkostemps64, mkostemps(suffix, flags);
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkdtemp(template: *mut c_char) -> *mut c_char {
    // SAFETY: by the contract of `mkdtemp` `template` is a writable C string, and after the call the name.
    unsafe {
        let made = real::mkdtemp()(template);
        note_unlogged(!made.is_null(), libc::AT_FDCWD, template);
        made
    }
}
