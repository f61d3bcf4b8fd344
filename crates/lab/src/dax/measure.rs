//! One measurement: a region, a program that stores into it, and what the region says afterwards.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay_dax::{CreateOptions, DaxPool, DaxRegion, ErrorKind, OpenOptions, TrackerKind};
use forebay_harness::stores::{PAGE_WORDS, PacedStores, store_without_rest};
use forebay_harness::temporary_folder;
use serde::Serialize;

use super::{ASYNC, DaxScope};

const NAME: &str = "region";
/// Pages that are stored to without a pause.
const HOT_PAGES: usize = 4;

/// What one tracker came to at one period.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowRow {
    /// The design of redundancy.
    pub design: &'static str,
    /// How written pages were found.
    pub tracker: String,
    /// From one pass to the next.
    pub period_s: f64,
    /// Pages whose window ended.
    pub pages: u64,
    /// Half of them waited no longer.
    pub p50_ns: u64,
    /// 99 of 100 waited no longer.
    pub p99_ns: u64,
    /// None waited longer.
    pub max_ns: u64,
    /// How long the oldest had waited in the end that still did.
    pub oldest_ns: u64,
    /// How many still did.
    pub waiting_pages: u64,
    /// Passes that ended.
    pub passes: u64,
    /// Of these, over every page.
    pub compared_passes: u64,
    /// Times that a pass left a page to the next, as it was stored to again.
    pub skipped_pages: u64,
    /// Pages whose writers were held.
    pub held_pages: u64,
    /// Cache lines written, of all files.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
}

impl WindowRow {
    /// The longest of all windows, those that had not ended included.
    #[must_use]
    pub fn longest_ns(&self) -> u64 {
        self.max_ns.max(self.oldest_ns)
    }
}

/// Why there is no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotMeasured {
    /// This machine has not got the tracker.
    NoTracker(String),
    /// It was called off.
    CalledOff,
    /// Something failed.
    Failed(String),
}

impl<E: std::fmt::Display> From<E> for NotMeasured {
    fn from(error: E) -> NotMeasured {
        NotMeasured::Failed(error.to_string())
    }
}

/// Measures one tracker at one period, over files in `directory`, of which nothing stays.
///
/// # Errors
/// The tracker is not to be had; it was called off; the region's.
pub fn measure(
    directory: &Path,
    scope: &DaxScope,
    (tracker, period): (TrackerKind, Duration),
    is_called_off: &AtomicBool,
) -> Result<WindowRow, NotMeasured> {
    let folder = temporary_folder(directory)?;
    let members = ["a", "b"].map(|name| folder.path().join(name));
    let pool = DaxPool::new(&members, [0x6c; 16]);
    DaxRegion::create(&pool, NAME, &CreateOptions::new(scope.size_bytes))?;
    let options = OpenOptions::default().period(period).tracker(tracker);
    let region = match DaxRegion::open(&pool, NAME, &options) {
        Err(error) if matches!(error.kind(), ErrorKind::Tracker { .. }) => {
            return Err(NotMeasured::NoTracker(error.to_string()));
        }
        region => region?,
    };
    let before = region.counters();
    store(&region, scope, period * scope.periods_each, is_called_off)?;
    let counted = region.counters() - before;
    let status = region.status();
    region.close()?;
    let (window, counts) = (status.window, status.counts);
    Ok(WindowRow {
        design: ASYNC,
        tracker: status.tracker.to_string(),
        period_s: period.as_secs_f64(),
        pages: window.pages,
        p50_ns: window.p50_ns,
        p99_ns: window.p99_ns,
        max_ns: window.max_ns,
        oldest_ns: window.oldest_ns,
        waiting_pages: window.waiting_pages,
        passes: counts.passes,
        compared_passes: counts.compared,
        skipped_pages: counts.skipped_pages,
        held_pages: counts.held_pages,
        lines: counted.lines(),
        fences: counted.fences,
    })
}

/// The program.
fn store(
    region: &DaxRegion,
    scope: &DaxScope,
    length: Duration,
    is_called_off: &AtomicBool,
) -> Result<(), NotMeasured> {
    let memory = region.words();
    let pages = memory.len() / PAGE_WORDS;
    if pages <= HOT_PAGES {
        return Err(format!("a region of {pages} pages is too small").into());
    }
    let (paced, hot) = memory.split_at(memory.len() - HOT_PAGES * PAGE_WORDS);
    let is_stopped = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| store_without_rest(hot, HOT_PAGES, &is_stopped));
        PacedStores::new(paced, scope.pages_s, (0, 1))
            .store_until(|lasted| lasted >= length || is_called_off.load(Ordering::Relaxed));
        is_stopped.store(true, Ordering::Relaxed);
    });
    match is_called_off.load(Ordering::Relaxed) {
        true => Err(NotMeasured::CalledOff),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> DaxScope {
        DaxScope {
            size_bytes: 1 << 20,
            ..DaxScope::quick()
        }
    }

    #[test]
    fn a_row_counts_what_was_covered_and_nothing_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let cell = (TrackerKind::Compare, Duration::from_millis(100));
        let row = measure(folder.path(), &scope(), cell, &AtomicBool::new(false)).expect("a row");
        assert_eq!((row.design, row.tracker.as_str()), (ASYNC, "compare"));
        assert_eq!(row.compared_passes, row.passes);
        assert!(row.p50_ns <= row.p99_ns && row.p99_ns <= row.max_ns);
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 0);
    }

    #[test]
    fn what_is_not_to_be_had_or_is_called_off_is_no_row_and_nothing_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let period = Duration::from_millis(100);
        let measured = |tracker, is_called_off| {
            let is_called_off = AtomicBool::new(is_called_off);
            measure(folder.path(), &scope(), (tracker, period), &is_called_off)
        };
        let refused = measured(TrackerKind::SoftDirty, false);
        assert!(
            matches!(refused, Err(NotMeasured::NoTracker(_))),
            "{refused:?}"
        );
        assert_eq!(
            measured(TrackerKind::Compare, true),
            Err(NotMeasured::CalledOff)
        );
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 0);
    }
}
