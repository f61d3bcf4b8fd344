//! close, dup, fcntl and ioctl.

use std::ffi::{c_int, c_uint};
use std::io;

use forebay_files::tally::Count;

use super::bypass::{escape_as, escape_descriptor};
use super::{active, answer, borrowed, guarded, os_error, real};
use crate::inside::{Inside, is_inside};
use crate::open_file::OpenFile;
use crate::{buffering, descriptors, forks, process, table};

/// ioctl(2) for sharing blocks between files: FICLONE takes the other file's descriptor, FICLONERANGE a
/// record that begins with it, as 64 bits.
const FICLONE: usize = 0x4004_9409;
const FICLONERANGE: usize = 0x4020_940d;
/// These concern the descriptor alone.
const FIOCLEX: usize = 0x5451;
const FIONCLEX: usize = 0x5450;
/// What `fcntl(F_SETFL)` can change.
const CHANGEABLE: i32 =
    libc::O_APPEND | libc::O_DIRECT | libc::O_NOATIME | libc::O_NONBLOCK | libc::O_ASYNC;
/// What we keep of the flags, where the kernel's differ.
const KEPT_BY_US: i32 = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_DIRECT
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_ASYNC;

/// Takes a descriptor out of the table, before it is closed or becomes another.
fn leave(fd: c_int) {
    if let Some(file) = table::set(fd, None) {
        drop_record_locks(file);
        let_go(file);
    }
}

/// The program closes a descriptor of the file: so can we.
fn drop_record_locks(file: &'static OpenFile) {
    if is_inside() {
        return;
    }
    let _inside = Inside::enter();
    let identity = file.read_life().identity;
    if let (Some(identity), Some(process)) = (identity, process::get()) {
        for fd in process.record_locks.dropped(identity) {
            descriptors::forget_ours(fd);
            // SAFETY: it is ours, and its owner has given it up.
            unsafe { real::close()(fd) };
        }
    }
}

fn let_go(file: &'static OpenFile) {
    let is_nested = is_inside();
    let _inside = Inside::enter();
    // A signal handler may have interrupted a user of the record; then it is never used again.
    if file.let_go()
        && !is_nested
        && let Some(process) = process::get()
    {
        // A panic leaves the record unused, and the file to recovery.
        let _ = guarded(|| {
            buffering::closed(process, file);
            Ok(())
        });
    }
}

