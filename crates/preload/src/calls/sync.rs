//! fsync, sync, truncate and fallocate.

use std::ffi::{c_char, c_int, c_uint};
use std::io;
use std::sync::Mutex;

use forebay_files::SyncKind;
use forebay_files::tally::Count;
use rustix::fs::FallocateFlags;

use super::data::{begin_buffering, covered_call};
use super::{active, answer, borrowed, guarded, os_error, real};
use crate::inside::Inside;
use crate::process::Process;
use crate::transfer::offset_of;
use crate::{buffering, descriptors, table, tally};

/// Files that were opened unseen and are remembered; more are not counted.
const COUNTED_MAX: usize = 1024;

fn sync_file(fd: c_int, kind: SyncKind) -> Option<io::Result<()>> {
    let file = match table::get(fd) {
        Some(file) => file,
        None => {
            count_unseen(fd);
            return sync_folder(fd);
        }
    };
    if !crate::inside::is_inside() && !file.read_life().is_buffered {
        begin_buffering(fd);
    }
    covered_call(fd, |call| call.sync(kind))
}

/// A folder's sync is the namespace log's, once the kernel has synced what came before the log.
/// Counts a covered file that is synced although we did not see it opened: once for each process.
fn count_unseen(fd: c_int) {
    static COUNTED: Mutex<Vec<forebay_files::FileIdentity>> = Mutex::new(Vec::new());
    let (true, Some(process)) = (tally::is_counting(), active()) else {
        return;
    };
    let _inside = Inside::enter();
    let fd = borrowed(fd);
    let found = rustix::fs::fstat(fd).ok();
    let Some(identity) = found.and_then(|stat| buffering::identity_of(&stat)) else {
        return;
    };
    let is_written = rustix::fs::fcntl_getfl(fd)
        .is_ok_and(|flags| flags & rustix::fs::OFlags::ACCMODE != rustix::fs::OFlags::RDONLY);
    let path = path_of(fd);
    if !is_written || !path.is_some_and(|path| process.settings.cover.covers(&path)) {
        return;
    }
    // Another thread counts: one that is missed does not matter.
    if let Ok(mut counted) = COUNTED.try_lock()
        && counted.len() < COUNTED_MAX
        && !counted.contains(&identity)
    {
        counted.push(identity);
        tally::add(Count::Stdio);
    }
}

fn sync_folder(fd: c_int) -> Option<io::Result<()>> {
    let process = active()?;
    let _inside = Inside::enter();
    let buffer = process.buffer()?;
    let fd = borrowed(fd);
    let stat = rustix::fs::fstat(fd).ok()?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() {
        return None;
    }
    if !process.settings.cover.covers(&folder_path(fd)?) {
        return None;
    }
    Some(guarded(|| {
        let identity = forebay_files::FileIdentity {
            device: stat.st_dev,
            inode: stat.st_ino,
        };
        process.sync_folder_if_needed(identity, || Ok(rustix::fs::fsync(fd)?))?;
        buffer.directory(descriptors::duplicate_high(fd)?)?.sync()
    }))
}

/// The path of a name in the folder, so that globs of what lies in it apply.
fn folder_path(fd: rustix::fd::BorrowedFd<'_>) -> Option<Vec<u8>> {
    let mut path = path_of(fd)?;
    path.extend_from_slice(b"/x");
    Some(path)
}

