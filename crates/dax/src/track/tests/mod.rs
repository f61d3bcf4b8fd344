//! The trackers against memory of all kinds, many threads, children and other processes.
#![allow(unsafe_code, reason = "mapped memory is accessed by pointer")]

mod counts;
mod exec;
mod handler;
mod hold;
mod spans;
mod stress;
mod watch;

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::async_wp::AsyncTracker;
use super::fault::FaultTracker;
use super::{Coverage, Span, Tracker};
use crate::format::PAGE_BYTES;
use crate::options::TrackerKind;

/// Signal handlers and forks are the whole process's.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a span consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Shared, of no file.
    Anonymous,
    /// One file in memory.
    Tmpfs,
    /// Pages of two files in memory, eight by eight, side by side.
    Striped,
    /// One file of the file system that temporary files are on, through the page cache.
    PageCache,
}

pub(super) const ALL: [Memory; 4] = [
    Memory::Anonymous,
    Memory::Tmpfs,
    Memory::Striped,
    Memory::PageCache,
];

/// Mapped memory; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapped {
    start: *mut u8,
    pages: u64,
    pub(super) files: Vec<File>,
}

// SAFETY: memory of the process.
unsafe impl Send for Mapped {}
// SAFETY: accessed by atomics only.
unsafe impl Sync for Mapped {}

impl Mapped {
    pub(super) fn new(memory: Memory, pages: u64) -> Mapped {
        let folder = match memory {
            Memory::Tmpfs | Memory::Striped => "/dev/shm".into(),
            _ => std::env::temp_dir(),
        };
        let files = match memory {
            Memory::Anonymous => 0,
            Memory::Striped => 2,
            Memory::Tmpfs | Memory::PageCache => 1,
        };
        let files: Vec<File> = (0..files)
            .map(|_| {
                let file = tempfile::tempfile_in(&folder).unwrap();
                file.set_len(pages * PAGE_BYTES).unwrap();
                file
            })
            .collect();
        Mapped::of(files, pages)
    }

    pub(super) fn of(files: Vec<File>, pages: u64) -> Mapped {
        let len = (pages * PAGE_BYTES) as usize;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let anonymous = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let fixed = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: a new mapping, then pieces of it are replaced.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, anonymous, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let start = start.cast::<u8>();
        let unit = if files.len() > 1 { 8 } else { pages };
        for (at, first) in (0..pages).step_by(unit as usize).enumerate() {
            let Some(file) = files.get(at % files.len().max(1)) else {
                break;
            };
            let unit = (unit.min(pages - first) * PAGE_BYTES) as usize;
            let offset = (at / files.len()) as i64 * (unit as i64);
            // SAFETY: within the new mapping.
            let mapped = unsafe {
                let start = start.add((first * PAGE_BYTES) as usize);
                libc::mmap(start.cast(), unit, access, fixed, file.as_raw_fd(), offset)
            };
            assert_ne!(mapped, libc::MAP_FAILED);
        }
        Mapped {
            start,
            pages,
            files,
        }
    }

    /// A second mapping of the same pages.
    pub(super) fn alias(&self) -> Mapped {
        if !self.files.is_empty() {
            let files = self.files.iter().map(|file| file.try_clone().unwrap());
            return Mapped::of(files.collect(), self.pages);
        }
        let len = (self.pages * PAGE_BYTES) as usize;
        // SAFETY: with an old length of none, a second mapping is made.
        let start = unsafe { libc::mremap(self.start.cast(), 0, len, libc::MREMAP_MAYMOVE) };
        assert_ne!(start, libc::MAP_FAILED);
        Mapped {
            start: start.cast(),
            pages: self.pages,
            files: Vec::new(),
        }
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(super) fn span(&self) -> Span {
        // SAFETY: tests drop the tracker before the memory.
        unsafe { Span::new(self.start, self.pages) }
    }

    pub(super) fn word(&self, page: u64, word: usize) -> &AtomicU64 {
        assert!(page < self.pages && word < 512);
        let at = page * PAGE_BYTES + word as u64 * 8;
        // SAFETY: within the mapping, and aligned.
        unsafe { AtomicU64::from_ptr(self.start.add(at as usize).cast()) }
    }

    pub(super) fn store(&self, page: u64, value: u64) {
        self.word(page, 0).store(value, Ordering::SeqCst);
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { libc::munmap(self.start.cast(), (self.pages * PAGE_BYTES) as usize) };
    }
}

/// Each tracker in turn with memory of its own.
pub(super) fn for_each_tracker(
    memory: &[Memory],
    pages: u64,
    mut test: impl FnMut(&Mapped, &dyn Tracker),
) {
    let _alone = alone();
    for kind in [TrackerKind::AsyncWriteProtect, TrackerKind::Fault] {
        for &memory in memory {
            let mapped = Mapped::new(memory, pages);
            let tracker: Box<dyn Tracker> = match kind {
                TrackerKind::Fault => Box::new(FaultTracker::new(mapped.span()).unwrap()),
                _ => match async_tracker(mapped.span()) {
                    Some(tracker) => Box::new(tracker),
                    None => continue,
                },
            };
            assert_eq!(tracker.kind(), kind);
            test(&mapped, &*tracker);
        }
    }
}

/// None where the kernel is older than 6.7.
pub(super) fn async_tracker(span: Span) -> Option<AsyncTracker> {
    let tracker = AsyncTracker::new(span);
    if let Err(error) = &tracker {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release
            .split(['.', '-'])
            .map_while(|n| n.parse::<u32>().ok());
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        assert!(version < (6, 7), "Linux {release}: {error}");
        eprintln!("skipped async-wp: {error}");
    }
    tracker.ok()
}

pub(super) fn take(tracker: &dyn Tracker, pages: Range<u64>) -> Vec<Range<u64>> {
    let mut written = Vec::new();
    let coverage = tracker.take_written(pages, &mut written).unwrap();
    assert_eq!(coverage, Coverage::Complete);
    written
}

pub(super) fn peek(tracker: &dyn Tracker, pages: Range<u64>) -> Vec<Range<u64>> {
    let mut written = Vec::new();
    let coverage = tracker.peek_written(pages, &mut written).unwrap();
    assert_eq!(coverage, Coverage::Complete);
    written
}

/// Runs `work` in a forked child, which then ends at once: 0, or how else it ended.
pub(super) fn in_child(work: impl FnOnce()) -> i32 {
    // SAFETY: the child only runs `work`, which allocates nothing, and ends without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        work();
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0, "fork");
    ended(child)
}

/// How a child ended, for which this waits.
pub(super) fn ended(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

/// Runs its work when it is dropped, also by a panic: threads of a scope that wait for it end then, too.
pub(super) struct AtEnd<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Lets other threads run until it is so; a test that would wait for ever fails.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..20_000_000 {
        if is_so() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("never: {what}");
}
