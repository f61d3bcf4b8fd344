//! The numbers that have a bar: taken from the measurements under the names to which the bars refer.

use forebay_harness::{Bar, Row, Table, bars};

use crate::place::Place;
use crate::results::Results;

/// The numbers; those that were not measured are left out.
pub fn rows(results: &Results) -> Vec<Row> {
    let median = |name: &str| results.median(name, Place::Preload);
    let past_pool = |place| results.ratio("append_past_pool", place, Place::DiskUnsynced);
    let scaling = |pattern: &str, place| {
        let of = |threads| format!("{pattern}_256b_threads{threads}");
        results.ratio_between(&of(2), &of(1), place)
    };
    let found = [
        ("append_256b_ns", median("append_256b_threads1_p50"), "ns"),
        (
            "private_files_2threads_scaling",
            scaling("append", Place::Preload),
            "x",
        ),
        (
            "uniform_256b_2threads_scaling",
            scaling("uniform", Place::Preload),
            "x",
        ),
        (
            "zipf_256b_2threads_scaling",
            scaling("zipf", Place::Preload),
            "x",
        ),
        // What two threads can do that do nothing but copy.
        ("raw_2threads_scaling", scaling("append", Place::Raw), "x"),
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

/// What is asked for, by name: the least, or the most, that it should be.
const BARS: &[(&str, Bar)] = &[
    ("redis_set_preload_vs_tmpfs", Bar::AtLeast(0.95)),
    ("redis_set_mount_vs_tmpfs", Bar::AtLeast(0.5)),
    ("redis_set_preload_vs_disk", Bar::Reported),
    ("rocksdb_fillrandom_preload_vs_tmpfs", Bar::AtLeast(0.85)),
    ("rocksdb_fillrandom_mount_vs_tmpfs", Bar::Reported),
    ("append_256b_ns", Bar::AtMost(1200.0)),
    ("append_256b_lines", Bar::AtMost(8.0)),
    ("append_256b_fences", Bar::AtMost(1.1)),
    ("append_past_pool_vs_disk", Bar::AtLeast(0.9)),
    ("private_files_2threads_scaling", Bar::AtLeast(1.8)),
    ("uniform_256b_2threads_scaling", Bar::AtLeast(1.6)),
    ("zipf_256b_2threads_scaling", Bar::AtLeast(1.6)),
    ("raw_2threads_scaling", Bar::Reported),
    ("buffered_4k_mount_vs_passthrough", Bar::AtLeast(0.8)),
    ("fsx_operations", Bar::AtLeast(100_000.0)),
    ("posix_checks_failed", Bar::AtMost(0.0)),
    ("kill_rounds", Bar::AtLeast(100.0)),
    ("kill_losses", Bar::AtMost(0.0)),
];

fn row_of<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.name == name)
}

/// Each number that is asked for: the number, whether its bar is met, the bar.
pub fn table(rows: &[Row]) -> Table {
    let value = |name: &str| row_of(rows, name).and_then(|row| row.value);
    let remark = |(name, bar): &(&str, Bar)| {
        let words = format!("{} {bar}", bar.verdict(value(name)));
        words.trim_end().to_owned()
    };
    let row = |(name, _): &(&str, Bar)| ((*name).to_owned(), vec![value(name)]);
    Table {
        columns: ["name", "measured", "asked for"].map(String::from).into(),
        rows: BARS.iter().map(row).collect(),
        remarks: BARS.iter().map(remark).collect(),
    }
}

pub fn summary(rows: &[Row]) -> String {
    let line = |(name, bar): &(&str, Bar)| bars::line(name, row_of(rows, name), Some(*bar));
    BARS.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn numbers_are_compared_with_their_bars() {
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
        assert!(summary(&slow).contains("SHORT"));
        let table = table(&slow);
        let at = BARS.iter().position(|(name, _)| *name == "append_256b_ns");
        let at = at.expect("it has a bar");
        assert_eq!(table.rows[at].1, [Some(1300.0)]);
        assert_eq!(table.remarks[at], "SHORT ≤ 1\u{202f}200");
    }
}