/// The descriptor is the kernel's alone from now on.
pub fn release(fd: c_int, count: Count) -> io::Result<()> {
    escape_as(fd, count)?;
    leave(fd);
    Ok(())
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if descriptors::is_ours(fd) {
        if !is_inside() {
            return answer(Err(os_error(libc::EBADF)));
        }
        if process::get().is_some_and(|process| process.record_locks.park(borrowed(fd))) {
            return 0;
        }
        descriptors::forget_ours(fd);
    } else if !is_inside() {
        leave(fd);
    } else if process::get().is_some_and(|process| process.record_locks.park(borrowed(fd))) {
        // A descriptor that a call of ours had for a moment.
        return 0;
    }
    // SAFETY: our caller keeps the contract of `close`, whose arguments go on unchanged.
    unsafe { real::close()(fd) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __close(fd: c_int) -> c_int {
    // SAFETY: our caller's contract is that of `close`, and the arguments are its own.
    unsafe { close(fd) }
}

/// The descriptors of ours that lie in the range stay open.
///
/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let Some(_) = active() else {
        // SAFETY: our caller keeps the contract of `close_range`, whose arguments go on unchanged.
        return unsafe { real::close_range()(first, last, flags) };
    };
    let is_closing = flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0;
    let in_range = |fd: c_int| (first..=last).contains(&(fd as c_uint));
    if is_closing {
        let covered: Vec<_> = table::descriptors()
            .map(|(fd, _)| fd)
            .filter(|fd| in_range(*fd))
            .collect();
        covered.into_iter().for_each(leave);
    }
    let mut from = first;
    for ours in descriptors::ours().filter(|fd| in_range(*fd)) {
        let ours = ours as c_uint;
        if from < ours {
            // SAFETY: a part of the range that our caller gives up, without our own descriptors.
            let result = unsafe { real::close_range()(from, ours - 1, flags) };
            if result != 0 {
                return result;
            }
        }
        from = ours + 1;
    }
    if from > last {
        return 0;
    }
    // SAFETY: the rest of the range that our caller gives up, without our own descriptors.
    unsafe { real::close_range()(from, last, flags) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: our caller gives up all descriptors from `first` on; `close_range` leaves ours out.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// Enters a duplicate of `old`. The standard streams' numbers are written to inside libc.
fn enter_duplicate(old: c_int, new: c_int) {
    let file = table::get(old);
    let Some(file) = file else {
        leave(new);
        return;
    };
    if new <= libc::STDERR_FILENO || !table::has_room(new) {
        // A file that cannot be brought back stays buffered; what streams write is not seen then.
        let _ = escape_descriptor(old);
        if new != old {
            leave(new);
        }
        return;
    }
    file.hold();
    if let Some(before) = table::set(new, Some(file)) {
        drop_record_locks(before);
        let_go(before);
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: our caller keeps the contract of `dup`, whose arguments go on unchanged.
    let new = unsafe { real::dup()(fd) };
    if new >= 0 && !descriptors::is_ours(fd) {
        enter_duplicate(fd, new);
    }
    new
}

/// Whether a descriptor of the program's may become this number.
fn check_target(new: c_int) -> io::Result<()> {
    match descriptors::is_ours(new) && !is_inside() {
        true => Err(os_error(libc::EBADF)),
        false => Ok(()),
    }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    if let Err(error) = check_target(new) {
        return answer(Err(error));
    }
    // SAFETY: our caller keeps the contract of `dup2`, whose arguments go on unchanged.
    let result = unsafe { real::dup2()(old, new) };
    if result >= 0 && old != new {
        enter_duplicate(old, new);
    }
    result
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __dup2(old: c_int, new: c_int) -> c_int {
    // SAFETY: our caller's contract is that of `dup2`, and the arguments are its own.
    unsafe { dup2(old, new) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if let Err(error) = check_target(new) {
        return answer(Err(error));
    }
    // SAFETY: our caller keeps the contract of `dup3`, whose arguments go on unchanged.
    let result = unsafe { real::dup3()(old, new, flags) };
    if result >= 0 {
        enter_duplicate(old, new);
    }
    result
}

fn set_flags(fd: c_int, wanted: c_int) -> Option<io::Result<c_int>> {
    let file = table::get(fd)?;
    let _inside = Inside::enter();
    let life = file.write_life();
    let status = file.status() & !CHANGEABLE | wanted & CHANGEABLE;
    let kernel = match life.is_buffered {
        true => wanted & !(libc::O_APPEND | libc::O_DIRECT),
        false => wanted,
    };
    // SAFETY: it takes numbers, and changes flags of a descriptor alone.
    if unsafe { real::fcntl()(fd, libc::F_SETFL, kernel as usize) } == -1 {
        return Some(Err(io::Error::last_os_error()));
    }
    file.set_status(status);
    Some(Ok(0))
}

/// # Safety
/// `argument` is what the command demands.
unsafe fn control(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: our caller keeps the contract of `fcntl`, whose arguments go on unchanged.
    let real = || unsafe { real::fcntl()(fd, command, argument) };
    if is_inside()
        || (command != libc::F_DUPFD
            && command != libc::F_DUPFD_CLOEXEC
            && command != libc::F_SETLK
            && command != libc::F_SETLKW
            && table::get(fd).is_none())
    {
        return real();
    }
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            let new = real();
            if new >= 0 {
                enter_duplicate(fd, new);
            }
            new
        }
        libc::F_GETFL => {
            let flags = real();
            let kept = table::get(fd).map_or(0, OpenFile::status) & KEPT_BY_US;
            if flags < 0 {
                flags
            } else {
                flags & !KEPT_BY_US | kept
            }
        }
        libc::F_SETFL => match set_flags(fd, argument as c_int) {
            Some(result) => answer(result),
            None => real(),
        },
        libc::F_SETLK | libc::F_SETLKW => {
            let result = real();
            if let (0, Some(process)) = (result, active()) {
                process.record_locks.note(borrowed(fd));
            }
            result
        }
        libc::F_SETLEASE => match escape_descriptor(fd) {
            Ok(()) => real(),
            Err(error) => answer(Err(error)),
        },
        _ => real(),
    }
}

macro_rules! controls {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, command: c_int, argument: usize) -> c_int {
            // SAFETY: our caller keeps the contract of `fcntl`; the argument is read from where a variable
            // one would be.
            unsafe { control(fd, command, argument) }
        }
    )* };
}
controls!(fcntl, fcntl64, __fcntl);

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: usize, argument: usize) -> c_int {
    let files = match request & 0xffff_ffff {
        FIOCLEX | FIONCLEX => [-1, -1],
        FICLONE => [fd, argument as c_int],
        // SAFETY: by the contract of this request the argument, if not null, points to its record.
        FICLONERANGE if argument != 0 => [fd, unsafe { *(argument as *const i64) } as c_int],
        _ => [fd, -1],
    };
    for covered in files {
        if let Err(error) = escape_descriptor(covered) {
            return answer(Err(error));
        }
    }
    // SAFETY: our caller keeps the contract of `ioctl`, whose arguments go on unchanged.
    unsafe { real::ioctl()(fd, request, argument) }
}

/// Remembers that the program gives a descriptor to a program that it will start.
///
/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn_file_actions_adddup2(
    actions: *mut std::ffi::c_void,
    fd: c_int,
    new: c_int,
) -> c_int {
    if let (Some(process), Some(file)) = (active(), table::get(fd)) {
        let _inside = Inside::enter();
        forks::escape(process, file, Count::Elsewhere);
    }
    // SAFETY: our caller keeps the contract of `posix_spawn_file_actions_adddup2`, whose arguments go on
    // unchanged.
    unsafe { real::posix_spawn_file_actions_adddup2()(actions, fd, new) }
}

macro_rules! lockfs {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, command: c_int, len: i64) -> c_int {
            // SAFETY: our caller keeps the contract of `lockf`, whose arguments go on unchanged.
            let result = unsafe { real::lockf()(fd, command, len) };
            if let (0, Some(process)) = (result, active()) {
                process.record_locks.note(borrowed(fd));
            }
            result
        }
    )* };
}
lockfs!(lockf, lockf64);
