//! The numbers of a run.

use std::sync::atomic::Ordering::SeqCst;

use forebay_harness::Row;

use crate::memory::{self, Sample};
use crate::tally::Tally;

fn row(name: impl Into<String>, value: f64, unit: &str) -> Row {
    Row::new(name, value, unit)
}

pub fn rows(tally: &Tally, samples: &[Sample], seed: u64) -> Vec<Row> {
    let faults = tally.faults();
    let life = memory::of_longest_life(samples);
    let largest = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or(0) as f64;
    let counted = |counter: &std::sync::atomic::AtomicU64| counter.load(SeqCst) as f64;
    let mut rows = vec![
        row("soak_ops", counted(&tally.operations), "requests"),
        row("soak_faults", faults.values().sum::<u64>() as f64, "faults"),
        row("soak_lost", counted(&tally.lost), "sectors"),
        row("soak_wrong", counted(&tally.wrong), "sectors"),
        row("soak_stalls_over_1s", counted(&tally.stalls), "requests"),
        Row::new(
            "rss_growth_bytes_per_hour",
            memory::growth_bytes_per_hour(life),
            "bytes/h",
        ),
        row("soak_errors_unexplained", counted(&tally.errors), "errors"),
        row(
            "soak_errors_explained",
            counted(&tally.errors_expected),
            "errors",
        ),
        row(
            "soak_broken_off_resolved",
            counted(&tally.resolved),
            "requests",
        ),
        row("soak_bytes", counted(&tally.bytes), "bytes"),
        row("soak_seconds", tally.elapsed_ns() as f64 / 1e9, "s"),
        row(
            "soak_slowest_request",
            counted(&tally.slowest_ns) / 1e6,
            "ms",
        ),
        row(
            "soak_without_processor",
            counted(&tally.starved_ns) / 1e9,
            "s",
        ),
        row(
            "soak_rss_watched",
            life.last().map_or(0.0, |last| last.at_s - life[0].at_s),
            "s",
        ),
        row(
            "soak_rss_last",
            samples.last().map_or(0.0, |last| last.rss_bytes),
            "bytes",
        ),
        row(
            "soak_descriptors_most",
            largest(|one| one.descriptors),
            "descriptors",
        ),
        row("soak_threads_most", largest(|one| one.threads), "threads"),
        row("soak_seed", seed as f64, ""),
    ];
    let named = faults.iter();
    rows.extend(
        named.map(|(name, count)| row(format!("soak_fault_{name}"), *count as f64, "faults")),
    );
    rows
}
