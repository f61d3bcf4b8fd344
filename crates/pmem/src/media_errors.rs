//! Bad pages of the medium: an access to one raises SIGBUS, which would kill the process.
//!
//! One handler for the process notes the offset of the bad page with the region, puts an anonymous
//! page over it, and lets the access go on. From then on the region's fences fail, until its owner has
//! acknowledged the page, and readers ask before they trust what they read: after they have read it, when
//! a zero that was put there has been noted for certain. Faults elsewhere go to the handler that was
//! there before.

#![allow(
    unsafe_code,
    reason = "signal handlers and mappings are the system's own interface"
)]

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use crate::mutants::{Mutant, mutated};
use crate::{GIANT_PAGE_BYTES, HUGE_PAGE_BYTES, PAGE_BYTES};

#[cfg(test)]
mod tests;

/// Where a test may look between two steps of the handler.
#[inline]
fn pause_for_test() {
    #[cfg(test)]
    tests::pause();
}

/// Regions mapped at once; a pool has one a member.
const REGIONS_MAX: usize = 1024;

/// Bad pages named one by one; with more the whole region counts as bad.
const PAGES_MAX: usize = 64;

/// The count where pages were lost that have no name; far above what named ones add up to.
const ALL_LOST: usize = usize::MAX / 2;

/// The bad pages of one region. The handler writes it, so it is atomics only.
#[derive(Debug)]
pub(crate) struct MediaErrors {
    /// Zero if none is bad; at least [`ALL_LOST`] if some have no name.
    count: AtomicUsize,
    /// Byte offset of the page plus one, each once; zero is free.
    pages: [AtomicU64; PAGES_MAX],
    /// Of these, those that the owner of the region knows of, a bit each.
    acknowledged: AtomicU64,
}

const _: () = assert!(
    PAGES_MAX == u64::BITS as usize,
    "a bit for each page that has a name"
);

impl MediaErrors {
    fn new() -> MediaErrors {
        MediaErrors {
            count: AtomicUsize::new(0),
            pages: std::array::from_fn(|_| AtomicU64::new(0)),
            acknowledged: AtomicU64::new(0),
        }
    }

    /// Whether any page is bad; one load.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Offsets of the bad pages, ascending.
    pub(crate) fn pages(&self) -> Vec<u64> {
        let mut offsets: Vec<u64> = self
            .pages
            .iter()
            .filter_map(|page| page.load(Ordering::Acquire).checked_sub(1))
            .collect();
        offsets.sort_unstable();
        offsets
    }

    /// Offsets of those that the owner has not acknowledged, ascending; `None` if pages are bad that have no name.
    pub(crate) fn unacknowledged(&self) -> Option<Vec<u64>> {
        if self.count.load(Ordering::Acquire) >= ALL_LOST {
            return None;
        }
        let known = self.acknowledged.load(Ordering::Acquire);
        let is_new = |at: &usize| known >> at & 1 == 0;
        let mut offsets: Vec<u64> = (0..PAGES_MAX)
            .filter(is_new)
            .filter_map(|at| self.pages[at].load(Ordering::Acquire).checked_sub(1))
            .collect();
        offsets.sort_unstable();
        Some(offsets)
    }

    /// Notes that the owner knows of these.
    pub(crate) fn acknowledge(&self, offsets: &[u64]) {
        for (at, page) in self.pages.iter().enumerate() {
            let named = page.load(Ordering::Acquire).checked_sub(1);
            if named.is_some_and(|offset| offsets.contains(&offset)) {
                // Release: a thread that is told nothing of the page any more sees what the owner noted of it.
                self.acknowledged.fetch_or(1 << at, Ordering::AcqRel);
            }
        }
    }

    /// Whether a bad page overlaps the bytes. With more bad pages than can be named: yes.
    pub(crate) fn overlap(&self, offset: u64, len: usize) -> bool {
        if self.count.load(Ordering::Acquire) >= ALL_LOST {
            return true;
        }
        let end = offset + len as u64;
        self.pages()
            .iter()
            .any(|page| *page < end && offset < *page + PAGE_BYTES as u64)
    }

    /// The whole region is lost to every thread that still has it.
    pub(crate) fn lose_all(&self) {
        // Others may be counting named pages: it never sinks below.
        self.count.fetch_max(ALL_LOST, Ordering::AcqRel);
    }

    /// Called by the handler: nothing but atomics. When it returns, a thread that asks for the page learns
    /// of it. Threads may meet one page at once, which takes one name, and several pages.
    fn record(&self, offset: u64, between: &impl Fn()) {
        let name = offset + 1;
        for page in &self.pages {
            // Names are taken from the front, so behind a free place there is none.
            let before = page.compare_exchange(0, name, Ordering::AcqRel, Ordering::Acquire);
            if before.is_ok() {
                between();
                self.count.fetch_add(1, Ordering::AcqRel);
                between();
                return;
            }
            if before == Err(name) {
                // The thread that named it may not have counted it yet.
                self.count.fetch_max(1, Ordering::AcqRel);
                return;
            }
        }
        self.lose_all();
    }

