//! The run of addresses that a tracker looks at.
#![allow(
    unsafe_code,
    reason = "advice about a mapping is the system's own interface"
)]

use std::io;
use std::ops::Range;

use crate::format::PAGE_BYTES;

/// A run of addresses of this process, of one mapping or of several side by side, all shared and writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: usize,
    pages: u64,
    is_dax: bool,
}

impl Span {
    /// `pages` pages of 4 KiB from `start` on.
    ///
    /// # Safety
    /// All of it is mapped readable and writable, and stays so and the caller's as long as a tracker looks at
    /// it; its protection is the tracker's to change.
    pub(crate) unsafe fn new(start: *mut u8, pages: u64) -> Span {
        let start = start.expose_provenance();
        assert_eq!(start as u64 % PAGE_BYTES, 0, "a mapping begins with a page");
        let len = pages.checked_mul(PAGE_BYTES);
        let is_range = len.is_some_and(|len| (start as u64).checked_add(len).is_some());
        assert!(is_range, "a mapping ends within the address space");
        Span {
            start,
            pages,
            is_dax: false,
        }
    }

    /// Says that the files are on a DAX file system: their pages are the medium's own.
    pub(crate) fn dax(mut self, is_dax: bool) -> Span {
        self.is_dax = is_dax;
        self
    }

    pub(crate) fn is_dax(&self) -> bool {
        self.is_dax
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    pub(crate) fn addresses(&self) -> Range<u64> {
        let start = self.start as u64;
        start..start + self.pages * PAGE_BYTES
    }

    /// Addresses of these pages of it.
    pub(crate) fn addresses_of(&self, pages: &Range<u64>) -> Range<u64> {
        assert!(
            pages.start <= pages.end && pages.end <= self.pages,
            "pages {pages:?} of a mapping of {}",
            self.pages
        );
        let start = self.start as u64;
        start + pages.start * PAGE_BYTES..start + pages.end * PAGE_BYTES
    }

    /// The page's first byte.
    pub(crate) fn page(&self, page: u64) -> *mut u8 {
        let address = self.addresses_of(&(page..page + 1)).start;
        std::ptr::with_exposed_provenance_mut(address as usize)
    }

    /// Children do not get the mapping: one that touches it ends by SIGSEGV, and none can store into it unseen. It
    /// costs a child that executes another program nothing.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "all regions have their children watched")
    )]
    pub(crate) fn deny_to_children(&self) -> io::Result<()> {
        self.advise(libc::MADV_DONTFORK)
    }

    /// madvise for all of it.
    pub(crate) fn advise(&self, advice: i32) -> io::Result<()> {
        let len = (self.pages * PAGE_BYTES) as usize;
        let start = std::ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: the mapping is the tracker's to advise, by `Span::new`; no advice given here drops pages.
        let result = unsafe { libc::madvise(start, len, advice) };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