fn path_of(fd: rustix::fd::BorrowedFd<'_>) -> Option<Vec<u8>> {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let path = rustix::fs::readlink(link, Vec::new()).ok()?;
    Some(path.into_bytes())
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fsync(fd: c_int) -> c_int {
    match sync_file(fd, SyncKind::All) {
        Some(result) => answer(result.map(|()| 0)),
        // SAFETY: takes a number; any descriptor may be asked for.
        None => unsafe { real::fsync()(fd) },
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdatasync(fd: c_int) -> c_int {
    match sync_file(fd, SyncKind::Data) {
        Some(result) => answer(result.map(|()| 0)),
        // SAFETY: takes a number; any descriptor may be asked for.
        None => unsafe { real::fdatasync()(fd) },
    }
}

/// What the pool has, and the kernel knows nothing of.
fn sync_pool() -> io::Result<()> {
    let Some(process) = active() else {
        return Ok(());
    };
    let _inside = Inside::enter();
    let Some(buffer) = process.buffer() else {
        return Ok(());
    };
    guarded(|| buffer.sync_pool())
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sync() {
    // It has no way to say so; the next sync of a file does.
    drop(sync_pool());
    // SAFETY: takes nothing.
    unsafe { real::sync()() }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syncfs(fd: c_int) -> c_int {
    let pooled = sync_pool();
    // SAFETY: takes a number; any descriptor may be asked for.
    let done = unsafe { real::syncfs()(fd) };
    match pooled {
        Ok(()) => done,
        Err(error) => answer(Err(error)),
    }
}

/// A hint: what is buffered needs none.
///
/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sync_file_range(
    fd: c_int,
    offset: i64,
    len: i64,
    flags: c_uint,
) -> c_int {
    match covered_call(fd, |call| Ok(call.life.is_buffered)) {
        Some(Ok(true)) => 0,
        // SAFETY: takes numbers; any descriptor may be asked for.
        _ => unsafe { real::sync_file_range()(fd, offset, len, flags) },
    }
}

fn truncate_descriptor(fd: c_int, len: i64) -> Option<io::Result<()>> {
    covered_call(fd, |call| {
        // Not EBADF: truncation says it so.
        call.file
            .require_writable()
            .map_err(|_| os_error(libc::EINVAL))?;
        let len = offset_of(len)?;
        match call.life.buffered() {
            Some(buffered) => buffered.truncate(len),
            None => Ok(rustix::fs::ftruncate(call.fd, len)?),
        }
    })
}

macro_rules! truncates {
    ($($by_descriptor:ident, $by_path:ident;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $by_descriptor(fd: c_int, len: i64) -> c_int {
            match truncate_descriptor(fd, len) {
                Some(result) => answer(result.map(|()| 0)),
                // SAFETY: takes numbers; any descriptor may be asked for.
                None => unsafe { real::ftruncate()(fd, len) },
            }
        }
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $by_path(path: *const c_char, len: i64) -> c_int {
            // A lease would have the kernel wait for us.
            if let Some(process) = active()
                // SAFETY: by the contract of `truncate` the path is null or a C string.
                && let Err(error) = unsafe { make_plain(process, libc::AT_FDCWD, path) }
            {
                return answer(Err(error));
            }
            // SAFETY: our caller keeps the contract of `truncate`, whose arguments go on unchanged.
            unsafe { real::truncate()(path, len) }
        }
    )* };
}
truncates! {
    ftruncate, truncate;
    ftruncate64, truncate64;
}

/// The file of this name is plain afterwards, if it was buffered.
///
/// # Safety
/// `path` is null or ends in a zero.
pub unsafe fn make_plain(
    process: &'static Process,
    folder: c_int,
    path: *const c_char,
) -> io::Result<()> {
    // Whatever name it is called by: the inode decides.
    if process.tracks_nothing() || path.is_null() {
        return Ok(());
    }
    let _inside = Inside::enter();
    // SAFETY: not null, so by our contract a C string; a path that is not there is the real function's to
    // report.
    let path = unsafe { std::ffi::CStr::from_ptr(path) };
    let Ok(stat) = rustix::fs::statat(borrowed(folder), path, rustix::fs::AtFlags::empty()) else {
        return Ok(());
    };
    match buffering::identity_of(&stat).and_then(|identity| process.tracked(identity)) {
        Some(file) => guarded(|| buffering::unbuffer(process, file, &mut file.write_life())),
        None => Ok(()),
    }
}

fn allocate(fd: c_int, mode: c_int, offset: i64, len: i64) -> Option<io::Result<()>> {
    covered_call(fd, |call| {
        call.file.require_writable()?;
        let (offset, len) = (offset_of(offset)?, offset_of(len)?);
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        match call.life.buffered() {
            Some(_) if len == 0 => Err(os_error(libc::EINVAL)),
            Some(buffered) => buffered.allocate(mode, offset, len),
            None => Ok(rustix::fs::fallocate(call.fd, mode, offset, len)?),
        }
    })
}

macro_rules! fallocates {
    ($($allocate:ident, $posix:ident;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $allocate(fd: c_int, mode: c_int, offset: i64, len: i64) -> c_int {
            match allocate(fd, mode, offset, len) {
                Some(result) => answer(result.map(|()| 0)),
                // SAFETY: takes numbers; any descriptor may be asked for.
                None => unsafe { real::fallocate()(fd, mode, offset, len) },
            }
        }
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $posix(fd: c_int, offset: i64, len: i64) -> c_int {
            match allocate(fd, 0, offset, len) {
                Some(Ok(())) => 0,
                // Its way to fail is to return the number.
                Some(Err(error)) if error.raw_os_error() != Some(libc::EOPNOTSUPP) => {
                    error.raw_os_error().unwrap_or(libc::EIO)
                }
                // Without the file system's help libc writes zeroes itself, past us: only of a plain file.
                Some(Err(_)) if plain_for_bypass(fd) => {
                    // SAFETY: takes numbers; any descriptor may be asked for.
                    unsafe { real::posix_fallocate()(fd, offset, len) }
                }
                Some(Err(_)) => libc::EIO,
                // SAFETY: takes numbers; any descriptor may be asked for.
                None => unsafe { real::posix_fallocate()(fd, offset, len) },
            }
        }
    )* };
}
fallocates! {
    fallocate, posix_fallocate;
    fallocate64, posix_fallocate64;
}

fn plain_for_bypass(fd: c_int) -> bool {
    super::bypass::escape_descriptor(fd).is_ok()
}