    /// Records bad pages and then has `cover` put zeroes in their place. Names, then their count, then
    /// the zeroes: another thread that reads the zeroes asks next whether they are a loss, and must not
    /// hear that nothing is. Others may look `between` the steps.
    pub(crate) fn lose(
        &self,
        offsets: impl Iterator<Item = u64> + Clone,
        cover: impl Fn() -> bool,
        between: impl Fn(),
    ) -> bool {
        let is_late = mutated(Mutant::LostPageRecordedLate);
        if is_late {
            cover();
            between();
        }
        offsets.for_each(|offset| self.record(offset, &between));
        // Orders what was recorded before the change of the mapping, which other threads see without
        // any word of this one.
        fence(Ordering::SeqCst);
        let is_covered = is_late || cover();
        between();
        is_covered
    }
}

/// One mapped region as the handler sees it. The errors are what makes the place taken, and are
/// set last and cleared first.
struct Place {
    start: AtomicUsize,
    len: AtomicUsize,
    errors: AtomicPtr<MediaErrors>,
}

static PLACES: [Place; REGIONS_MAX] = [const {
    Place {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        errors: AtomicPtr::new(null_mut()),
    }
}; REGIONS_MAX];

/// Serializes the threads that look for a free place; the handler never takes it.
static PLACES_LOCK: Mutex<()> = Mutex::new(());

/// Keeps a mapping known to the handler. Dropped before the mapping goes away.
#[derive(Debug)]
pub(crate) struct Guard {
    /// None of memory whose accesses raise no signals.
    place: Option<usize>,
    errors: Box<MediaErrors>,
}

impl Guard {
    /// `None` when too many regions are mapped.
    pub(crate) fn new(start: *mut u8, len: usize) -> Option<Guard> {
        install_handler();
        let errors = Box::new(MediaErrors::new());
        let _lock = PLACES_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let place = PLACES
            .iter()
            .position(|place| place.errors.load(Ordering::Acquire).is_null())?;
        PLACES[place].start.store(start.addr(), Ordering::Relaxed);
        PLACES[place].len.store(len, Ordering::Relaxed);
        let shared = std::ptr::from_ref(&*errors).cast_mut();
        PLACES[place].errors.store(shared, Ordering::Release);
        let place = Some(place);
        Some(Guard { place, errors })
    }

    /// For a model, which plays the handler itself, and for memory that is on no medium.
    pub(crate) fn without_signals() -> Guard {
        Guard {
            place: None,
            errors: Box::new(MediaErrors::new()),
        }
    }

    pub(crate) fn errors(&self) -> &MediaErrors {
        &self.errors
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The handler reads the errors only for a fault inside the region, and no thread can be
        // inside a region that is being dropped.
        if let Some(place) = self.place {
            PLACES[place].errors.store(null_mut(), Ordering::Release);
        }
    }
}

static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

fn install_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an all-zero sigaction is valid; both pointers are to locals.
        unsafe {
            let mut previous: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGBUS, null(), &mut previous);
            let _ = PREVIOUS.set(previous);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            let result = libc::sigaction(libc::SIGBUS, &action, null_mut());
            IS_INSTALLED.store(result == 0, Ordering::Release);
        }
        assert!(
            IS_INSTALLED.load(Ordering::Acquire),
            "SIGBUS is a signal that can be handled"
        );
    });
}

extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; a SIGBUS carries an address.
    let address = unsafe { (*info).si_addr() }.addr();
    // SAFETY: the thread's own errno, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    let is_handled = PLACES.iter().any(|place| cover(place, address));
    // SAFETY: the thread's own errno, put back as the interrupted code left it.
    unsafe { *libc::__errno_location() = errno };
    if !is_handled {
        chain(signal, info, context);
    }
}

/// Covers the bad page with an anonymous one if the address lies in this region.
fn cover(place: &Place, address: usize) -> bool {
    let errors = place.errors.load(Ordering::Acquire);
    if errors.is_null() {
        return false;
    }
    let start = place.start.load(Ordering::Relaxed);
    let len = place.len.load(Ordering::Relaxed);
    if address < start || address - start >= len {
        return false;
    }
    // SAFETY: the region is alive: this thread is in the middle of an access to it.
    let errors = unsafe { &*errors };
    // A mapping of huge pages, and a DAX device's, splits at these only.
    for page_bytes in [PAGE_BYTES, HUGE_PAGE_BYTES, GIANT_PAGE_BYTES] {
        let page = address & !(page_bytes - 1);
        let is_inside =
            page >= start && page + page_bytes <= start + len.next_multiple_of(PAGE_BYTES);
        if !is_inside {
            continue;
        }
        let offsets = (0..page_bytes).step_by(PAGE_BYTES);
        let offsets = offsets.map(|offset| (page - start + offset) as u64);
        let cover = || map_anonymous(page, page_bytes);
        if errors.lose(offsets, cover, pause_for_test) {
            return true;
        }
    }
    false
}

fn map_anonymous(page: usize, len: usize) -> bool {
    // SAFETY: replaces pages of a region of ours, whose bytes are lost anyway. mmap is a plain
    // system call, so a signal handler may use it.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::with_exposed_provenance_mut(page),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            // No room is set aside: of a huge page hardly anything is touched again.
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    mapped != libc::MAP_FAILED
}

/// Hands a fault that is not ours to the handler that was installed before.
fn chain(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let handler = PREVIOUS
        .get()
        .map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // The access is repeated after the return, and then the default action takes place.
        // SAFETY: an all-zero sigaction means the default action.
        unsafe {
            let action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &action, null_mut());
        }
        return;
    }
    let takes_info = PREVIOUS
        .get()
        .is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0);
    // SAFETY: the previous handler, called the way its flags say.
    unsafe {
        if takes_info {
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(i32) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}
