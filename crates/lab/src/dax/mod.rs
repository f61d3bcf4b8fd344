//! Mapped regions: how long stores go without protection, against the period, by tracker.
//!
//! A program stores into so many distinct pages a second of a fresh region, and a second thread stores into four
//! pages without a pause. The window is the region's own count: from the end of the scan before a page was found
//! written, and so from its first store at the latest, to the end of the pass that covered it.

mod measure;
mod report;

use std::time::Duration;

use forebay_dax::TrackerKind;

pub use measure::{NotMeasured, WindowRow, measure};
pub use report::DaxReport;

/// Designs of software redundancy that rows can be of: here sums and parity follow behind, in passes.
const ASYNC: &str = "async";

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct DaxScope {
    /// From one pass to the next: the places of the figure.
    pub periods: Vec<Duration>,
    /// Its series.
    pub trackers: Vec<TrackerKind>,
    /// Bytes of the region, of width 1.
    pub size_bytes: u64,
    /// Distinct pages stored to in a second.
    pub pages_s: u64,
    /// Periods that each measurement lasts.
    pub periods_each: u32,
    /// Fewer places, smaller sizes, short times.
    pub is_quick: bool,
}

impl DaxScope {
    /// All periods, on 256 MiB: some twelve minutes.
    #[must_use]
    pub fn full() -> DaxScope {
        DaxScope {
            periods: seconds(&[0.1, 0.3, 1.0, 3.0, 10.0, 30.0]),
            trackers: usable_trackers(),
            size_bytes: 256 << 20,
            pages_s: 10_000,
            periods_each: 5,
            is_quick: false,
        }
    }

    /// Three short ones, on 16 MiB.
    #[must_use]
    pub fn quick() -> DaxScope {
        DaxScope {
            periods: seconds(&[0.1, 0.2, 0.4]),
            trackers: usable_trackers(),
            size_bytes: 16 << 20,
            pages_s: 1000,
            periods_each: 5,
            is_quick: true,
        }
    }

    /// Every tracker at every period.
    pub fn cells(&self) -> impl Iterator<Item = (TrackerKind, Duration)> + '_ {
        let trackers = self.trackers.iter();
        trackers.flat_map(|&tracker| self.periods.iter().map(move |&period| (tracker, period)))
    }
}

fn seconds(periods: &[f64]) -> Vec<Duration> {
    let periods = periods.iter();
    periods
        .map(|&period_s| Duration::from_secs_f64(period_s))
        .collect()
}

/// Those that some kernel has: `soft-dirty` is refused everywhere, as it loses stores.
fn usable_trackers() -> Vec<TrackerKind> {
    let all = TrackerKind::ALL.into_iter();
    all.filter(|&tracker| tracker != TrackerKind::SoftDirty)
        .collect()
}
