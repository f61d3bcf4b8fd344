//! The tracker of asynchronous write protection: userfaultfd and PAGEMAP_SCAN over a mapping of this process.
#![allow(
    unsafe_code,
    reason = "the tracker tries itself with stores of its own"
)]

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use super::guard::{Counts, Mode, Registered};
use super::pagemap::Pagemap;
use super::span::Span;
use super::userfault::Userfault;
use super::{Coverage, Hold, Missed, Tracker};
use crate::error::{ErrorKind, Result};
use crate::options::TrackerKind;

/// Bytes that the kernel may map by one entry, and protect at once.
const HUGE_PAGES: u64 = 512;

/// Sees stores by threads, and by system calls through the mapping.
#[derive(Debug)]
pub(crate) struct AsyncTracker {
    mapping: Span,
    pagemap: Pagemap,
    region: Registered,
    /// Protection ends with it.
    _userfault: Userfault,
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
    pub(crate) fn new(mapping: Span) -> Result<AsyncTracker> {
        let step = |what: &'static str| move |error| refused(format!("{what}: {error}"));
        // A store to a huge page of a DAX file makes all of it writable and leaves the mark of protection on it (Linux
        // 6.18, wp_huge_pmd and insert_pfn_pmd): later stores would go unseen. Refused where there are none anyway.
        let _ = mapping.advise(libc::MADV_NOHUGEPAGE);
        if mapping.is_dax() {
            // A mark where no page is yet stands in the way of the DAX fault handler, which expects nothing there.
            mapping
                .advise(libc::MADV_POPULATE_READ)
                .map_err(step("madvise(MADV_POPULATE_READ)"))?;
        }
        let userfault = Userfault::register(&mapping)
            .map_err(step("userfaultfd with asynchronous write protection"))?;
        let pagemap = Pagemap::of_this_process().map_err(step("/proc/self/pagemap"))?;
        let region = Registered::new(mapping, Mode::Holding).map_err(step("SIGSEGV"))?;
        let tracker = AsyncTracker {
            mapping,
            pagemap,
            region,
            _userfault: userfault,
        };
        tracker.try_itself().map_err(step("PAGEMAP_SCAN"))??;
        Ok(tracker)
    }

    /// Protects all pages, stores to some, and looks for these.
    fn try_itself(&self) -> std::io::Result<Result<(), ErrorKind>> {
        let pages = self.mapping.pages();
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
        let byte = unsafe { AtomicU8::from_ptr(self.mapping.page(page)) };
        let value = byte.load(Ordering::Relaxed);
        // Unlike an addition of nothing, no compiler takes this for a load.
        let _ = byte.compare_exchange(value, value, Ordering::SeqCst, Ordering::Relaxed);
    }

    fn scan(
        &self,
        pages: Range<u64>,
        take: bool,
        found: &mut Vec<Range<u64>>,
    ) -> std::io::Result<()> {
        let base = self.mapping.addresses().start;
        let addresses = self.mapping.addresses_of(&pages);
        self.pagemap.written(addresses, base, take, found)
    }

    fn look(&self, pages: Range<u64>, take: bool, found: &mut Vec<Range<u64>>) -> Result<Coverage> {
        Ok(match self.scan(pages, take, found) {
            Ok(()) => Coverage::Complete,
            // Part of the mapping is not what it was: unmapped, or mapped anew.
            Err(_) => Coverage::MayHaveMissed(Missed::TrackerFailed),
        })
    }

    pub(crate) fn counts(&self) -> Counts {
        self.region.counts()
    }
}

impl Tracker for AsyncTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::AsyncWriteProtect
    }

    fn take_written(&self, pages: Range<u64>, written: &mut Vec<Range<u64>>) -> Result<Coverage> {
        self.look(pages, true, written)
    }

    fn peek_written(&self, pages: Range<u64>, written: &mut Vec<Range<u64>>) -> Result<Coverage> {
        self.look(pages, false, written)
    }

    fn hold(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>> {
        super::fault::hold(&self.region, &pages, self.kind())
    }
}
