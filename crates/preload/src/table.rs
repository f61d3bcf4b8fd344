//! From a descriptor to its open file, without a lock: an array of pointers to open files that are
//! never freed, only used again.

#![allow(
    unsafe_code,
    reason = "shared records are reached through an array of pointers"
)]

use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::open_file::OpenFile;

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

/// The open file of a descriptor. It may be closed at any moment: see [`OpenFile::is_still`].
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
