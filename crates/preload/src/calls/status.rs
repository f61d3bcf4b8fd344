//! stat and its kin: of a buffered file the buffer knows the size. Changes of mode, owner, times.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use forebay_files::FileIdentity;
use rustix::fs::AtFlags;

use super::{active, answer, borrowed, real};
use crate::buffering::identity_of;
use crate::inside::Inside;
use crate::process::Process;

/// Bytes that `st_blocks` counts by.
const STAT_BLOCK_BYTES: u64 = 512;

/// The size of this file, if it is buffered.
fn buffered_size(process: &Process, identity: FileIdentity) -> Option<u64> {
    let file = process.tracked(identity)?;
    let life = file.read_life();
    match life.identity == Some(identity) {
        true => life.buffered()?.size_bytes().ok(),
        false => None,
    }
}

/// # Safety
/// The call that returned `result` has filled `status` if it succeeded.
unsafe fn corrected(result: c_int, status: *mut libc::stat) -> c_int {
    let Some(process) = active() else {
        return result;
    };
    if result != 0 || process.tracks_nothing() {
        return result;
    }
    let _inside = Inside::enter();
    // SAFETY: the caller's word.
    let status = unsafe { &mut *status };
    let identity = FileIdentity {
        device: status.st_dev,
        inode: status.st_ino,
    };
    if let Some(size) = buffered_size(process, identity) {
        status.st_size = size as i64;
        status.st_blocks = status.st_blocks.max(size.div_ceil(STAT_BLOCK_BYTES) as i64);
    }
    result
}

