//! read, write, and the calls like them.

use std::ffi::{c_int, c_void};
use std::io;

use rustix::io::{IoSlice, IoSliceMut};

use super::{answer, borrowed, guarded, real};
use crate::table::with;
use crate::transfer::Call;
use crate::{buffering, process, table};

/// As the kernel's UIO_MAXIOV.
const PARTS_MAX: c_int = 1024;

/// Calls `operation` if the descriptor is covered.
#[inline]
pub fn covered_call<T>(
    fd: c_int,
    operation: impl FnOnce(Call<'_>) -> io::Result<T>,
) -> Option<io::Result<T>> {
    table::get(fd)?;
    crate::inside::cancellation_point();
    guarded(|| {
        Ok(with(fd, |file, life| {
            operation(Call {
                file,
                life,
                fd: borrowed(fd),
            })
        }))
    })
    .unwrap_or_else(|error| Some(Err(error)))
}

/// As [`covered_call`] for a write: on a descriptor with `O_SYNC` it is a sync, so it may begin buffering.
#[inline]
fn covered_write(
    fd: c_int,
    operation: impl FnOnce(Call<'_>) -> io::Result<usize>,
) -> Option<io::Result<isize>> {
    let file = table::get(fd)?;
    if file.sync_of_writes().is_some()
        && !crate::inside::is_inside()
        && !file.read_life().is_buffered
    {
        begin_buffering(fd);
    }
    Some(covered_call(fd, operation)?.map(|done| done as isize))
}

/// On a sync: the file is buffered from now on, if it can be.
pub fn begin_buffering(fd: c_int) {
    if let (Some(process), Some(file)) = (process::get(), table::get(fd)) {
        let _inside = crate::inside::Inside::enter();
        // If it panics, the file is plain, or buffered whole: both are fine.
        let _ = guarded(|| {
            if let Err(count) = buffering::try_buffer(process, borrowed(fd), file) {
                crate::tally::file(&file.read_life(), count);
            }
            Ok(())
        });
    }
}

/// # Safety
/// As `read` demands of its buffer.
unsafe fn buffer<'a>(start: *mut c_void, len: usize) -> &'a mut [u8] {
    match start.is_null() || len == 0 {
        true => &mut [],
        // SAFETY: by our contract `len` bytes at `start` are writable and used by nothing else; a length
        // over the largest is no object, and is clipped.
        false => unsafe {
            std::slice::from_raw_parts_mut(start.cast(), len.min(isize::MAX as usize))
        },
    }
}

/// # Safety
/// As `write` demands of its buffer.
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> &'a [u8] {
    match start.is_null() || len == 0 {
        true => &[],
        // SAFETY: by our contract `len` bytes at `start` are readable and unchanged meanwhile; a length
        // over the largest is clipped.
        false => unsafe { std::slice::from_raw_parts(start.cast(), len.min(isize::MAX as usize)) },
    }
}

macro_rules! reads {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, out: *mut c_void, len: usize) -> isize {
            // SAFETY: by the contract of `read` there are `len` writable bytes at `out`.
            match covered_call(fd, |call| call.read(unsafe { buffer(out, len) })) {
                Some(result) => answer(result.map(|done| done as isize)),
                // SAFETY: our caller keeps the contract of `read`, whose arguments go on unchanged.
                None => unsafe { real::read()(fd, out, len) },
            }
        }
    )* };
}
reads!(read, __read);

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    out: *mut c_void,
    len: usize,
    _room: usize,
) -> isize {
    // SAFETY: `read`'s contract is part of ours; only the size of the object, which the compiler adds, is
    // left out.
    unsafe { read(fd, out, len) }
}

macro_rules! positioned {
    ($($read:ident, $write:ident;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $read(fd: c_int, out: *mut c_void, len: usize, offset: i64) -> isize {
            // SAFETY: by the contract of `pread` there are `len` writable bytes at `out`.
            match covered_call(fd, |call| call.read_at(unsafe { buffer(out, len) }, offset)) {
                Some(result) => answer(result.map(|done| done as isize)),
                // SAFETY: our caller keeps the contract of `pread`, whose arguments go on unchanged.
                None => unsafe { real::pread()(fd, out, len, offset) },
            }
        }
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $write(fd: c_int, data: *const c_void, len: usize, offset: i64) -> isize {
            // SAFETY: by the contract of `pwrite` there are `len` readable bytes at `data`.
            match covered_write(fd, |call| call.write_at(unsafe { bytes(data, len) }, offset)) {
                Some(result) => answer(result),
                // SAFETY: our caller keeps the contract of `pwrite`, whose arguments go on unchanged.
                None => unsafe { real::pwrite()(fd, data, len, offset) },
            }
        }
    )* };
}
positioned! {
    pread, pwrite;
    pread64, pwrite64;
    __pread64, __pwrite64;
}

macro_rules! fortified_preads {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, out: *mut c_void, len: usize, offset: i64, _room: usize) -> isize {
            // SAFETY: `pread`'s contract is part of ours; only the size of the object, which the compiler
            // adds, is left out.
            unsafe { pread(fd, out, len, offset) }
        }
    )* };
}
fortified_preads!(__pread_chk, __pread64_chk);

