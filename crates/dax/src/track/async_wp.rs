//! The tracker of asynchronous write protection: userfaultfd and PAGEMAP_SCAN over a mapping of this process.
#![allow(
    unsafe_code,
    reason = "the tracker tries itself with stores of its own"
)]

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(test)]
use super::guard::Counts;
use super::guard::{HELD_MAX, Mode, Registered, SignalsBlocked};
use super::moved::{Events, MovedPage};
use super::pagemap::Pagemap;
use super::ranges::push;
use super::span::Span;
use super::userfault::Userfault;
use super::{Coverage, Hold, Missed, Tracker};
use crate::error::{ErrorKind, Result};
use crate::options::TrackerKind;

/// Pages that the kernel may map by one entry, and protect at once.
const HUGE_PAGES: u64 = 512;

/// A page that is moved out, and whether it was taken since.
#[derive(Debug)]
struct Hot {
    page: u64,
    moved: MovedPage,
    is_taken: bool,
}

/// Sees stores by threads, and by system calls through the mapping.
#[derive(Debug)]
pub(crate) struct AsyncTracker {
    span: Span,
    pagemap: Pagemap,
    region: Registered,
    /// Pages that are not where they were, ascending. A scan runs with it locked: their places hold something else.
    hot: Mutex<Vec<Hot>>,
    /// None where the process may not have kernel accesses wait.
    events: Option<Events>,
    /// Protection ends with it.
    userfault: Userfault,
}

fn refused(found: impl Into<String>) -> ErrorKind {
    ErrorKind::Tracker {
        tracker: TrackerKind::AsyncWriteProtect,
        found: found.into(),
    }
}

impl AsyncTracker {
    /// Begins to track the mapping, which no thread stores to yet. Before it says that it can, it stores to a few pages
    /// what is in them already, and sees whether it sees that.
    pub(crate) fn new(span: Span) -> Result<AsyncTracker> {
        AsyncTracker::with_userfault(span, Userfault::register_movable(&span))
    }

    fn with_userfault(span: Span, movable: io::Result<Userfault>) -> Result<AsyncTracker> {
        let step = |what: &'static str| move |error| refused(format!("{what}: {error}"));
        let (userfault, events) = match movable {
            Ok(userfault) => {
                let events = Events::read(&userfault).map_err(step("a thread for its events"))?;
                (userfault, Some(events))
            }
            Err(_) => {
                let userfault = Userfault::register(&span)
                    .map_err(step("userfaultfd with asynchronous write protection"))?;
                (userfault, None)
            }
        };
        let pagemap = Pagemap::of_this_process().map_err(step("/proc/self/pagemap"))?;
        let region = Registered::new(span, Mode::Holding).map_err(step("SIGSEGV"))?;
        let tracker = AsyncTracker {
            span,
            pagemap,
            region,
            hot: Mutex::default(),
            events,
            userfault,
        };
        tracker.try_itself().map_err(step("PAGEMAP_SCAN"))??;
        Ok(tracker)
    }

    /// As in a process without privileges, whose system calls cannot be made to wait.
    #[cfg(test)]
    pub(crate) fn without_privilege(span: Span) -> Result<AsyncTracker> {
        AsyncTracker::with_userfault(span, Err(io::ErrorKind::PermissionDenied.into()))
    }

    /// Protects all pages, stores to some, and looks for these.
    fn try_itself(&self) -> io::Result<Result<(), ErrorKind>> {
        let pages = self.span.pages();
        let mut found = Vec::new();
        self.scan(0..pages, true, &mut found)?;
        let mut tried: Vec<u64> = (0..pages).step_by(HUGE_PAGES as usize).take(64).collect();
        tried.extend([pages / 2, pages - 1]);
        tried.sort_unstable();
        tried.dedup();
        for &page in &tried {
            self.store_what_is_there(page);
            found.clear();
            self.scan(page..page + 1, true, &mut found)?;
            if found != [page..page + 1] {
                let text = format!("a store to page {page} of the mapping was not seen");
                return Ok(Err(refused(text)));
            }
        }
        found.clear();
        self.scan(0..pages, true, &mut found)?;
        Ok(Ok(()))
    }

