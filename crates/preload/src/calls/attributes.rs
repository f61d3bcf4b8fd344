//! Changes of times, mode, owner and extended attributes.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use forebay_files::FileIdentity;
use rustix::fs::AtFlags;

use super::sync::make_plain;
use super::{active, answer, borrowed, real};
use crate::buffering::{self, identity_of};
use crate::inside::Inside;

/// Times that a program sets must outlast the write-back of what it wrote before: the file is plain
/// before they are.
///
/// # Safety
/// `path` is none for the descriptor itself; null and empty mean the same; else it ends in a zero.
unsafe fn setting_times(
    base: c_int,
    path: Option<*const c_char>,
    set: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: by our contract `path` is null or a C string, which has a first byte.
    let path = path.filter(|path| !path.is_null() && unsafe { **path } != 0);
    let plain = match (active(), path) {
        (None, _) => Ok(()),
        (_, None) => make_descriptor_plain(base),
        // SAFETY: by our contract `path` is null or a C string that outlives the call.
        (Some(process), Some(path)) => unsafe { make_plain(process, base, path) },
    };
    match plain {
        Ok(()) => set(),
        Err(error) => answer(Err(error)),
    }
}

macro_rules! times {
    ($($name:ident($($argument:ident: $type:ty),*) of $base:expr, $path:expr;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: libc's contract: the path is null or a C string, and the real function's arguments go
            // on unchanged.
            unsafe { setting_times($base, $path, || real::$name()($($argument),*)) }
        }
    )* };
}
times! {
    futimens(fd: c_int, times: *const libc::timespec) of fd, None;
    futimes(fd: c_int, times: *const c_void) of fd, None;
    utimensat(base: c_int, path: *const c_char, times: *const libc::timespec, flags: c_int) of base, Some(path);
    futimesat(base: c_int, path: *const c_char, times: *const c_void) of base, Some(path);
    utime(path: *const c_char, times: *const c_void) of libc::AT_FDCWD, Some(path);
    utimes(path: *const c_char, times: *const c_void) of libc::AT_FDCWD, Some(path);
    lutimes(path: *const c_char, times: *const c_void) of libc::AT_FDCWD, Some(path);
}

fn make_descriptor_plain(fd: c_int) -> std::io::Result<()> {
    let (Some(process), Some(file)) = (active(), crate::table::get(fd)) else {
        return Ok(());
    };
    let _inside = Inside::enter();
    super::guarded(|| buffering::unbuffer(process, file, &mut file.write_life()))
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
        drop(life);
        buffering::mode_changed(process, file);
    }
}

/// What a change of mode or owner may change, of a descriptor or a path; none while nothing is buffered.
///
/// # Safety
/// `path` is null, or ends in a zero.
unsafe fn attributes_at(base: c_int, path: Option<*const c_char>) -> Option<Attributes> {
    if active()?.tracks_nothing() {
        return None;
    }
    let _inside = Inside::enter();
    // SAFETY: not null, so by our contract a C string that outlives the call.
    let path = path
        .filter(|path| !path.is_null())
        .map(|path| unsafe { CStr::from_ptr(path) });
    let stat = match path.filter(|path| !path.is_empty()) {
        Some(path) => rustix::fs::statat(borrowed(base), path, AtFlags::empty()),
        None => rustix::fs::fstat(borrowed(base)),
    };
    let stat = stat.ok()?;
    Some(Attributes {
        identity: identity_of(&stat)?,
        mode: stat.st_mode,
        owner: (stat.st_uid, stat.st_gid),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Attributes {
    identity: FileIdentity,
    mode: u32,
    owner: (u32, u32),
}

/// Changes mode or owner: what is set to what it is already needs no sync.
///
/// # Safety
/// As [`attributes_at`].
unsafe fn changing(
    base: c_int,
    path: Option<*const c_char>,
    change: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: by our contract `path` is null or a C string that outlives the call.
    unsafe {
        let before = attributes_at(base, path);
        let result = change();
        if result == 0 && before.is_some() && attributes_at(base, path) != before {
            note_attributes(before.map(|before| before.identity));
        }
        result
    }
}

/// Changes extended attributes.
///
/// # Safety
/// As [`attributes_at`].
unsafe fn extending(
    base: c_int,
    path: Option<*const c_char>,
    change: impl FnOnce() -> c_int,
) -> c_int {
    let result = change();
    if result == 0 {
        // SAFETY: by our contract `path` is null or a C string that outlives the call.
        let found = unsafe { attributes_at(base, path) };
        note_attributes(found.map(|found| found.identity));
    }
    result
}

macro_rules! attributes {
    ($how:ident: $($name:ident($($argument:ident: $type:ty),*) of $base:expr, $path:expr;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: libc's contract: the path is null or a C string, and the real function's arguments go
            // on unchanged.
            unsafe { $how($base, $path, || real::$name()($($argument),*)) }
        }
    )* };
}
attributes! { changing:
    fchmod(fd: c_int, mode: c_uint) of fd, None;
    fchown(fd: c_int, owner: c_uint, group: c_uint) of fd, None;
    chmod(path: *const c_char, mode: c_uint) of libc::AT_FDCWD, Some(path);
    chown(path: *const c_char, owner: c_uint, group: c_uint) of libc::AT_FDCWD, Some(path);
    lchown(path: *const c_char, owner: c_uint, group: c_uint) of libc::AT_FDCWD, Some(path);
    fchmodat(base: c_int, path: *const c_char, mode: c_uint, flags: c_int) of base, Some(path);
    fchownat(base: c_int, path: *const c_char, owner: c_uint, group: c_uint, flags: c_int) of base, Some(path);
}
attributes! { extending:
    fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, len: usize, flags: c_int) of fd, None;
    fremovexattr(fd: c_int, name: *const c_char) of fd, None;
    setxattr(path: *const c_char, name: *const c_char, value: *const c_void, len: usize, flags: c_int) of libc::AT_FDCWD, Some(path);
    lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, len: usize, flags: c_int) of libc::AT_FDCWD, Some(path);
    removexattr(path: *const c_char, name: *const c_char) of libc::AT_FDCWD, Some(path);
    lremovexattr(path: *const c_char, name: *const c_char) of libc::AT_FDCWD, Some(path);
}
