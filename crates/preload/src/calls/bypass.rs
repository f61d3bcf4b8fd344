//! Ways to a file's bytes that are not read or write: the file is plain before, and stays so until it
//! is closed. Ways that cannot be seen file by file turn the library off.

use std::ffi::{c_int, c_uint, c_void};
use std::io;

use forebay_files::tally::Count;

use super::{active, answer, close_buffer, guarded, os_error, real};
use crate::inside::Inside;
use crate::{buffering, forks, table};

/// The file of a covered descriptor is plain from now on until it is closed.
pub fn escape_descriptor(fd: c_int) -> io::Result<()> {
    escape_as(fd, Count::Other)
}

/// The same, and what it counts as.
pub fn escape_as(fd: c_int, count: Count) -> io::Result<()> {
    let (Some(file), Some(process)) = (table::get(fd), crate::process::get()) else {
        return Ok(());
    };
    if crate::inside::is_inside() {
        return Err(os_error(libc::EDEADLK));
    }
    let _inside = Inside::enter();
    guarded(|| match forks::escape(process, file, count) {
        true => Ok(()),
        false => Err(os_error(libc::EIO)),
    })
}

/// Both are plain; what fails is the call's failure.
fn escape_both(one: c_int, other: c_int) -> io::Result<()> {
    escape_descriptor(one)?;
    escape_descriptor(other)
}

/// A file that is written through a mapping counts without a sync, of which we would see nothing.
pub fn escape_mapped(fd: c_int, protection: c_int, flags: c_int) -> io::Result<()> {
    escape_as(fd, Count::Mapped)?;
    let is_written =
        protection & libc::PROT_WRITE != 0 && flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    if is_written && let Some(file) = table::get(fd) {
        crate::tally::file(&file.read_life(), Count::Mapped);
    }
    Ok(())
}

macro_rules! maps {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(start: *mut c_void, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
            if flags & libc::MAP_ANONYMOUS == 0 && let Err(error) = escape_mapped(fd, protection, flags) {
                answer::<c_int>(Err(error));
                return libc::MAP_FAILED;
            }
            // SAFETY: our caller keeps the contract of `mmap`, whose arguments go on unchanged.
            unsafe { real::mmap()(start, len, protection, flags, fd, offset) }
        }
    )* };
}
maps!(mmap, mmap64);

macro_rules! sends {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(out: c_int, from: c_int, offset: *mut i64, len: usize) -> isize {
            match escape_both(out, from) {
                // SAFETY: our caller keeps the contract of `sendfile`, whose arguments go on unchanged.
                Ok(()) => unsafe { real::sendfile()(out, from, offset, len) },
                Err(error) => answer(Err(error)),
            }
        }
    )* };
}
sends!(sendfile, sendfile64);

macro_rules! moves {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: usize, flags: c_uint) -> isize {
            match escape_both(from, to) {
                // SAFETY: our caller keeps the contract of the real function, whose arguments go on
                // unchanged.
                Ok(()) => unsafe { real::$name()(from, from_offset, to, to_offset, len, flags) },
                Err(error) => answer(Err(error)),
            }
        }
    )* };
}
moves!(copy_file_range, splice);

/// A descriptor that is sent is another process's too.
///
/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    socket: c_int,
    message: *const libc::msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: our caller keeps the contract of `sendmsg`: `message` is null or a whole message.
    unsafe {
        match escape_sent(message) {
            Ok(()) => real::sendmsg()(socket, message, flags),
            Err(error) => answer(Err(error)),
        }
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    socket: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: by the contract of `sendmmsg` there are `count` messages, each of them whole.
    unsafe {
        for index in 0..count as usize {
            if let Err(error) = escape_sent(&raw const (*messages.add(index)).msg_hdr) {
                return answer(Err(error));
            }
        }
        real::sendmmsg()(socket, messages, count, flags)
    }
}

