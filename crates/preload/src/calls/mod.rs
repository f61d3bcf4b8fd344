//! The functions of libc that are interposed, and how the library begins and ends.
//!
//! Each looks whether the call concerns a covered file and otherwise passes it to the real function,
//! with nothing of ours on the stack that a thread's cancellation would have to clean up.

#![allow(
    unsafe_code,
    reason = "this is libc's interface: raw pointers, checked as the kernel would"
)]

#[macro_use]
mod jump;

mod attributes;
mod bypass;
mod data;
mod descriptor;
mod exec;
mod inside_libc;
mod name;
mod number;
mod open;
mod process;
mod real;
mod status;
mod sync;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cover;
use crate::inside::{Inside, is_inside};
use crate::process::Process;
use crate::settings::Settings;

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn begin() {
    let _inside = Inside::enter();
    // First of all that concerns forks: what is registered first locks last and unlocks first.
    crate::memory::register_forks();
    let Some(settings) = Settings::from_environment() else {
        return;
    };
    crate::forks::register();
    // SAFETY: the function is of this library, which is never unloaded.
    unsafe { __cxa_at_quick_exit(end_quickly, std::ptr::null_mut()) };
    if let Some(path) = std::env::var_os(crate::settings::TALLY) {
        crate::tally::begin(path.as_ref());
    }
    let process = crate::process::begin(Box::leak(Box::new(settings)), crate::lease_keeper::keep);
    std::panic::set_hook(Box::new(|panic| {
        process
            .settings
            .log
            .line(&format!("a fault of ours: {panic}"))
    }));
    // The first thing that this process reads may be a size or a name. A failure here is reported
    // by the next open.
    let _ = guarded(|| {
        process.recover_after_owner()?;
        crate::buffering::close_buffer(process);
        Ok(())
    });
}

extern "C" fn end_quickly(_: *mut c_void) {
    end();
}

unsafe extern "C" {
    /// What `at_quick_exit` calls: what was registered first is called last.
    fn __cxa_at_quick_exit(end: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
}

extern "C" fn end() {
    if let Some(process) = crate::process::get() {
        close_buffer(process);
    }
}

/// Lets the pool go.
fn close_buffer(process: &'static Process) {
    let _inside = Inside::enter();
    // After a panic the pool is left to recovery, as after a kill.
    let _ = guarded(|| {
        crate::buffering::close_buffer(process);
        Ok(())
    });
}

/// The state, for calls that the program makes; none for our own.
#[inline]
fn active() -> Option<&'static Process> {
    let process = crate::process::get()?;
    (!is_inside()).then_some(process)
}

/// What the functions return: the result, or -1 and `errno`.
trait Answer {
    fn failed() -> Self;
}

macro_rules! answers {
    ($($kind:ty),*) => { $(impl Answer for $kind {
        fn failed() -> Self {
            -1
        }
    })* };
}
answers!(i32, i64, isize);

fn set_errno(error: &io::Error) -> i32 {
    let number = error.raw_os_error().unwrap_or(libc::EIO);
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() = number };
    number
}

fn answer<T: Answer>(result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| {
        set_errno(&error);
        T::failed()
    })
}

/// Runs our own work: a panic of ours is an I/O error of the program's, not its end.
fn guarded<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(io::Error::from_raw_os_error(libc::EIO)))
}

fn os_error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// The descriptor that the program gave.
fn borrowed(fd: c_int) -> BorrowedFd<'static> {
    // The type forbids -1; the kernel says EBADF to any negative number but AT_FDCWD.
    let fd = if fd == -1 { -2 } else { fd };
    // SAFETY: it is one of the program's, open as long as the program's own call would need it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// A path of the program, absolute, if it is covered.
///
/// # Safety
/// `path` is null or ends in a zero.
unsafe fn covered(process: &Process, folder: c_int, path: *const c_char) -> Option<Vec<u8>> {
    if path.is_null() {
        return None;
    }
    // SAFETY: not null, so by our contract a C string that outlives the call.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if path.is_empty() {
        return None;
    }
    let base = match (path[0], folder) {
        (b'/', _) => Vec::new(),
        (_, libc::AT_FDCWD) => rustix::process::getcwd(Vec::new()).ok()?.into_bytes(),
        (_, folder) => rustix::fs::readlink(format!("/proc/self/fd/{folder}"), Vec::new())
            .ok()?
            .into_bytes(),
    };
    let absolute = cover::absolute(&base, path);
    process.settings.cover.covers(&absolute).then_some(absolute)
}