macro_rules! stats {
    ($($name:ident = $real:ident($($argument:ident: $type:ty),*; $status:ident $(; $flags:ident)?);)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type,)* $status: *mut libc::stat $(, $flags: c_int)?) -> c_int {
            // SAFETY: the caller's word. On this machine the long and the short form are one.
            unsafe { corrected(real::$real()($($argument,)* $status $(, $flags)?), $status) }
        }
    )* };
}
stats! {
    stat = stat(path: *const c_char; status);
    stat64 = stat(path: *const c_char; status);
    lstat = lstat(path: *const c_char; status);
    lstat64 = lstat(path: *const c_char; status);
    fstat = fstat(fd: c_int; status);
    fstat64 = fstat(fd: c_int; status);
    fstatat = fstatat(base: c_int, path: *const c_char; status; flags);
    fstatat64 = fstatat(base: c_int, path: *const c_char; status; flags);
    __xstat = __xstat(version: c_int, path: *const c_char; status);
    __xstat64 = __xstat(version: c_int, path: *const c_char; status);
    __lxstat = __lxstat(version: c_int, path: *const c_char; status);
    __lxstat64 = __lxstat(version: c_int, path: *const c_char; status);
    __fxstat = __fxstat(version: c_int, fd: c_int; status);
    __fxstat64 = __fxstat(version: c_int, fd: c_int; status);
    __fxstatat = __fxstatat(version: c_int, base: c_int, path: *const c_char; status; flags);
    __fxstatat64 = __fxstatat(version: c_int, base: c_int, path: *const c_char; status; flags);
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn statx(
    base: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    status: *mut libc::statx,
) -> c_int {
    // SAFETY: the caller's word.
    let result = unsafe { real::statx()(base, path, flags, mask, status) };
    let Some(process) = active() else {
        return result;
    };
    if result != 0 || process.tracks_nothing() {
        return result;
    }
    let _inside = Inside::enter();
    // SAFETY: the call has filled it.
    let status = unsafe { &mut *status };
    let identity = FileIdentity {
        device: libc::makedev(status.stx_dev_major, status.stx_dev_minor),
        inode: status.stx_ino,
    };
    if let Some(size) = buffered_size(process, identity) {
        status.stx_size = size;
        status.stx_blocks = status.stx_blocks.max(size.div_ceil(STAT_BLOCK_BYTES));
    }
    result
}

/// Times that a program sets must outlast the write-back of what it wrote before.
///
/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn futimens(fd: c_int, times: *const libc::timespec) -> c_int {
    if let Err(error) = make_descriptor_plain(fd) {
        return answer(Err(error));
    }
    // SAFETY: the caller's word.
    unsafe { real::futimens()(fd, times) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn utimensat(
    base: c_int,
    path: *const c_char,
    times: *const libc::timespec,
    flags: c_int,
) -> c_int {
    if let Some(process) = active() {
        let plain = match path.is_null() {
            true => make_descriptor_plain(base),
            // SAFETY: the caller's word.
            false => unsafe { super::sync::make_plain(process, base, path) },
        };
        if let Err(error) = plain {
            return answer(Err(error));
        }
    }
    // SAFETY: the caller's word.
    unsafe { real::utimensat()(base, path, times, flags) }
}

fn make_descriptor_plain(fd: c_int) -> std::io::Result<()> {
    let (Some(process), Some(file)) = (active(), crate::table::get(fd)) else {
        return Ok(());
    };
    let _inside = Inside::enter();
    super::guarded(|| crate::buffering::unbuffer(process, file, &mut file.write_life()))
}

/// Mode, owner and attributes are changed in the backing, where the next `fsync` makes them durable.
fn note_attributes(identity: Option<FileIdentity>) {
    let (Some(process), Some(identity)) = (active(), identity) else {
        return;
    };
    let _inside = Inside::enter();
    if let Some(file) = process.tracked(identity) {
        let life = file.read_life();
        if let (true, Some(known)) = (life.identity == Some(identity), &life.file) {
            known.attributes_changed();
        }
    }
}

/// Which inode a descriptor or a path is, if any is buffered that it could be.
fn identity_at(base: c_int, path: Option<&CStr>, flags: AtFlags) -> Option<FileIdentity> {
    if active()?.tracks_nothing() {
        return None;
    }
    let stat = match path {
        Some(path) => rustix::fs::statat(borrowed(base), path, flags),
        None => rustix::fs::fstat(borrowed(base)),
    };
    identity_of(&stat.ok()?)
}

/// Notes a call that went well, of a descriptor or a path; returns what it returned.
///
/// # Safety
/// `path` is a string if the call went well.
unsafe fn noting(result: c_int, base: c_int, path: Option<*const c_char>) -> c_int {
    if result == 0 {
        // SAFETY: the call went well, so the caller's word holds.
        let path = path.map(|path| unsafe { CStr::from_ptr(path) });
        note_attributes(identity_at(base, path, AtFlags::empty()));
    }
    result
}

/// Mode and owner: what is set to what it is already needs no sync.
fn attributes_of(fd: c_int) -> Option<(u32, u32, u32)> {
    crate::table::get(fd)?;
    let stat = rustix::fs::fstat(borrowed(fd)).ok()?;
    Some((stat.st_mode, stat.st_uid, stat.st_gid))
}

macro_rules! attributes_by_descriptor {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int $(, $argument: $type)*) -> c_int {
            let before = attributes_of(fd);
            // SAFETY: the caller's word.
            let result = unsafe { real::$name()(fd $(, $argument)*) };
            if result == 0 && crate::table::get(fd).is_some() && attributes_of(fd) != before {
                note_attributes(identity_at(fd, None, AtFlags::empty()));
            }
            result
        }
    )* };
}
attributes_by_descriptor! {
    fchmod(mode: c_uint);
    fchown(owner: c_uint, group: c_uint);
}

macro_rules! attributes_by_path {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char $(, $argument: $type)*) -> c_int {
            // SAFETY: the caller's word; the call has read the path when it is looked at.
            unsafe {
                let result = real::$name()(path $(, $argument)*);
                noting(result, libc::AT_FDCWD, Some(path))
            }
        }
    )* };
}
attributes_by_path! {
    chmod(mode: c_uint);
    chown(owner: c_uint, group: c_uint);
    setxattr(name: *const c_char, value: *const c_void, len: usize, flags: c_int);
    removexattr(name: *const c_char);
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fchmodat(
    base: c_int,
    path: *const c_char,
    mode: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's word; the call has read the path when it is looked at.
    unsafe {
        let result = real::fchmodat()(base, path, mode, flags);
        noting(result, base, Some(path))
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fchownat(
    base: c_int,
    path: *const c_char,
    owner: c_uint,
    group: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's word; the call has read the path when it is looked at.
    unsafe {
        let result = real::fchownat()(base, path, owner, group, flags);
        noting(result, base, Some(path))
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fsetxattr(
    fd: c_int,
    name: *const c_char,
    value: *const c_void,
    len: usize,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        let result = real::fsetxattr()(fd, name, value, len, flags);
        noting(result, fd, None)
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fremovexattr(fd: c_int, name: *const c_char) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        let result = real::fremovexattr()(fd, name);
        noting(result, fd, None)
    }
}
