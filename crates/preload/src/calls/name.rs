//! Names: while this process has the pool, their changes are logged there.

use std::ffi::{CStr, OsString, c_char, c_int, c_uint};
use std::io;
use std::sync::Arc;

use forebay_files::{Directory, FileBuffer};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};

use super::{active, answer, borrowed, covered, guarded, os_error, real};
use crate::inside::Inside;
use crate::process::Process;
use crate::{buffering, cover, descriptors};

/// A name of the program, with the folder that it is in.
struct Name<'a> {
    base: c_int,
    path: &'a CStr,
    folder: OsString,
    name: OsString,
}

impl Name<'_> {
    fn status(&self) -> Option<Stat> {
        rustix::fs::statat(borrowed(self.base), self.path, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    fn directory(&self, buffer: &Arc<FileBuffer>) -> io::Result<Directory> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(borrowed(self.base), &self.folder, flags, Mode::empty())?;
        buffer.directory(descriptors::move_high(folder)?)
    }
}

/// The name, if it is covered.
///
/// # Safety
/// `path` is null or ends in a zero, and outlives the result.
unsafe fn covered_name<'a>(
    process: &Process,
    base: c_int,
    path: *const c_char,
) -> Option<Name<'a>> {
    // SAFETY: by our contract `path` is null or a C string that outlives the call.
    unsafe { covered(process, base, path) }?;
    // SAFETY: covered, so not null, and by our contract a C string that outlives the result.
    let path = unsafe { CStr::from_ptr(path) };
    let (folder, name) = cover::split(path.to_bytes())?;
    Some(Name {
        base,
        path,
        folder,
        name,
    })
}

/// The name, even if it is not covered: the other side of a rename or link.
///
/// # Safety
/// As [`covered_name`].
unsafe fn any_name<'a>(base: c_int, path: *const c_char) -> Option<Name<'a>> {
    if path.is_null() {
        return None;
    }
    // SAFETY: not null, so by our contract a C string that outlives the result.
    let path = unsafe { CStr::from_ptr(path) };
    let (folder, name) = cover::split(path.to_bytes())?;
    Some(Name {
        base,
        path,
        folder,
        name,
    })
}

/// Runs `change` if the name is covered and the pool is ours; otherwise the real function is to run.
///
/// # Safety
/// As [`covered_name`].
unsafe fn logged(
    base: c_int,
    path: *const c_char,
    change: impl FnOnce(&'static Process, &Arc<FileBuffer>, &Name<'_>) -> io::Result<()>,
) -> Option<c_int> {
    let process = active()?;
    let _inside = Inside::enter();
    let buffer = process.buffer()?;
    // SAFETY: by our contract `path` is null or a C string that outlives the call.
    let name = unsafe { covered_name(process, base, path) }?;
    Some(answer(
        guarded(|| change(process, &buffer, &name)).map(|()| 0),
    ))
}

/// A name that is covered was made or changed past the log, if `happened`: nothing is to be built on
/// what is in there of its folder.
///
/// # Safety
/// As [`covered_name`].
pub unsafe fn note_unlogged(happened: bool, base: c_int, path: *const c_char) {
    let Some(process) = active().filter(|_| happened) else {
        return;
    };
    let _inside = Inside::enter();
    // SAFETY: by our contract `path` is null or a C string that outlives the call.
    if process.buffer().is_some() && unsafe { covered(process, base, path) }.is_some() {
        process.names_unseen();
    }
}

/// Runs the real function where the log does not take the change; it notes that it happened.
///
/// # Safety
/// As [`covered_name`].
unsafe fn unlogged(base: c_int, path: *const c_char, change: impl FnOnce() -> c_int) -> c_int {
    let result = change();
    // SAFETY: by our contract `path` is null or a C string that outlives the call.
    unsafe { note_unlogged(result == 0, base, path) };
    result
}

/// What had this status has lost a name, perhaps its last: then what is buffered of it goes nowhere.
fn lost_name(process: &'static Process, before: Option<Stat>) {
    let Some(before) = before else {
        return;
    };
    let file = buffering::identity_of(&before).and_then(|identity| process.tracked(identity));
    let (Some(file), 1) = (file, before.st_nlink) else {
        return;
    };
    let mut life = file.write_life();
    if life.identity != buffering::identity_of(&before) {
        return;
    }
    // The directory has told the buffer.
    life.is_unlinked = true;
    if !file.is_held() {
        buffering::vacate(process, file, &mut life);
        drop(life);
        process.give_back(file);
    }
}

