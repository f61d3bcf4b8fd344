//! Threads, forks and the process's end; and `syscall`, by which all of that and more can be done.

use std::ffi::{c_int, c_long, c_uint, c_void};

use super::bypass::{escape_descriptor, turn_off};
use super::{active, answer, close_buffer, real};
use crate::inside::{self, is_inside};
use crate::process;

pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;

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

/// Threads that the pool makes are inside the library for all their lives.
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
        // SAFETY: the caller's word.
        return unsafe { real::pthread_create()(thread, attributes, start, argument) };
    }
    let ours = Box::into_raw(Box::new(OurThread { start, argument }));
    // SAFETY: the caller's word; the box is the thread's.
    let result =
        unsafe { real::pthread_create()(thread, attributes, begin_our_thread, ours.cast()) };
    if result != 0 {
        // SAFETY: there is no thread that has it.
        drop(unsafe { Box::from_raw(ours) });
    }
    result
}

/// A fork: the child of a vfork would use this process's memory, ours with it.
///
/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vfork() -> c_int {
    // SAFETY: the caller's word; whoever may vfork may fork.
    unsafe { real::fork()() }
}

macro_rules! exits {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(status: c_int) -> ! {
            if let Some(process) = active() {
 close_buffer(process);
}
            // SAFETY: the caller's word.
            unsafe { real::_exit()(status) };
            std::process::abort()
        }
    )* };
}
exits!(_exit, _Exit);

/// System calls by number: those that reach a covered file are seen to as their functions are.
///
/// # Safety
/// The kernel's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller's word.
    let real = || unsafe { real::syscall()(number, a, b, c, d, e, f) };
    // No lock and no memory here: allocators call it while they hold their own.
    if is_inside() || process::get().is_none() {
        return real();
    }
    match number {
        libc::SYS_io_uring_setup | libc::SYS_io_setup => {
            turn_off("the program uses asynchronous I/O")
        }
        libc::SYS_clone | libc::SYS_clone3 => {
            turn_off("the program makes processes by system call")
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork | libc::SYS_vfork => turn_off("the program makes processes by system call"),
        libc::SYS_execve | libc::SYS_execveat => super::exec::before_exec(),
        libc::SYS_close => {
            // SAFETY: the caller's word.
            return unsafe { super::descriptor::close(a as c_int) }.into();
        }
        libc::SYS_close_range => {
            let (first, last) = (a as c_uint, b as c_uint);
            // SAFETY: the caller's word.
            return unsafe { super::descriptor::close_range(first, last, c as c_int) }.into();
        }
        libc::SYS_exit_group => {
            if let Some(process) = active() {
                close_buffer(process);
            }
        }
        _ if takes_descriptor(number) => {
            if let Err(error) = escape_descriptor(a as c_int) {
                return answer(Err(error));
            }
        }
        _ => {}
    }
    real()
}

/// Whether the first argument is a descriptor whose bytes, size or position are read or changed.
fn takes_descriptor(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_preadv2
            | libc::SYS_pwritev2
            | libc::SYS_lseek
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_fstat
            | libc::SYS_dup
            | libc::SYS_dup3
            | libc::SYS_fcntl
            | libc::SYS_sendfile
            | libc::SYS_copy_file_range
            | libc::SYS_splice
    )
}
