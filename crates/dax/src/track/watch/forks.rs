//! How often this process, or a child of it that kept its memory, was forked.
//!
//! The count is in memory that the children share, so that a child's own forks are seen, too. Handlers of
//! `pthread_atfork` raise it in the parent and in the child, before `fork` returns there; a process that is made by the
//! bare system call is not counted. `vfork`, `posix_spawn` and threads are no forks: they store through this process's own mapping.
#![allow(
    unsafe_code,
    reason = "fork handlers and shared memory are the system's own interface"
)]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::PAGE_BYTES;
use crate::track::guard;

/// Set once, before the handler is registered; never unmapped.
static FORKS: OnceLock<&'static AtomicU64> = OnceLock::new();

/// Begins to count, once a process.
pub(super) fn begin() -> io::Result<()> {
    static ONCE: OnceLock<Result<(), i32>> = OnceLock::new();
    let begun = ONCE.get_or_init(|| {
        // SAFETY: a new mapping; nothing is replaced.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::ENOMEM));
        }
        // SAFETY: a page of zeroes, aligned, that stays mapped.
        let count: &'static AtomicU64 = unsafe { AtomicU64::from_ptr(page.cast()) };
        FORKS.get_or_init(|| count);
        // SAFETY: the handlers use atomics only.
        match unsafe { libc::pthread_atfork(None, Some(in_parent), Some(in_child)) } {
            0 => Ok(()),
            error => Err(error),
        }
    });
    begun.map_err(io::Error::from_raw_os_error)
}

/// Differs from what it was where there was a fork since.
pub(super) fn count() -> u64 {
    FORKS.get().map_or(0, |forks| forks.load(Ordering::Acquire))
}

unsafe extern "C" fn in_parent() {
    if let Some(forks) = FORKS.get() {
        // Release: before anything that this process, or the child, stores after the fork.
        forks.fetch_add(1, Ordering::AcqRel);
    }
}

unsafe extern "C" fn in_child() {
    // SAFETY: it uses atomics only.
    unsafe { in_parent() };
    guard::after_fork_in_child();
}
