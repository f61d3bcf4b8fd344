//! What a case runs with.

use std::time::Duration;

use forebay_harness::Result;
use indicatif::ProgressBar;

use crate::contest::{self, Contender, Outcome, Pace};
use crate::scratch::Scratch;

/// A slice that had a processor for less than this share of its time is no good measure of it.
const BUSY_SHARE: f64 = 0.95;

/// What a case runs with.
pub struct Bench {
    /// Where its files go.
    pub scratch: Scratch,
    /// Slices of the timed cases.
    pub pace: Pace,
    /// The least duration of the counting cases.
    pub count_for: Duration,
    /// Bytes of the pools, half of them for reads.
    pub pool_bytes: u64,
    /// How often things that cannot be sliced are repeated.
    pub repeats: usize,
    /// Shown while a case runs.
    pub progress: ProgressBar,
}

impl Bench {
    /// Says something above the progress bar.
    pub fn say(&self, text: &str) {
        self.progress.suspend(|| eprintln!("{text}"));
    }

    /// Runs the contenders that `prepare` makes for each thread, and says how fast each was, and where other
    /// processes had the processors, so that such rates are read with care.
    pub(super) fn contest<'a>(
        &self,
        what: &str,
        threads: usize,
        prepare: impl Fn(usize) -> Vec<Contender<'a>> + Sync,
    ) -> Result<Outcome> {
        self.contest_at(self.pace, what, threads, prepare)
    }

    /// The same in slices of its own.
    pub(super) fn contest_at<'a>(
        &self,
        pace: Pace,
        what: &str,
        threads: usize,
        prepare: impl Fn(usize) -> Vec<Contender<'a>> + Sync,
    ) -> Result<Outcome> {
        let outcome = contest::run(threads, pace, &self.progress, &prepare)?;
        for (name, rate) in outcome.medians() {
            let ns = 1e9 / rate;
            self.say(&format!("  {what}, {name}: {rate:.0}/s, {ns:.1} ns each"));
        }
        if outcome.processor_share < BUSY_SHARE {
            self.say(&format!(
                "  note: the machine is busy; slices had a processor for {:.0} % of their time",
                outcome.processor_share * 100.0
            ));
        }
        Ok(outcome)
    }
}
