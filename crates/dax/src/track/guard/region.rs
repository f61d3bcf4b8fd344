//! One mapping whose pages may be read-only: what a store to one of them means, and how it is made writable again.
//!
//! Invariants, whenever the lock is free:
//! * a page that is held is read-only;
//! * where stores are noted, a page that is not noted is read-only, so that no store to it goes unseen.
#![allow(unsafe_code, reason = "mprotect is the system's own interface")]

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::lock::{SignalLock, SignalsBlocked, wait_while, wake};
use crate::format::PAGE_BYTES;
use crate::track::ranges::push;
use crate::track::span::Span;

/// Ranges of pages that can be held at once.
pub(crate) const HELD_MAX: usize = 16;

/// What the region is guarded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each first store to a page is noted.
    Noting,
    /// Stores are of interest only while their page is held.
    Holding,
}

/// How often what has happened.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Stores that found their page read-only and made it writable.
    pub(crate) noted: u64,
    /// Times that a store waited for a held page.
    pub(crate) waited: u64,
    /// Times that all pages were made writable, since the system had no mapping left for one.
    pub(crate) opened: u64,
    /// Calls of mprotect.
    pub(crate) protections: u64,
}

#[derive(Debug, Default)]
struct Counters {
    noted: AtomicU64,
    waited: AtomicU64,
    opened: AtomicU64,
    protections: AtomicU64,
}

/// A range of pages; empty where nothing is held.
#[derive(Debug, Default)]
struct Held {
    start: AtomicU64,
    end: AtomicU64,
}

/// A mapping that the handler of SIGSEGV knows.
#[derive(Debug)]
pub(crate) struct Region {
    mapping: Span,
    mode: Mode,
    lock: SignalLock,
    /// Changed with the lock taken.
    held: [Held; HELD_MAX],
    /// A bit a page; changed with the lock taken. None where stores are not noted.
    noted: Box<[AtomicU64]>,
    /// Rises when pages are let go; threads that store to held ones wait for that.
    releases: AtomicU32,
    counters: Counters,
    /// How many more times the system has a mapping for a page, in tests.
    #[cfg(test)]
    pub(crate) splits_left: AtomicU64,
}

