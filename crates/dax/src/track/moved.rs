//! Pages that are moved out of a mapping for a while, with nothing in their place but waiting.
//!
//! Where a page was, memory is put that has no page and is registered for missing ones with userfaultfd(2): threads that
//! access it wait in the kernel, and so do their system calls, which under mprotect would fail with EFAULT. The
//! replacement is one mremap, so that every access finds either the page or the wait. The page itself, with the marks of
//! its write protection, is brought back by another one.
#![allow(unsafe_code, reason = "mappings are the system's own interface")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::guard::SignalsBlocked;
use super::pagemap::Pagemap;
use super::userfault::Userfault;
use crate::format::PAGE_BYTES;

/// `struct uffd_msg`, and its `event` where a thread waits for a page (linux/userfaultfd.h).
const MESSAGE_BYTES: usize = 32;
const EVENT_PAGEFAULT: u8 = 0x12;

/// How often a page that cannot be brought back is tried again: other threads may have used up the mappings that a
/// process may have (vm.max_map_count).
const TRIES: u32 = 10_000;

/// Reads the events of a userfaultfd: a call that moves registered pages returns only when its event is read.
#[derive(Debug)]
pub(super) struct Events {
    thread: Option<JoinHandle<()>>,
    stop: Option<io::PipeWriter>,
    #[cfg(test)]
    waited: Arc<AtomicU64>,
}

impl Events {
    pub(super) fn read(userfault: &Userfault) -> io::Result<Events> {
        let descriptor = File::from(userfault.descriptor()?);
        let (stopped, stop) = io::pipe()?;
        let waited = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&waited);
        // The thread inherits the mask: no handler of the program's runs on it.
        let _signals = SignalsBlocked::new();
        let thread = std::thread::Builder::new()
            .name("forebay-dax-events".to_owned())
            .spawn(move || read_until_stopped(&descriptor, &stopped, &count))?;
        Ok(Events {
            thread: Some(thread),
            stop: Some(stop),
            #[cfg(test)]
            waited,
        })
    }

    /// Times that a thread waited for a page that was moved.
    #[cfg(test)]
    pub(super) fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // A word, not the end of the pipe: a child that was forked has that end, too.
        if let Some(mut stop) = self.stop.take() {
            let _ = stop.write_all(&[0]);
        }
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok(),
                "the thread that reads events has no reason to panic"
            );
        }
    }
}

fn read_until_stopped(mut descriptor: &File, stopped: &io::PipeReader, waited: &AtomicU64) {
    let poll = |fd: i32| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        let mut polls = [poll(descriptor.as_raw_fd()), poll(stopped.as_raw_fd())];
        // SAFETY: both entries are ours.
        unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) };
        if polls[1].revents != 0 {
            return;
        }
        let mut message = [0_u8; MESSAGE_BYTES];
        // What is read has been acknowledged; threads that wait for a page go on waiting until they are woken.
        let is_read = descriptor
            .read(&mut message)
            .is_ok_and(|len| len == MESSAGE_BYTES);
        if is_read && message[0] == EVENT_PAGEFAULT {
            waited.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A page that is moved out; where it was, threads wait. It has to be brought `back`.
#[derive(Debug)]
pub(super) struct MovedPage {
    page: u64,
    alias: u64,
}

fn at(address: u64) -> *mut libc::c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

fn checked(mapped: *mut libc::c_void) -> io::Result<u64> {
    match mapped {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        mapped => Ok(mapped.expose_provenance() as u64),
    }
}

fn unmap(address: u64) {
    // SAFETY: a page of this module's own, which no other thread knows.
    unsafe { libc::munmap(at(address), PAGE_BYTES as usize) };
}

fn range(address: u64) -> Range<u64> {
    address..address + PAGE_BYTES
}

impl MovedPage {
    /// Moves the page at this address out. Stores to it that ended before are in the file; none comes after.
    ///
    /// # Safety
    /// The address is that of a page of a shared mapping of the caller's which `userfault` has registered, and whose
    /// `Events` are being read; threads that access it may be made to wait.
    pub(super) unsafe fn out(userfault: &Userfault, page: u64) -> io::Result<MovedPage> {
        let len = PAGE_BYTES as usize;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping; nothing is replaced.
        let wait = checked(unsafe { libc::mmap(at(0), len, access, flags, -1, 0) })?;
        let prepare = || {
            // A child would find zeroes there, since its accesses do not wait; so it finds nothing.
            // SAFETY: the new mapping.
            if unsafe { libc::madvise(at(wait), len, libc::MADV_DONTFORK) } != 0 {
                return Err(io::Error::last_os_error());
            }
            userfault.add_missing(&range(wait))?;
            // With an old length of none, a second mapping of the same page of the file is made (mremap(2)).
            // SAFETY: at an address that the kernel chooses.
            checked(unsafe { libc::mremap(at(page), 0, len, libc::MREMAP_MAYMOVE) })
        };
        let alias = prepare().inspect_err(|_| unmap(wait))?;
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: replaces the page of the caller's, by the function's contract.
        match checked(unsafe { libc::mremap(at(wait), len, len, flags, at(page)) }) {
            Ok(_) => Ok(MovedPage { page, alias }),
            Err(error) => {
                unmap(wait);
                unmap(alias);
                Err(error)
            }
        }
    }

    /// Brings it back, under write protection (`is_taken`) or as one that was written, and lets threads go on.
    pub(super) fn back(self, userfault: &Userfault, pagemap: &Pagemap, is_taken: bool) {
        let len = PAGE_BYTES as usize;
        if is_taken {
            // A mark of protection stands in no DAX page's way then. Where this, or the protection, fails, the page
            // counts as written: that is always true enough.
            // SAFETY: a mapping of our own; nothing of it is dropped.
            unsafe { libc::madvise(at(self.alias), len, libc::MADV_POPULATE_READ) };
            let _ = pagemap.written(range(self.alias), self.alias, true, 0, &mut Vec::new());
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let mut tries = 0;
        // SAFETY: replaces memory of ours that has nothing in it; its protection moves with the page.
        while checked(unsafe { libc::mremap(at(self.alias), len, len, flags, at(self.page)) })
            .is_err()
        {
            tries += 1;
            if tries == TRIES {
                // Threads would wait for ever. Nothing is lost: the region is marked open.
                eprintln!(
                    "forebay-dax: a page of a region cannot be mapped again: too many mappings"
                );
                std::process::abort();
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        userfault.wake(&range(self.page));
    }
}