/// The files whose descriptors a message takes along are plain from now on.
///
/// # Safety
/// `message` is as `sendmsg` demands.
unsafe fn escape_sent(message: *const libc::msghdr) -> io::Result<()> {
    // SAFETY: by our contract null or a whole message, whose control part is a list of whole records.
    unsafe {
        let has_control = !message.is_null() && (*message).msg_controllen > 0 && active().is_some();
        let mut record = if has_control {
            libc::CMSG_FIRSTHDR(message)
        } else {
            std::ptr::null_mut()
        };
        while !record.is_null() {
            if (*record).cmsg_level == libc::SOL_SOCKET && (*record).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(record).cast::<c_int>();
                let count = ((*record).cmsg_len as usize)
                    .saturating_sub(libc::CMSG_LEN(0) as usize)
                    / size_of::<c_int>();
                for index in 0..count {
                    escape_descriptor(data.add(index).read_unaligned())?;
                }
            }
            record = libc::CMSG_NXTHDR(message, record);
        }
    }
    Ok(())
}

/// Nothing of this program is buffered any more.
pub fn turn_off(reason: &'static str) {
    if let Some(process) = active() {
        let _inside = Inside::enter();
        buffering::turn_off(process, reason);
    }
}

/// # Safety
/// libaio's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_setup(events: c_int, context: *mut c_void) -> c_int {
    turn_off("the program uses asynchronous I/O");
    // SAFETY: our caller keeps the contract of `io_setup`, whose arguments go on unchanged.
    unsafe { real::io_setup()(events, context) }
}

/// # Safety
/// liburing's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init(
    entries: c_uint,
    ring: *mut c_void,
    flags: c_uint,
) -> c_int {
    turn_off("the program uses io_uring");
    // SAFETY: our caller keeps the contract of `io_uring_queue_init`, whose arguments go on unchanged.
    unsafe { real::io_uring_queue_init()(entries, ring, flags) }
}

/// # Safety
/// liburing's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init_params(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
) -> c_int {
    turn_off("the program uses io_uring");
    // SAFETY: our caller keeps the contract of `io_uring_queue_init_params`, whose arguments go on
    // unchanged.
    unsafe { real::io_uring_queue_init_params()(entries, ring, parameters) }
}

/// # Safety
/// liburing's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init_mem(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
    memory: *mut c_void,
    len: usize,
) -> c_int {
    turn_off("the program uses io_uring");
    // SAFETY: our caller keeps the contract of `io_uring_queue_init_mem`, whose arguments go on unchanged.
    unsafe { real::io_uring_queue_init_mem()(entries, ring, parameters, memory, len) }
}

/// # Safety
/// liburing's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int {
    turn_off("the program uses io_uring");
    // SAFETY: our caller keeps the contract of `io_uring_setup`, whose arguments go on unchanged.
    unsafe { real::io_uring_setup()(entries, parameters) }
}

/// Files whose size is limited are the kernel's: what the pool took beyond could not go back.
///
/// # Safety
/// `limit` is null or points to one.
unsafe fn before_limit(resource: c_uint, limit: *const libc::rlimit) {
    // SAFETY: by our contract null or a limit that outlives the call.
    let limit = unsafe { limit.as_ref() };
    if let (libc::RLIMIT_FSIZE, Some(limit), Some(process)) = (resource, limit, active())
        && limit.rlim_cur != libc::RLIM_INFINITY
    {
        close_buffer(process);
    }
}

macro_rules! limits {
    ($($set:ident, $of_process:ident;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $set(resource: c_uint, limit: *const libc::rlimit) -> c_int {
            // SAFETY: by the contract of `setrlimit` the limit is null or readable; the arguments go on
            // unchanged.
            unsafe {
                before_limit(resource, limit);
                real::setrlimit()(resource, limit)
            }
        }
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $of_process(id: libc::pid_t, resource: c_uint, limit: *const libc::rlimit, before: *mut libc::rlimit) -> c_int {
            // SAFETY: by the contract of `prlimit` the limits are null or valid; the arguments go on
            // unchanged.
            unsafe {
                before_limit(resource, limit);
                real::prlimit()(id, resource, limit, before)
            }
        }
    )* };
}
limits! {
    setrlimit, prlimit;
    setrlimit64, prlimit64;
}