impl Region {
    pub(super) fn new(mapping: Span, mode: Mode) -> Region {
        let words = match mode {
            Mode::Noting => mapping.pages().div_ceil(64),
            Mode::Holding => 0,
        };
        Region {
            mapping,
            mode,
            lock: SignalLock::default(),
            held: Default::default(),
            noted: (0..words).map(|_| AtomicU64::new(0)).collect(),
            releases: AtomicU32::new(0),
            counters: Counters::default(),
            #[cfg(test)]
            splits_left: AtomicU64::new(u64::MAX),
        }
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            noted: self.counters.noted.load(Ordering::Relaxed),
            waited: self.counters.waited.load(Ordering::Relaxed),
            opened: self.counters.opened.load(Ordering::Relaxed),
            protections: self.counters.protections.load(Ordering::Relaxed),
        }
    }

    fn protect(&self, pages: &Range<u64>, is_writable: bool) -> bool {
        self.counters.protections.fetch_add(1, Ordering::Relaxed);
        #[cfg(test)]
        if pages.start + 1 == pages.end && is_writable {
            let left = |left: u64| left.checked_sub(1);
            let order = Ordering::Relaxed;
            if self.splits_left.fetch_update(order, order, left).is_err() {
                return false;
            }
        }
        let addresses = self.mapping.addresses_of(pages);
        let write = if is_writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: the mapping's protection is ours to change, by `Span::new`.
        let result = unsafe {
            libc::mprotect(
                std::ptr::with_exposed_provenance_mut(addresses.start as usize),
                (addresses.end - addresses.start) as usize,
                libc::PROT_READ | write,
            )
        };
        result == 0
    }

    /// From here on each store is noted.
    pub(crate) fn arm(&self) -> io::Result<()> {
        let _signals = SignalsBlocked::new();
        self.lock.with(|| {
            for word in &self.noted {
                word.store(0, Ordering::Relaxed);
            }
            self.protect_or_error(&(0..self.mapping.pages()))
        })
    }

    fn protect_or_error(&self, pages: &Range<u64>) -> io::Result<()> {
        match self.protect(pages, false) {
            true => Ok(()),
            false => Err(io::Error::last_os_error()),
        }
    }

    /// Makes all pages writable: the region is let go.
    pub(super) fn disarm(&self) {
        if self.mode == Mode::Holding {
            return;
        }
        let _signals = SignalsBlocked::new();
        self.lock.with(|| {
            self.protect(&(0..self.mapping.pages()), true);
        });
    }

    /// Called by the handler, with all signals blocked: a thread stored to this page, and found it read-only. When it
    /// returns the store is tried again. False where nothing can let it go on.
    pub(super) fn on_store(&self, page: u64) -> bool {
        let releases = self.releases.load(Ordering::Acquire);
        let (must_wait, goes_on) = self.lock.with(|| match self.is_held(page) {
            true => (true, true),
            false => self.open_page(page),
        });
        if must_wait {
            self.counters.waited.fetch_add(1, Ordering::Relaxed);
            wait_while(&self.releases, releases);
        }
        goes_on
    }

    /// Notes the page, then makes it writable; with the lock taken. Whether the thread has to wait first, and whether
    /// it can go on.
    fn open_page(&self, page: u64) -> (bool, bool) {
        if self.mode == Mode::Noting {
            self.noted[(page / 64) as usize].fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
        if self.protect(&(page..page + 1), true) {
            self.counters.noted.fetch_add(1, Ordering::Relaxed);
            return (false, true);
        }
        // No mapping is left for a page of its own (vm.max_map_count). All pages together need none more than at first,
        // but held ones have to stay read-only.
        if self
            .held
            .iter()
            .any(|held| held.end.load(Ordering::Relaxed) != 0)
        {
            return (true, true);
        }
        for word in &self.noted {
            word.store(!0, Ordering::Relaxed);
        }
        self.counters.opened.fetch_add(1, Ordering::Relaxed);
        (false, self.protect(&(0..self.mapping.pages()), true))
    }

    /// Whether a page of these is held.
    pub(crate) fn holds_any(&self, pages: &Range<u64>) -> bool {
        let _signals = SignalsBlocked::new();
        self.lock.with(|| self.overlaps_held(pages))
    }

    /// With the lock taken.
    fn overlaps_held(&self, pages: &Range<u64>) -> bool {
        self.held.iter().any(|held| {
            let start = held.start.load(Ordering::Relaxed);
            start < pages.end && pages.start < held.end.load(Ordering::Relaxed)
        })
    }

    /// With the lock taken.
    fn is_held(&self, page: u64) -> bool {
        self.held.iter().any(|held| {
            let start = held.start.load(Ordering::Relaxed);
            (start..held.end.load(Ordering::Relaxed)).contains(&page)
        })
    }

    /// Adds the pages noted; `take`: and makes them read-only again, noted no more.
    pub(crate) fn noted(&self, pages: Range<u64>, take: bool, found: &mut Vec<Range<u64>>) {
        let first = found.len();
        if !take {
            // A page is noted before it can be stored to, so what ended before this is seen without the lock.
            self.for_runs(&pages, |run| push(found, first, run));
            return;
        }
        let _signals = SignalsBlocked::new();
        // Found outside of the lock, in which nothing may allocate: a thread that waits for the lock in the handler
        // may have the allocator's.
        let mut runs = Vec::new();
        self.for_runs(&pages, |run| runs.push(run));
        if let (Some(first), Some(last)) = (runs.first(), runs.last()) {
            let all = first.start..last.end;
            self.lock.with(|| {
                // Between the runs pages are read-only already, or noted meanwhile: these are met again.
                if self.protect(&all, false) {
                    runs.iter().for_each(|run| self.clear_noted(run));
                }
                // Else they stay noted, and are found by the next take, too.
            });
        }
        for run in runs {
            push(found, first, run);
        }
    }

    /// With the lock taken.
    fn clear_noted(&self, pages: &Range<u64>) {
        let mut page = pages.start;
        while page < pages.end {
            let end = pages.end.min((page / 64 + 1) * 64);
            let bits = (!0 >> (64 - (end - page))) << (page % 64);
            self.noted[(page / 64) as usize].fetch_and(!bits, Ordering::Relaxed);
            page = end;
        }
    }

    /// Calls `each` with each run of noted pages within a word.
    fn for_runs(&self, pages: &Range<u64>, mut each: impl FnMut(Range<u64>)) {
        let mut page = pages.start;
        while page < pages.end {
            let word_end = pages.end.min((page / 64 + 1) * 64);
            // Acquire: the store that a noted page stands for is made by a thread that noted it before.
            let word = self.noted[(page / 64) as usize].load(Ordering::Acquire) >> (page % 64);
            let start = page + u64::from(word.trailing_zeros());
            if start >= word_end {
                page = word_end;
                continue;
            }
            let ones = (word >> (start - page)).trailing_ones();
            let end = word_end.min(start + u64::from(ones));
            each(start..end);
            page = end;
        }
    }

    /// Makes stores to these pages wait until `release`. An error where the system cannot, or where too many ranges
    /// are held; nothing is held then.
    pub(crate) fn hold(&self, pages: &Range<u64>) -> io::Result<HeldPages<'_>> {
        assert!(pages.start < pages.end, "some page is held");
        let signals = SignalsBlocked::new();
        let slot = self.lock.with(|| {
            if self.overlaps_held(pages) {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            let is_free = |held: &Held| held.end.load(Ordering::Relaxed) == 0;
            let Some(slot) = self.held.iter().position(is_free) else {
                return Err(io::ErrorKind::QuotaExceeded.into());
            };
            if !self.protect(pages, false) {
                let error = io::Error::last_os_error();
                // Of several mappings the first ones may have been protected.
                self.reopen(pages);
                return Err(error);
            }
            self.held[slot].start.store(pages.start, Ordering::Relaxed);
            self.held[slot].end.store(pages.end, Ordering::Relaxed);
            Ok(slot)
        })?;
        Ok(HeldPages {
            region: self,
            slot,
            pages: pages.clone(),
            _signals: signals,
        })
    }

    /// Makes writable what should be; with the lock taken. What the system has no mapping for stays read-only: a store
    /// to it asks again.
    fn reopen(&self, pages: &Range<u64>) {
        match self.mode {
            Mode::Holding => {
                self.protect(pages, true);
            }
            Mode::Noting => self.for_runs(pages, |run| {
                self.protect(&run, true);
            }),
        }
    }

    fn release(&self, slot: usize, pages: &Range<u64>) {
        self.lock.with(|| {
            self.held[slot].start.store(0, Ordering::Relaxed);
            self.held[slot].end.store(0, Ordering::Relaxed);
            self.reopen(pages);
            // Release: a thread that sees it finds the page let go.
            self.releases.fetch_add(1, Ordering::Release);
        });
        wake(&self.releases, i32::MAX);
    }

    /// In a child process, which has none of the threads that held pages or had the lock.
    pub(super) fn after_fork_in_child(&self) {
        self.lock.reset();
        for held in &self.held {
            held.start.store(0, Ordering::Relaxed);
            held.end.store(0, Ordering::Relaxed);
        }
    }

    /// The page at this address of the region.
    pub(super) fn page_at(&self, address: u64) -> u64 {
        (address - self.mapping.addresses().start) / PAGE_BYTES
    }
}

/// Pages whose writers wait until it is dropped; so do signals to this thread.
pub(crate) struct HeldPages<'r> {
    region: &'r Region,
    slot: usize,
    pages: Range<u64>,
    _signals: SignalsBlocked,
}

impl Drop for HeldPages<'_> {
    fn drop(&mut self) {
        self.region.release(self.slot, &self.pages);
    }
}
