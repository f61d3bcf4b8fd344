//! Counts for `forebay run`, in memory that all processes of the tree share. Without such memory nothing is
//! counted.

#![allow(unsafe_code, reason = "memory is shared between processes")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use forebay_files::tally::{Count, TALLY_BYTES};

use crate::open_file::Life;

/// How often something was made durable in a pool that was worth opening: it costs as much as some syncs, and the first sync of
/// a file is several.
const WORTH_PERSISTS: u64 = 100;

/// Syncs that a process does without the pool at most before it opens it.
const RELUCTANCE: std::ops::RangeInclusive<u64> = 2..=64;

static SHARED: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Counts from now on, if the memory can be mapped.
pub fn begin(path: &Path) {
    let Ok(file) = File::options().read(true).write(true).open(path) else {
        return;
    };
    if file.metadata().map_or(0, |found| found.len()) < TALLY_BYTES {
        return;
    }
    // SAFETY: a new mapping at an address that the kernel chooses.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            TALLY_BYTES as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if mapped != libc::MAP_FAILED {
        SHARED.store(mapped.cast(), Ordering::Release);
    }
}

fn word(count: Count) -> Option<&'static AtomicU64> {
    let start = SHARED.load(Ordering::Acquire);
    // SAFETY: null, or a mapping that stays, with a word at each place.
    (!start.is_null()).then(|| unsafe { &*start.byte_add(count.offset()) })
}

/// Whether anything is counted.
pub fn is_counting() -> bool {
    !SHARED.load(Ordering::Relaxed).is_null()
}

/// One more.
pub fn add(count: Count) {
    if let Some(word) = word(count) {
        word.fetch_add(1, Ordering::Relaxed);
    }
}

/// The open file counts for this, and for what it counted no more.
pub fn file(life: &Life, count: Count) {
    let before = life.counted.swap(count as u8 + 1, Ordering::Relaxed);
    if before == count as u8 + 1 {
        return;
    }
    add(count);
    let before = before
        .checked_sub(1)
        .map(|place| Count::ALL[usize::from(place)]);
    if let Some(word) = before.and_then(word) {
        word.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many syncs a process does before it opens the pool.
pub fn reluctance() -> u64 {
    word(Count::Reluctance).map_or(0, |word| word.load(Ordering::Relaxed))
}

/// A process closes the pool that it opened: the next one opens it later if it was little used.
pub fn note_use(persists: u64) {
    if let Some(word) = word(Count::Reluctance) {
        let before = word.load(Ordering::Relaxed);
        let next = match persists < WORTH_PERSISTS {
            true => (2 * before).clamp(*RELUCTANCE.start(), *RELUCTANCE.end()),
            false => 0,
        };
        word.store(next, Ordering::Relaxed);
    }
}
