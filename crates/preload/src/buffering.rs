//! How an open file becomes buffered, and plain again.
//!
//! Buffered: this is the only open description of the inode (the lease), the pool is ours, the kernel's
//! description has neither `O_APPEND` nor `O_DIRECT`, its position is unused. Plain: everything is in
//! the backing and durable there; the kernel's description has the program's flags and position; no
//! lease.

#![allow(
    unsafe_code,
    reason = "descriptors of the program are borrowed and replaced by number"
)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use forebay_files::tally::Count;
use forebay_files::{FileBuffer, FileIdentity};
use rustix::fs::{OFlags, SeekFrom};

use crate::leases::{self, LeaseThread};
use crate::open_file::{Life, OpenFile};
use crate::process::Process;
use crate::{descriptors, inherited, tally};

/// What the kernel's description lacks while a file is buffered.
const TAKEN_AWAY: OFlags = OFlags::APPEND.union(OFlags::DIRECT);

/// Tries to have the file buffered. Otherwise the file stays plain; the error says as what it is counted
/// then.
pub fn try_buffer(
    process: &'static Process,
    fd: BorrowedFd<'_>,
    file: &'static OpenFile,
) -> Result<(), Count> {
    let _nothing_forks = process
        .barrier
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    if file.read_life().is_escaped {
        return Err(file.read_life().escape.unwrap_or(Count::Other));
    }
    if is_size_limited() {
        let log = &process.settings.log;
        log.once(
            "limit",
            "files are not buffered: their size is limited (ulimit -f), which the kernel sees to",
        );
        return Err(Count::Other);
    }
    let Some(buffer) = process.open_buffer_if_worth()? else {
        return Err(Count::Elsewhere);
    };
    let Some(leases) = process.leases.get() else {
        return Err(Count::Other);
    };
    let mut life = file.write_life();
    let Some(identity) = life.identity else {
        return Err(Count::Other);
    };
    if life.is_buffered {
        return Ok(());
    }
    if life.is_escaped {
        return Err(life.escape.unwrap_or(Count::Other));
    }
    if is_shared_with_child(process, &mut life) {
        return Err(Count::Elsewhere);
    }
    match lease_and_adopt(fd, file, &mut life, leases, &buffer) {
        Ok(()) => {
            life.is_buffered = true;
            tally::file(&life, Count::Buffered);
            process.track(identity, file);
            Ok(())
        }
        Err(error) => {
            say_why_not(process, &error);
            Err(match error.raw_os_error() {
                Some(libc::EAGAIN) => Count::Elsewhere,
                _ => Count::Other,
            })
        }
    }
}

/// Makes the open description the only one of the inode, and gives it to the buffer.
fn lease_and_adopt(
    own: BorrowedFd<'_>,
    file: &'static OpenFile,
    life: &mut Life,
    leases: &LeaseThread,
    buffer: &Arc<FileBuffer>,
) -> io::Result<()> {
    if life.own.is_none() {
        life.own = Some(descriptors::duplicate_high(own)?);
    }
    let flags = rustix::fs::fcntl_getfl(own)?;
    rustix::fs::fcntl_setfl(own, flags.difference(TAKEN_AWAY))?;
    let leased = leases
        .take(life.own.as_ref().map_or(own, AsFd::as_fd))
        .and_then(|()| {
            match &life.file {
                Some(known) => known.resume(),
                None => {
                    let backing = descriptors::duplicate_high(own)?;
                    life.file = Some(buffer.adopt(backing)?);
                }
            }
            Ok(rustix::fs::seek(own, SeekFrom::Current(0))?)
        });
    match leased {
        Ok(position) => {
            *file.lock_position() = position;
            Ok(())
        }
        Err(error) => {
            leases::let_go(life.own.as_ref().map_or(own, AsFd::as_fd));
            rustix::fs::fcntl_setfl(own, flags)?;
            Err(error)
        }
    }
}

/// Whether the kernel stops files from growing beyond some size: what the pool took could not be
/// written back.
fn is_size_limited() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    limit.current.is_some()
}

fn say_why_not(process: &Process, error: &io::Error) {
    let log = &process.settings.log;
    match error.raw_os_error() {
        // Another process has it open: usual.
        Some(libc::EAGAIN) => {}
        Some(libc::EINVAL | libc::EOPNOTSUPP) => log.once(
            "lease",
            "a file system here has no leases; its files are not buffered (use the mount)",
        ),
        Some(libc::EACCES) => log.once(
            "owner",
            "files of other users are not buffered: only a file's owner may lease it",
        ),
        _ => log.once("adopt", &format!("a file is not buffered: {error}")),
    }
}

/// Whether a forked child may still use the same description.
fn is_shared_with_child(process: &Process, life: &mut Life) -> bool {
    let Some(fork) = life.shared_with_fork else {
        return false;
    };
    inherited::look(&process.forks);
    if inherited::is_pending(&process.forks, fork) {
        return true;
    }
    if let Some(identity) = life.identity
        && inherited::was_inherited(&process.forks, fork, identity)
    {
        life.is_escaped = true;
        return true;
    }
    life.shared_with_fork = None;
    false
}

