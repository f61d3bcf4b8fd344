//! The numbers that have a bar: taken from the measurements under the names by which they are judged.

use forebay_report::{Row, digits};

use crate::place::Place;
use crate::results::Results;

/// The numbers; those that were not measured are left out.
pub fn rows(results: &Results) -> Vec<Row> {
    let median = |name: &str| results.metric(name)?.median(Place::Preload);
    let past_pool = |place| {
        results
            .metric("append_past_pool")?
            .ratio(place, Place::DiskUnsynced)
    };
    let scaling = results.ratio_between(
        "append_256b_threads2",
        "append_256b_threads1",
        Place::Preload,
    );
    let found = [
        ("append_256b_ns", median("append_256b_threads1_p50"), "ns"),
        ("private_files_2threads_scaling", scaling, "x"),
        ("append_past_pool_vs_disk", past_pool(Place::Preload), "x"),
        (
            "append_past_pool_mount_vs_disk",
            past_pool(Place::Mount),
            "x",
        ),
    ];
    let measured = found.into_iter().filter(|(_, value, _)| value.is_some());
    measured
        .map(|(name, value, unit)| Row::new(name, value, unit))
        .collect()
}

/// What is judged, by name: the least, or the most, that it should be.
const BARS: &[(&str, Bar)] = &[
    ("redis_set_preload_vs_tmpfs", Bar::AtLeast(0.95)),
    ("redis_set_mount_vs_tmpfs", Bar::AtLeast(0.5)),
    ("rocksdb_fillrandom_preload_vs_tmpfs", Bar::AtLeast(0.85)),
    ("append_256b_ns", Bar::AtMost(1200.0)),
    ("append_256b_lines", Bar::AtMost(8.0)),
    ("append_256b_fences", Bar::AtMost(1.1)),
    ("append_past_pool_vs_disk", Bar::AtLeast(0.9)),
    ("private_files_2threads_scaling", Bar::AtLeast(1.8)),
    ("buffered_4k_mount_vs_passthrough", Bar::AtLeast(0.8)),
    ("fsx_operations", Bar::AtLeast(100_000.0)),
    ("posix_checks_failed", Bar::AtMost(0.0)),
    ("kill_rounds", Bar::AtLeast(100.0)),
    ("kill_losses", Bar::AtMost(0.0)),
];

#[derive(Clone, Copy, Debug)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

/// Each number that has a bar: the number, then the bar.
pub fn judged(rows: &[Row]) -> Vec<(String, Vec<Option<f64>>)> {
    let judge = |(name, bar): &(&str, Bar)| {
        let value = rows.iter().find(|row| row.name == *name);
        let (sign, bar) = match bar {
            Bar::AtLeast(least) => ("at least", *least),
            Bar::AtMost(most) => ("at most", *most),
        };
        let value = value.and_then(|row| row.value);
        (format!("{name}, {sign}"), vec![value, Some(bar)])
    };
    BARS.iter().map(judge).collect()
}

/// A line for each number that has a bar.
pub fn summary(rows: &[Row]) -> String {
    let line = |(name, bar): &(&str, Bar)| {
        let row = rows.iter().find(|row| row.name == *name);
        let value = row.and_then(|row| row.value);
        let unit = row.map_or("", |row| row.unit.as_str());
        let (is_met, wanted) = match bar {
            Bar::AtLeast(least) => (value.is_some_and(|value| value >= *least), ("≥", least)),
            Bar::AtMost(most) => (value.is_some_and(|value| value <= *most), ("≤", most)),
        };
        let verdict = match (value, is_met) {
            (None, _) => "not measured",
            (_, true) => "met",
            (_, false) => "NOT MET",
        };
        let shown = value.map_or("–".into(), digits);
        let wanted = format!("{} {}", wanted.0, digits(*wanted.1));
        format!("{name:<38} {shown:>10} {unit:<12} {wanted:>10}  {verdict}\n")
    };
    BARS.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn numbers_are_judged_by_their_bars() {
        let mut results = Results::default();
        for (place, rate) in [(Place::Preload, 950.0), (Place::DiskUnsynced, 1000.0)] {
            results.add(place, 0, Outcome::rate("append_past_pool", rate, "MiB/s"));
        }
        let rows = rows(&results);
        assert_eq!(rows, [Row::new("append_past_pool_vs_disk", 0.95, "x")]);
        let text = summary(&rows);
        assert_eq!(text.lines().count(), BARS.len());
        assert_eq!(text.matches("  met").count(), 1, "{text}");
        assert_eq!(text.matches("not measured").count(), BARS.len() - 1);
        let slow = [Row::new("append_256b_ns", 1300.0, "ns")];
        assert!(summary(&slow).contains("NOT MET"));
    }
}
