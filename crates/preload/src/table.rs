//! From a descriptor to its open file, without a lock: an array of pointers to open files that are
//! never freed, only used again.

#![allow(
    unsafe_code,
    reason = "shared records are reached through an array of pointers"
)]

use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::inside::{Inside, is_inside};
use crate::open_file::{Life, OpenFile};

/// Descriptors from here on are never covered.
pub const DESCRIPTORS_MAX: usize = 1 << 16;

static TABLE: [AtomicPtr<OpenFile>; DESCRIPTORS_MAX] =
    [const { AtomicPtr::new(ptr::null_mut()) }; DESCRIPTORS_MAX];

/// One more than the highest descriptor that ever was entered.
static END: AtomicI32 = AtomicI32::new(0);

fn shown(pointer: *mut OpenFile) -> Option<&'static OpenFile> {
    // SAFETY: null, or from `set`, which takes references that live for ever.
    unsafe { pointer.as_ref() }
}

/// The open file of a descriptor. It may be closed at any moment; [`with`] sees to that.
#[inline]
pub fn get(fd: RawFd) -> Option<&'static OpenFile> {
    shown(TABLE.get(fd as usize)?.load(Ordering::Acquire))
}

/// Enters a descriptor; returns what was there. False numbers are left out.
pub fn set(fd: RawFd, file: Option<&'static OpenFile>) -> Option<&'static OpenFile> {
    if file.is_some() {
        END.fetch_max(fd.saturating_add(1), Ordering::Relaxed);
    }
    let pointer = file.map_or(ptr::null_mut(), |file| ptr::from_ref(file).cast_mut());
    shown(TABLE.get(fd as usize)?.swap(pointer, Ordering::AcqRel))
}

/// Whether a descriptor of this number can be entered.
pub fn has_room(fd: RawFd) -> bool {
    (fd as usize) < DESCRIPTORS_MAX
}

/// The covered descriptors.
pub fn descriptors() -> impl Iterator<Item = (RawFd, &'static OpenFile)> {
    (0..END.load(Ordering::Relaxed)).filter_map(|fd| Some((fd, get(fd)?)))
}

/// Calls `operation` with the open file of a covered descriptor; `None` for other descriptors.
#[inline]
pub fn with<T>(
    fd: RawFd,
    operation: impl FnOnce(&'static OpenFile, &Life) -> io::Result<T>,
) -> Option<io::Result<T>> {
    get(fd)?;
    with_covered(fd, operation)
}

fn with_covered<T>(
    fd: RawFd,
    operation: impl FnOnce(&'static OpenFile, &Life) -> io::Result<T>,
) -> Option<io::Result<T>> {
    let is_nested = is_inside();
    let _inside = Inside::enter();
    loop {
        let file = get(fd)?;
        let life = if is_nested {
            // A signal handler: the code that it interrupted may hold the lock, and other locks
            // further down.
            match file.try_read_life() {
                Some(life) if !life.is_buffered => life,
                _ => return Some(Err(io::Error::from_raw_os_error(libc::EDEADLK))),
            }
        } else {
            file.read_life()
        };
        // A record is only used again after its descriptors are gone from the table and no thread reads
        // it.
        if get(fd).is_some_and(|now| std::ptr::eq(now, file)) {
            return Some(operation(file, &life));
        }
    }
}
