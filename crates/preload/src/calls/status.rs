//! stat, and the calls like it: of a buffered file the buffer knows the size and the times.

use std::ffi::{c_char, c_int, c_uint};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_files::{FileFacts, FileIdentity};

use super::{active, real};
use crate::inside::Inside;
use crate::process::Process;

/// Bytes that `st_blocks` counts by.
const STAT_BLOCK_BYTES: u64 = 512;

/// What is to be said of this file, if it is buffered.
fn buffered_facts(process: &Process, identity: FileIdentity) -> Option<FileFacts> {
    let file = process.tracked(identity)?;
    let life = file.read_life();
    match life.identity == Some(identity) {
        true => life.buffered()?.facts().ok(),
        false => None,
    }
}

/// The blocks of a file of which the backing counts so many: what the pool has of it has room there, if
/// there can be any.
fn blocks(counted: u64, facts: &FileFacts) -> u64 {
    let blocks = counted.saturating_sub(facts.spare_bytes / STAT_BLOCK_BYTES);
    match facts.lacks_room {
        true => blocks.max(facts.size_bytes.div_ceil(STAT_BLOCK_BYTES)),
        false => blocks,
    }
}

/// Seconds and nanoseconds since the epoch; the latter are never negative.
fn parts_of(time: SystemTime) -> (i64, i64) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, i64::from(after.subsec_nanos())),
        Err(before) => {
            let before = before.duration();
            match i64::from(before.subsec_nanos()) {
                0 => (-(before.as_secs() as i64), 0),
                nanos => (-1 - before.as_secs() as i64, 1_000_000_000 - nanos),
            }
        }
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
    // SAFETY: the call succeeded, so it has filled `status`, which by our contract is the caller's.
    let status = unsafe { &mut *status };
    let identity = FileIdentity {
        device: status.st_dev,
        inode: status.st_ino,
    };
    if let Some(facts) = buffered_facts(process, identity) {
        status.st_size = facts.size_bytes as i64;
        status.st_blocks = blocks(status.st_blocks as u64, &facts) as i64;
        if let Some(modified) = facts.modified {
            (status.st_mtime, status.st_mtime_nsec) = parts_of(modified);
        }
        let changed = (status.st_ctime, status.st_ctime_nsec);
        let changed = facts
            .written
            .map_or(changed, |at| changed.max(parts_of(at)));
        (status.st_ctime, status.st_ctime_nsec) = changed;
    }
    result
}

macro_rules! stats {
    ($($name:ident = $real:ident($($argument:ident: $type:ty),*; $status:ident $(; $flags:ident)?);)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type,)* $status: *mut libc::stat $(, $flags: c_int)?) -> c_int {
            // SAFETY: our caller keeps the contract of the real function, which fills the status. On this
            // machine the long and the short form are one.
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
    // SAFETY: our caller keeps the contract of `statx`, whose arguments go on unchanged.
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
    if let Some(facts) = buffered_facts(process, identity) {
        status.stx_size = facts.size_bytes;
        status.stx_blocks = blocks(status.stx_blocks, &facts);
        let set = |field: &mut libc::statx_timestamp, (seconds, nanos): (i64, i64)| {
            (field.tv_sec, field.tv_nsec) = (seconds, nanos as u32);
        };
        if let Some(modified) = facts.modified {
            set(&mut status.stx_mtime, parts_of(modified));
        }
        let changed = (status.stx_ctime.tv_sec, i64::from(status.stx_ctime.tv_nsec));
        let changed = facts
            .written
            .map_or(changed, |at| changed.max(parts_of(at)));
        set(&mut status.stx_ctime, changed);
    }
    result
}