    fn store_what_is_there(&self, page: u64) {
        // SAFETY: the byte is mapped and aligned, and other threads access it, if at all, by atomics too.
        let byte = unsafe { AtomicU8::from_ptr(self.span.page(page)) };
        let value = byte.load(Ordering::Relaxed);
        // Unlike an addition of nothing, no compiler takes this for a load.
        let _ = byte.compare_exchange(value, value, Ordering::SeqCst, Ordering::Relaxed);
    }

    fn hot(&self) -> MutexGuard<'_, Vec<Hot>> {
        self.hot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scan(&self, pages: Range<u64>, take: bool, found: &mut Vec<Range<u64>>) -> io::Result<()> {
        let first = found.len();
        let mut hot = self.hot();
        let mut start = pages.start;
        for hot in hot.iter_mut().filter(|hot| pages.contains(&hot.page)) {
            self.scan_in_place(start..hot.page, take, first, found)?;
            if !hot.is_taken {
                push(found, first, hot.page..hot.page + 1);
            }
            hot.is_taken |= take;
            start = hot.page + 1;
        }
        self.scan_in_place(start..pages.end, take, first, found)
    }

    fn scan_in_place(
        &self,
        pages: Range<u64>,
        take: bool,
        first: usize,
        found: &mut Vec<Range<u64>>,
    ) -> io::Result<()> {
        let base = self.span.addresses().start;
        let addresses = self.span.addresses_of(&pages);
        self.pagemap.written(addresses, base, take, first, found)
    }

    /// Moves these pages out.
    fn move_out(&self, pages: &Range<u64>) -> io::Result<()> {
        let mut hot = self.hot();
        let overlaps = hot.iter().any(|hot| pages.contains(&hot.page));
        if overlaps || self.region.holds_any(pages) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        if hot.len() as u64 + (pages.end - pages.start) > HELD_MAX as u64 {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        for page in pages.clone() {
            let address = self.span.addresses_of(&(page..page + 1)).start;
            // SAFETY: a page of the span, which is registered; its events are read.
            match unsafe { MovedPage::out(&self.userfault, address) } {
                Ok(moved) => hot.push(Hot {
                    page,
                    moved,
                    is_taken: false,
                }),
                Err(error) => {
                    self.move_back(&mut hot, &(pages.start..page));
                    return Err(error);
                }
            }
        }
        hot.sort_by_key(|hot| hot.page);
        Ok(())
    }

    fn move_back(&self, hot: &mut Vec<Hot>, pages: &Range<u64>) {
        for hot in hot.extract_if(.., |hot| pages.contains(&hot.page)) {
            hot.moved.back(&self.userfault, &self.pagemap, hot.is_taken);
        }
    }

    /// Of what held or moved pages cost.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.region.counts();
        counts.waited += self.events.as_ref().map_or(0, Events::waited);
        counts
    }

    /// Whether system calls wait for pages that are held as hot ones.
    #[cfg(test)]
    pub(crate) fn holds_system_calls(&self) -> bool {
        self.events.is_some()
    }
}

impl Tracker for AsyncTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::AsyncWriteProtect
    }

    fn find_written(
        &self,
        pages: Range<u64>,
        takes: bool,
        written: &mut Vec<Range<u64>>,
    ) -> Result<Coverage> {
        Ok(match self.scan(pages, takes, written) {
            Ok(()) => Coverage::Complete,
            // Part of the mapping is not what it was: unmapped, or mapped anew.
            Err(_) => Coverage::MayHaveMissed(Missed::TrackerFailed),
        })
    }

    fn hold(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>> {
        let hot = self.hot();
        if hot.iter().any(|hot| pages.contains(&hot.page)) {
            return Err(refused(format!("pages {pages:?} are held already")).into());
        }
        super::fault::hold(&self.region, &pages, self.kind())
    }

    fn hold_hot(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>> {
        if self.events.is_none() {
            return self.hold(pages);
        }
        let signals = SignalsBlocked::new();
        self.move_out(&pages)
            .map_err(|error| refused(format!("pages {pages:?} could not be held: {error}")))?;
        Ok(Some(Hold::new(move || {
            self.move_back(&mut self.hot(), &pages);
            drop(signals);
        })))
    }
}
