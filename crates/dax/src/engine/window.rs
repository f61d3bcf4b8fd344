//! How long pages wait until a pass has covered them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::report::Window;

/// Steps of a power of two: bounds are 1/16 apart.
const STEPS: u64 = 16;
const BUCKETS: usize = 64 * STEPS as usize;

/// A page that was found written and is not covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// No store to it was earlier.
    pub since: Instant,
    /// Passes that found it stored to again.
    pub skips: u32,
}

/// Pages that wait, and how long others did.
#[derive(Debug)]
pub(super) struct Waits {
    waiting: BTreeMap<u64, Waiting>,
    buckets: Vec<u64>,
    pages: u64,
    max_ns: u64,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            waiting: BTreeMap::new(),
            buckets: vec![0; BUCKETS],
            pages: 0,
            max_ns: 0,
        }
    }
}

impl Waits {
    /// A page that was found written, not stored to before `since`, waits.
    pub fn found(&mut self, page: u64, since: Instant) {
        let fresh = Waiting { since, skips: 0 };
        self.waiting.entry(page).or_insert(fresh);
    }

    /// A pass left it out.
    pub fn skipped(&mut self, page: u64) {
        if let Some(waiting) = self.waiting.get_mut(&page) {
            waiting.skips += 1;
        }
    }

    /// A pass has covered it.
    pub fn covered(&mut self, page: u64, now: Instant) {
        let Some(waiting) = self.waiting.remove(&page) else {
            return;
        };
        let wait = ns(now.saturating_duration_since(waiting.since));
        self.buckets[bucket_of(wait)] += 1;
        self.pages += 1;
        self.max_ns = self.max_ns.max(wait);
    }

    /// Pages of the range that wait, each with the passes that left it out.
    pub fn waiting(&self, pages: &Range<u64>) -> impl Iterator<Item = (u64, u32)> {
        let range = self.waiting.range(pages.clone());
        range.map(|(&page, waiting)| (page, waiting.skips))
    }

    pub fn is_waiting(&self, page: u64) -> bool {
        self.waiting.contains_key(&page)
    }

    pub fn report(&self, now: Instant) -> Window {
        let oldest = self.waiting.values().map(|waiting| waiting.since).min();
        Window {
            pages: self.pages,
            p50_ns: self.at_most(self.pages.div_ceil(2)),
            p99_ns: self.at_most((self.pages * 99).div_ceil(100)),
            max_ns: self.max_ns,
            oldest_ns: oldest.map_or(0, |since| ns(now.saturating_duration_since(since))),
            waiting_pages: self.waiting.len() as u64,
        }
    }

    /// What so many pages did not wait longer than.
    fn at_most(&self, pages: u64) -> u64 {
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= pages {
                return end_of(bucket).min(self.max_ns);
            }
        }
        0
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn bucket_of(ns: u64) -> usize {
    let power = u64::from(ns.max(STEPS).ilog2()) - u64::from(STEPS.ilog2());
    (power * STEPS + (ns >> power)) as usize
}

/// The largest value of a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let power = bucket / STEPS - 1;
    let within = bucket - power * STEPS;
    (((u128::from(within) + 1) << power) - 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_a_sixteenth_wide() {
        let mut before = 0;
        for shift in 0..64 {
            for ns in [
                1u64 << shift,
                (1 << shift) + (1 << shift) / 3,
                (1 << shift) - 1,
            ] {
                let end = end_of(bucket_of(ns));
                assert!(ns <= end && end - ns <= ns / STEPS, "{ns} {end}");
                assert!(bucket_of(ns) < BUCKETS);
            }
            assert!(bucket_of(1 << shift) >= before);
            before = bucket_of(1 << shift);
        }
    }

    #[test]
    fn a_page_waits_from_its_first_store_until_it_is_covered() {
        let mut waits = Waits::default();
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        waits.found(3, start);
        waits.found(3, later(5));
        waits.found(9, later(5));
        waits.skipped(3);
        assert_eq!(waits.waiting(&(0..9)).collect::<Vec<_>>(), [(3, 1)]);
        waits.covered(3, later(8));
        let report = waits.report(later(9));
        assert_eq!((report.pages, report.max_ns), (1, 8_000_000));
        assert_eq!((report.p50_ns, report.oldest_ns), (8_000_000, 4_000_000));
        assert_eq!(report.waiting_pages, 1);
        assert!(waits.is_waiting(9) && !waits.is_waiting(3));
    }
}
