//! Threads, forks and the process's end.

use std::ffi::{c_int, c_void};

use super::real::Start;
use super::{active, real};
use crate::inside::{self, Inside, is_inside};
use crate::lease_keeper;

/// What a thread of ours begins with.
struct OurThread {
    start: Start,
    argument: *mut c_void,
}

extern "C" fn begin_our_thread(thread: *mut c_void) -> *mut c_void {
    // SAFETY: the box that `pthread_create` below gave away for this.
    let thread = unsafe { Box::from_raw(thread.cast::<OurThread>()) };
    inside::stay_inside();
    (thread.start)(thread.argument)
}

/// Threads that the pool makes are inside the library for as long as they run.
///
/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if !is_inside() {
        // SAFETY: our caller keeps the contract of `pthread_create`, whose arguments go on unchanged.
        return unsafe { real::pthread_create()(thread, attributes, start, argument) };
    }
    let ours = Box::into_raw(Box::new(OurThread { start, argument }));
    // SAFETY: `thread` and `attributes` are our caller's, under the same contract; the new thread takes the
    // box over.
    let result =
        unsafe { real::pthread_create()(thread, attributes, begin_our_thread, ours.cast()) };
    if result != 0 {
        // SAFETY: there is no thread that has it.
        drop(unsafe { Box::from_raw(ours) });
    }
    result
}

macro_rules! forks {
    ($($name:ident),*) => { $(
        /// A fork: the child of a vfork would use this process's memory, ours with it.
        ///
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() -> c_int {
            // SAFETY: a caller that may `vfork` may `fork`, which demands less.
            unsafe { real::fork()() }
        }
    )* };
}
forks!(vfork, __vfork);

/// A fork with all that belongs to it, as a bare one would leave the files shared; but from a signal
/// handler that has interrupted us, which would wait for itself.
///
/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Fork() -> c_int {
    // SAFETY: neither takes an argument; a caller of `_Fork` may call `fork` as well.
    unsafe {
        match is_inside() {
            true => real::_Fork()(),
            false => real::fork()(),
        }
    }
}

/// `_exit` may be called by a signal handler that has interrupted the allocator, so the work is left to
/// the thread that has all the library needs. If that cannot go on either, the pool stays as after a kill.
pub fn before_exit() {
    if let Some(process) = active()
        && let Some(leases) = process.leases.get()
    {
        let _inside = Inside::enter();
        lease_keeper::close_buffer(leases);
    }
}

macro_rules! exits {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(status: c_int) -> ! {
            before_exit();
            // SAFETY: takes a number, and does not return.
            unsafe { real::_exit()(status) };
            std::process::abort()
        }
    )* };
}
exits!(_exit, _Exit);