macro_rules! writes {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, data: *const c_void, len: usize) -> isize {
            // SAFETY: by the contract of `write` there are `len` readable bytes at `data`.
            match covered_write(fd, |call| call.write(unsafe { bytes(data, len) })) {
                Some(result) => answer(result),
                // SAFETY: our caller keeps the contract of `write`, whose arguments go on unchanged.
                None => unsafe { real::write()(fd, data, len) },
            }
        }
    )* };
}
writes!(write, __write);

/// The parts of a vector.
///
/// # Safety
/// As `readv` demands of the list itself.
unsafe fn parts_at<'a>(parts: *const libc::iovec, count: c_int) -> io::Result<&'a [libc::iovec]> {
    match count {
        0 => Ok(&[]),
        // As the kernel answers; a slice may not begin there.
        1..=PARTS_MAX if parts.is_null() => Err(super::os_error(libc::EFAULT)),
        // SAFETY: not null, and by our contract there are `count` parts at `parts`.
        1..=PARTS_MAX => Ok(unsafe { std::slice::from_raw_parts(parts, count as usize) }),
        _ => Err(super::os_error(libc::EINVAL)),
    }
}
/// # Safety
/// As `readv` demands of its parts.
unsafe fn read_parts(
    fd: c_int,
    parts: *const libc::iovec,
    count: c_int,
    offset: Option<i64>,
    flags: c_int,
) -> Option<isize> {
    let result = covered_call(fd, |call| {
        // SAFETY: by our contract there are `count` parts at `parts`.
        let parts = unsafe { parts_at(parts, count) }?;
        // SAFETY: by our contract each part names writable bytes.
        let slices = parts
            .iter()
            .map(|part| unsafe { buffer(part.iov_base, part.iov_len) });
        let mut slices: Vec<_> = slices.map(IoSliceMut::new).collect();
        call.read_vector(&mut slices, offset, flags)
    })?;
    Some(answer(result.map(|done| done as isize)))
}

/// # Safety
/// As `writev` demands of its parts.
unsafe fn write_parts(
    fd: c_int,
    parts: *const libc::iovec,
    count: c_int,
    offset: Option<i64>,
    flags: c_int,
) -> Option<isize> {
    let result = covered_write(fd, |call| {
        // SAFETY: by our contract there are `count` parts at `parts`.
        let parts = unsafe { parts_at(parts, count) }?;
        // SAFETY: by our contract each part names readable bytes.
        let slices = parts
            .iter()
            .map(|part| unsafe { bytes(part.iov_base, part.iov_len) });
        let slices: Vec<_> = slices.map(IoSlice::new).collect();
        call.write_vector(&slices, offset, flags)
    })?;
    Some(answer(result))
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: our caller keeps the contract of `readv`, whose arguments go on unchanged.
    unsafe {
        read_parts(fd, parts, count, None, 0).unwrap_or_else(|| real::readv()(fd, parts, count))
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(
    fd: c_int,
    parts: *const libc::iovec,
    count: c_int,
) -> isize {
    // SAFETY: our caller keeps the contract of `writev`, whose arguments go on unchanged.
    unsafe {
        write_parts(fd, parts, count, None, 0).unwrap_or_else(|| real::writev()(fd, parts, count))
    }
}

macro_rules! vectors_at {
    ($($name:ident, $parts:ident, $real:ident;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, parts: *const libc::iovec, count: c_int, offset: i64) -> isize {
            // SAFETY: our caller keeps the contract of the real function, whose arguments go on unchanged.
            unsafe { $parts(fd, parts, count, Some(offset), 0).unwrap_or_else(|| real::$real()(fd, parts, count, offset)) }
        }
    )* };
}
vectors_at! {
    preadv, read_parts, preadv;
    preadv64, read_parts, preadv;
    pwritev, write_parts, pwritev;
    pwritev64, write_parts, pwritev;
}

macro_rules! vectors_with_flags {
    ($($name:ident, $parts:ident, $real:ident;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, parts: *const libc::iovec, count: c_int, offset: i64, flags: c_int) -> isize {
            let at = (offset != -1).then_some(offset);
            // SAFETY: our caller keeps the contract of the real function, whose arguments go on unchanged.
            unsafe { $parts(fd, parts, count, at, flags).unwrap_or_else(|| real::$real()(fd, parts, count, offset, flags)) }
        }
    )* };
}
vectors_with_flags! {
    preadv2, read_parts, preadv2;
    preadv64v2, read_parts, preadv2;
    pwritev2, write_parts, pwritev2;
    pwritev64v2, write_parts, pwritev2;
}

macro_rules! seeks {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, offset: i64, whence: c_int) -> i64 {
            match covered_call(fd, |call| call.seek(offset, whence)) {
                Some(result) => answer(result.map(|position| position as i64)),
                // SAFETY: our caller keeps the contract of `lseek`, whose arguments go on unchanged.
                None => unsafe { real::lseek()(fd, offset, whence) },
            }
        }
    )* };
}
seeks!(lseek, lseek64, __lseek, llseek);