/// Makes the file plain: its data durable in the backing, flags and position the kernel's.
///
/// # Errors
/// The backing's own; the file is buffered as before then.
pub fn unbuffer(process: &Process, file: &'static OpenFile, life: &mut Life) -> io::Result<()> {
    let (true, Some(buffered), Some(own)) = (life.is_buffered, &life.file, &life.own) else {
        return Ok(());
    };
    buffered.suspend().inspect_err(|error| {
        process.settings.log.line(&format!(
            "a file cannot be brought back from the pool: {error}"
        ));
    })?;
    // Before the lease goes: the process that waits for it may be a child that shares the
    // description.
    rustix::fs::seek(own, SeekFrom::Start(*file.lock_position()))?;
    restore_flags(own.as_fd(), file.status())?;
    leases::let_go(own.as_fd());
    life.is_buffered = false;
    life.holds_data.store(false, Ordering::Relaxed);
    Ok(())
}

fn restore_flags(fd: BorrowedFd<'_>, status: i32) -> io::Result<()> {
    let given = OFlags::from_bits_retain(status as u32) & TAKEN_AWAY;
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(
        fd,
        flags.difference(TAKEN_AWAY) | given,
    )?)
}

/// The file is opened again: it becomes plain, and is released altogether if the program closed it.
pub fn give_way(process: &'static Process, file: &'static OpenFile) {
    let mut life = file.write_life();
    if unbuffer(process, file, &mut life).is_ok() && life.identity.is_some() && !file.is_held() {
        vacate(process, file, &mut life);
        drop(life);
        process.give_back(file);
    }
}

/// Empties the record of a file that no descriptor names any more.
pub fn vacate(process: &Process, file: &'static OpenFile, life: &mut Life) {
    if let Some(identity) = life.identity {
        process.untrack(identity, file);
    }
    // The buffer may keep its descriptor a while, and the lease would live as long.
    if let Some(own) = &life.own {
        leases::let_go(own.as_fd());
    }
    *life = Life::default();
}

static BROUGHT_BACK: AtomicU64 = AtomicU64::new(0);

/// How many times a file was written back to the backing.
pub fn brought_back() -> u64 {
    BROUGHT_BACK.load(Ordering::Relaxed)
}

/// Everything is plain; false if something could not be brought back. The caller holds the barrier.
fn unbuffer_all(process: &'static Process) -> bool {
    let mut all_back = true;
    for file in process.all_tracked() {
        let mut life = file.write_life();
        let unbuffered = unbuffer(process, file, &mut life);
        BROUGHT_BACK.fetch_add(1, Ordering::Relaxed);
        all_back &= unbuffered.is_ok();
        if unbuffered.is_ok()
            && let Some(identity) = life.identity
        {
            // The pool is about to be closed; what it recorded of the file goes with it.
            process.untrack(identity, file);
            life.file = None;
            if !file.is_held() {
                *life = Life::default();
                drop(life);
                process.give_back(file);
            }
        }
    }
    all_back
}

/// Brings everything back and closes the pool.
pub fn close_buffer(process: &'static Process) {
    let barrier = process.barrier.write();
    let _nothing_becomes_buffered = barrier.unwrap_or_else(PoisonError::into_inner);
    let is_all_back = unbuffer_all(process);
    process.close_pool(is_all_back);
}

/// Nothing is buffered from now on.
pub fn turn_off(process: &'static Process, reason: &'static str) {
    if process.switch_off() {
        let log = &process.settings.log;
        log.line(&format!("nothing is buffered any more: {reason}"));
        close_buffer(process);
    }
}

/// The program closed its last descriptor of the file. It stays buffered while the pool holds data of
/// it, since bringing it back now would cost the sync that was avoided.
pub fn closed(process: &'static Process, file: &'static OpenFile) {
    let mut life = file.write_life();
    if file.is_held() || life.identity.is_none() {
        return;
    }
    if let (Some(own), None, false) = (&life.own, life.shared_with_fork, life.is_escaped) {
        // The kernel drops a description's lock (flock) with its last descriptor, which is ours here.
        let _ = rustix::fs::flock(own, rustix::fs::FlockOperation::Unlock);
    }
    if life.is_buffered && !life.is_unlinked {
        // A file without data in the pool is released at once, which costs nothing.
        let is_spared = life.holds_data.load(Ordering::Relaxed) && !is_program(&life);
        let is_kept = is_spared || unbuffer(process, file, &mut life).is_err();
        if is_kept {
            process.enter_closed(file);
            return;
        }
    }
    vacate(process, file, &mut life);
    drop(life);
    process.give_back(file);
}

/// Whether the file may be executed, which the kernel refuses while we have it open to write.
fn is_program(life: &Life) -> bool {
    let stat = life.own.as_ref().map(rustix::fs::fstat);
    stat.is_some_and(|stat| stat.is_ok_and(|stat| stat.st_mode & 0o111 != 0))
}

/// The mode of a file was changed: one that was closed and may be executed now is released.
pub fn mode_changed(process: &'static Process, file: &'static OpenFile) {
    let is_program = is_program(&file.read_life());
    if is_program && !file.is_held() {
        give_way(process, file);
    }
}

/// The identity of what a status tells of, if it is a regular file.
pub fn identity_of(stat: &rustix::fs::Stat) -> Option<FileIdentity> {
    let is_regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    is_regular.then_some(FileIdentity {
        device: stat.st_dev,
        inode: stat.st_ino,
    })
}
