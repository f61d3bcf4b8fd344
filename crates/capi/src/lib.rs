//! The file buffer and mapped regions for programs in C: `include/forebay.h` says what each function promises.
//!
//! A failure is a negative errno number. Nothing unwinds into C: a panic ends the process, as
//! everywhere that a pool is open.

#![allow(unsafe_code, reason = "C hands in pointers")]

mod dax;

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use forebay_files::{FileBuffer, FileBufferOptions, NvmFile, NvmMode};

/// What `forebay_buffer` is behind its pointer.
pub struct Buffer(Arc<FileBuffer>);

/// What `forebay_file` is behind its pointer.
pub struct File(NvmFile);

const EVERY_WRITE: c_int = 0;
const SYNCED: c_int = 1;

fn number_of(error: &io::Error) -> i64 {
    let number = error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::NotFound => libc::ENOENT,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock => libc::EBUSY,
        _ => libc::EIO,
    });
    -i64::from(number)
}

fn code_of(result: io::Result<()>) -> c_int {
    result.map_or_else(|error| number_of(&error) as c_int, |()| 0)
}

fn count_of(result: io::Result<u64>) -> i64 {
    result.map_or_else(|error| number_of(&error), |count| count as i64)
}

/// The path at a pointer.
///
/// # Safety
/// Null, or a string that ends in a zero byte and stays for the call.
unsafe fn path_at<'a>(path: *const c_char) -> io::Result<&'a Path> {
    if path.is_null() {
        return Err(io::Error::from_raw_os_error(libc::EFAULT));
    }
    // SAFETY: not null, so by our contract a C string that outlives the result.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Hands a new object to C.
///
/// # Safety
/// `out` is null or may be written.
unsafe fn hand_out<T>(made: io::Result<T>, out: *mut *mut T) -> c_int {
    if out.is_null() {
        return -libc::EFAULT;
    }
    let result = made.map(|made| {
        // SAFETY: not null, so by our contract writable.
        unsafe { out.write(Box::into_raw(Box::new(made))) };
    });
    code_of(result)
}

/// Opens a pool of files.
///
/// # Safety
/// `pool` is a string, `root` one or null, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_buffer_open(
    pool: *const c_char,
    root: *const c_char,
    out: *mut *mut Buffer,
) -> c_int {
    // SAFETY: by our contract each is null or a C string.
    let paths = unsafe {
        let root = match root.is_null() {
            true => Ok(None),
            false => path_at(root).map(|root| Some(PathBuf::from(root))),
        };
        path_at(pool).and_then(|pool| Ok((pool.to_path_buf(), root?)))
    };
    let made = paths.and_then(|(pool, root)| {
        let any = FileBufferOptions::new(pool);
        let options = match root {
            Some(root) => any.root(root),
            None => any,
        };
        FileBuffer::open(&options).map(Buffer)
    });
    // SAFETY: by our contract `out` is null or writable.
    unsafe { hand_out(made, out) }
}

/// Drains everything and closes the pool.
///
/// # Safety
/// `buffer` is null or from `forebay_buffer_open`, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_buffer_close(buffer: *mut Buffer) -> c_int {
    if buffer.is_null() {
        return 0;
    }
    // SAFETY: from a box that we handed out, and by our contract no longer used.
    let buffer = unsafe { Box::from_raw(buffer) };
    code_of(buffer.0.close())
}

/// Opens a file, or makes it.
///
/// # Safety
/// `buffer` is open, `path` a string, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_open(
    buffer: *const Buffer,
    path: *const c_char,
    mode: c_int,
    out: *mut *mut File,
) -> c_int {
    let mode = match mode {
        EVERY_WRITE => NvmMode::EveryWrite,
        SYNCED => NvmMode::Synced,
        _ => return -libc::EINVAL,
    };
    // SAFETY: by our contract `buffer` is null or open.
    let Some(buffer) = (unsafe { buffer.as_ref() }) else {
        return -libc::EFAULT;
    };
    // SAFETY: by our contract null or a C string.
    let made = unsafe { path_at(path) }
        .and_then(|path| NvmFile::open(&buffer.0, path, mode))
        .map(File);
    // SAFETY: by our contract `out` is null or writable.
    unsafe { hand_out(made, out) }
}

