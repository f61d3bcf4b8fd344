//! The numbers of a run.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use forebay_harness::Row;

use crate::memory::{self, Sample};
use crate::tally::Tally;

pub fn rows(tally: &Tally, samples: &[Sample], seed: u64) -> Vec<Row> {
    let faults = tally.faults();
    let longest = memory::of_longest_generation(samples);
    let largest = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or(0) as f64;
    let counted = |counter: &AtomicU64| counter.load(SeqCst) as f64;
    let growth = memory::growth_bytes_per_hour(longest);
    let watched_s = longest
        .last()
        .map_or(0.0, |last| last.at_s - longest[0].at_s);
    let last_rss = samples.last().map_or(0.0, |last| last.rss_bytes);
    let slowest_ms = counted(&tally.slowest_ns) / 1e6;
    let starved_s = counted(&tally.starved_ns) / 1e9;
    let descriptors = largest(|one| one.descriptors);
    let row = |(name, value, unit): (&str, f64, &str)| Row::new(name, value, unit);
    let mut rows = [
        ("soak_ops", counted(&tally.operations), "requests"),
        ("soak_faults", faults.values().sum::<u64>() as f64, "faults"),
        ("soak_lost", counted(&tally.lost), "sectors"),
        ("soak_wrong", counted(&tally.wrong), "sectors"),
        ("soak_stalls_over_1s", counted(&tally.stalls), "requests"),
        ("soak_hangs_over_30s", counted(&tally.hangs), "requests"),
        ("soak_errors_unexplained", counted(&tally.errors), "errors"),
        (
            "soak_errors_explained",
            counted(&tally.errors_expected),
            "errors",
        ),
        (
            "soak_broken_off_resolved",
            counted(&tally.resolved),
            "requests",
        ),
        ("soak_bytes", counted(&tally.bytes), "bytes"),
        ("soak_seconds", tally.elapsed_ns() as f64 / 1e9, "s"),
        ("soak_slowest_request", slowest_ms, "ms"),
        ("soak_without_processor", starved_s, "s"),
        ("soak_rss_watched", watched_s, "s"),
        ("soak_rss_last", last_rss, "bytes"),
        ("soak_descriptors_most", descriptors, "descriptors"),
        ("soak_threads_most", largest(|one| one.threads), "threads"),
        ("soak_seed", seed as f64, ""),
    ]
    .map(row)
    .to_vec();
    rows.push(Row::new("rss_growth_bytes_per_hour", growth, "bytes/h"));
    for (name, count) in faults {
        rows.push(Row::new(
            format!("soak_fault_{name}"),
            count as f64,
            "faults",
        ));
    }
    rows
}