/// # Safety
/// As `renameat2` demands.
unsafe fn rename_at(
    from_base: c_int,
    from: *const c_char,
    to_base: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    let logged = || {
        let process = active()?;
        let _inside = Inside::enter();
        let buffer = process.buffer()?;
        // SAFETY: by our contract both paths are null or C strings that outlive the call.
        let (from, to) = unsafe {
            let is_any_covered = covered(process, from_base, from).is_some()
                || covered(process, to_base, to).is_some();
            if !is_any_covered {
                return None;
            }
            (any_name(from_base, from)?, any_name(to_base, to)?)
        };
        let flags = RenameFlags::from_bits_retain(flags);
        Some(answer(guarded(|| {
            let replaced = to
                .status()
                .filter(|_| !flags.contains(RenameFlags::EXCHANGE));
            let is_same = from.status().zip(replaced).is_some_and(|(one, other)| {
                (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
            });
            if is_same {
                // Two names of one file: nothing happens.
                return Ok(0);
            }
            from.directory(&buffer)?.rename(
                &from.name,
                &to.directory(&buffer)?,
                &to.name,
                flags,
            )?;
            lost_name(process, replaced);
            Ok(0)
        })))
    };
    // SAFETY: our caller keeps the contract of `renameat2`, whose arguments go on unchanged.
    let real = || unsafe { real::renameat2()(from_base, from, to_base, to, flags) };
    logged().unwrap_or_else(|| {
        // SAFETY: by our contract both paths are null or C strings that outlive the call.
        unsafe { unlogged(to_base, to, || unlogged(from_base, from, real)) }
    })
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: libc's contract for the paths is that of `rename_at`.
    unsafe { rename_at(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn renameat(
    from_base: c_int,
    from: *const c_char,
    to_base: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: libc's contract for the paths is that of `rename_at`.
    unsafe { rename_at(from_base, from, to_base, to, 0) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn renameat2(
    from_base: c_int,
    from: *const c_char,
    to_base: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: libc's contract for the paths is that of `rename_at`.
    unsafe { rename_at(from_base, from, to_base, to, flags) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn linkat(
    from_base: c_int,
    from: *const c_char,
    to_base: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    if flags == 0 {
        // SAFETY: by the contract of `linkat` both paths are null or C strings.
        let result = unsafe {
            logged(to_base, to, |_, buffer, to| {
                let from = any_name(from_base, from).ok_or_else(|| os_error(libc::ENOENT))?;
                to.directory(buffer)?
                    .link(&from.directory(buffer)?, &from.name, &to.name)
            })
        };
        if let Some(result) = result {
            return result;
        }
    }
    // SAFETY: our caller keeps the contract of `linkat`. With flags it is perhaps of a file without a name,
    // which no log knows.
    unsafe {
        unlogged(to_base, to, || {
            real::linkat()(from_base, from, to_base, to, flags)
        })
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: `link`'s contract for the paths is that of `linkat`.
    unsafe { linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn symlinkat(
    target: *const c_char,
    base: c_int,
    path: *const c_char,
) -> c_int {
    // SAFETY: by the contract of `symlinkat` both strings are null or C strings; the arguments go on
    // unchanged.
    unsafe {
        logged(base, path, |_, buffer, name| {
            if target.is_null() {
                return Err(os_error(libc::EFAULT));
            }
            let target =
                std::os::unix::ffi::OsStrExt::from_bytes(CStr::from_ptr(target).to_bytes());
            name.directory(buffer)?
                .make_symbolic_link(&name.name, target)
        })
        .unwrap_or_else(|| unlogged(base, path, || real::symlinkat()(target, base, path)))
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn symlink(target: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: `symlink`'s contract for the strings is that of `symlinkat`.
    unsafe { symlinkat(target, libc::AT_FDCWD, path) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unlinkat(base: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: our caller keeps the contract of `unlinkat`: `path` is null or a C string.
    unsafe {
        logged(base, path, |process, buffer, name| {
            let directory = name.directory(buffer)?;
            if flags & libc::AT_REMOVEDIR != 0 {
                return directory.remove_directory(&name.name);
            }
            let before = name.status();
            directory.unlink(&name.name)?;
            lost_name(process, before);
            Ok(())
        })
        .unwrap_or_else(|| unlogged(base, path, || real::unlinkat()(base, path, flags)))
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: `unlink`'s contract for the path is that of `unlinkat`.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: `rmdir`'s contract for the path is that of `unlinkat`.
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn remove(path: *const c_char) -> c_int {
    // SAFETY: our caller keeps the contract of `remove`: `path` is null or a C string.
    unsafe {
        logged(libc::AT_FDCWD, path, |process, buffer, name| {
            let before = name.status();
            let directory = name.directory(buffer)?;
            if before.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()) {
                return directory.remove_directory(&name.name);
            }
            directory.unlink(&name.name)?;
            lost_name(process, before);
            Ok(())
        })
        .unwrap_or_else(|| unlogged(libc::AT_FDCWD, path, || real::remove()(path)))
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkdirat(base: c_int, path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: our caller keeps the contract of `mkdirat`: `path` is null or a C string.
    unsafe {
        logged(base, path, |_, buffer, name| {
            name.directory(buffer)?
                .make_directory(&name.name, Mode::from_raw_mode(mode))
        })
        .unwrap_or_else(|| unlogged(base, path, || real::mkdirat()(base, path, mode)))
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkdir(path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: `mkdir`'s contract for the path is that of `mkdirat`.
    unsafe { mkdirat(libc::AT_FDCWD, path, mode) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mknodat(
    base: c_int,
    path: *const c_char,
    mode: c_uint,
    device: u64,
) -> c_int {
    // SAFETY: our caller keeps the contract of `mknodat`: `path` is null or a C string.
    unsafe {
        logged(base, path, |_, buffer, name| {
            let kind = FileType::from_raw_mode(mode);
            name.directory(buffer)?
                .make_node(&name.name, kind, Mode::from_raw_mode(mode), device)
        })
        .unwrap_or_else(|| unlogged(base, path, || real::mknodat()(base, path, mode, device)))
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mknod(path: *const c_char, mode: c_uint, device: u64) -> c_int {
    // SAFETY: `mknod`'s contract for the path is that of `mknodat`.
    unsafe { mknodat(libc::AT_FDCWD, path, mode, device) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkfifo(path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: `mkfifo`'s contract for the path is that of `mknodat`.
    unsafe { mknodat(libc::AT_FDCWD, path, mode | libc::S_IFIFO, 0) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkfifoat(base: c_int, path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: `mkfifoat`'s contract for the path is that of `mknodat`.
    unsafe { mknodat(base, path, mode | libc::S_IFIFO, 0) }
}