/// Reads from an offset.
///
/// # Safety
/// `file` is open; `out` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_pread(
    file: *const File,
    out: *mut c_void,
    len: usize,
    offset: u64,
) -> isize {
    // SAFETY: by our contract `file` is null or open.
    let (Some(file), false) = (unsafe { file.as_ref() }, out.is_null() && len > 0) else {
        return -libc::EFAULT as isize;
    };
    if len == 0 {
        return 0;
    }
    // SAFETY: by our contract `len` bytes that this call alone uses.
    let read = unsafe { read_into(&file.0, out.cast::<u8>(), len, offset) };
    count_of(read.map(|read| read as u64)) as isize
}

/// Reads into memory that the caller need not have initialised. What lies behind the end of the file
/// is not touched.
///
/// # Safety
/// `out` has room for `len` bytes that this call alone uses.
unsafe fn read_into(file: &NvmFile, out: *mut u8, len: usize, offset: u64) -> io::Result<usize> {
    let left = file.file().size_bytes()?.saturating_sub(offset);
    let len = usize::try_from(left).map_or(len, |left| left.min(len));
    // SAFETY: by our contract `len` bytes may be written, and once they are, they are initialised: a
    // slice of uninitialised bytes would be undefined behaviour, even if it were only written to.
    let out = unsafe {
        out.write_bytes(0, len);
        slice::from_raw_parts_mut(out, len)
    };
    file.file().read_at(offset, out)
}

/// The bytes at a pointer.
///
/// # Safety
/// `data` has `len` bytes that stay as they are for the call, or is null.
unsafe fn bytes_at<'a>(data: *const c_void, len: usize) -> Option<&'a [u8]> {
    match (len, data.is_null()) {
        (0, _) => Some(&[]),
        (_, true) => None,
        // SAFETY: not null, so by our contract `len` bytes that stay as they are for the call.
        (_, false) => Some(unsafe { slice::from_raw_parts(data.cast::<u8>(), len) }),
    }
}

/// Writes at an offset.
///
/// # Safety
/// `file` is open; `data` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_pwrite(
    file: *const File,
    data: *const c_void,
    len: usize,
    offset: u64,
) -> isize {
    // SAFETY: by our contract `file` is null or open, and `data` null or `len` bytes that stay as they are.
    let (Some(file), Some(data)) = (unsafe { (file.as_ref(), bytes_at(data, len)) }) else {
        return -libc::EFAULT as isize;
    };
    let written = file.0.write_at(offset, data);
    count_of(written.map(|()| len as u64)) as isize
}

/// Writes at the end.
///
/// # Safety
/// `file` is open; `data` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_append(
    file: *const File,
    data: *const c_void,
    len: usize,
) -> i64 {
    // SAFETY: by our contract `file` is null or open, and `data` null or `len` bytes that stay as they are.
    let (Some(file), Some(data)) = (unsafe { (file.as_ref(), bytes_at(data, len)) }) else {
        return -i64::from(libc::EFAULT);
    };
    count_of(file.0.append(data))
}

/// Makes what was written durable.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_sync(file: *const File) -> c_int {
    // SAFETY: by our contract `file` is null or open.
    match unsafe { file.as_ref() } {
        Some(file) => code_of(file.0.sync()),
        None => -libc::EFAULT,
    }
}

/// Sets the size.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_truncate(file: *const File, size_bytes: u64) -> c_int {
    // SAFETY: by our contract `file` is null or open.
    match unsafe { file.as_ref() } {
        Some(file) => code_of(file.0.file().truncate(size_bytes)),
        None => -libc::EFAULT,
    }
}

/// The size in bytes.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_size(file: *const File) -> i64 {
    // SAFETY: by our contract `file` is null or open.
    match unsafe { file.as_ref() } {
        Some(file) => count_of(file.0.file().size_bytes()),
        None => -i64::from(libc::EFAULT),
    }
}

/// Closes a file.
///
/// # Safety
/// `file` is null or from `forebay_file_open`, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_close(file: *mut File) {
    if !file.is_null() {
        // SAFETY: from a box that we handed out, and by our contract no longer used.
        drop(unsafe { Box::from_raw(file) });
    }
}
