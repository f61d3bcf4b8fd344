//! The numbers that have a bar: taken from the measurements under the names to which the bars refer.

use forebay_harness::{Bar, Row};

use crate::judged::{Asked, DISK};
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
    let small_files = |name| results.ratio(name, Place::Mount, Place::Passthrough);
    let after_change = |name| results.ratio_between(name, "fsync_plain", Place::Mount);
    let beside_ssd = |name: &str| results.ratio(name, Place::SlowDiskMountSsd, Place::Disk);
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
        (
            "mount_create_50k_vs_passthrough",
            small_files("create_50k"),
            "x",
        ),
        (
            "mount_delete_50k_vs_passthrough",
            small_files("delete_50k"),
            "x",
        ),
        (
            "fsync_after_setxattr_vs_plain",
            after_change("fsync_after_setxattr"),
            "x",
        ),
        (
            "fsync_after_chmod_vs_plain",
            after_change("fsync_after_chmod"),
            "x",
        ),
        (
            "git_commit_run_vs_disk",
            results.ratio("git_commit", Place::Preload, Place::Disk),
            "x",
        ),
        (
            "pgbench_ssd_pool_slow_disk_vs_ssd",
            beside_ssd("postgres_pgbench"),
            "x",
        ),
        (
            "sqlite_ssd_pool_slow_disk_vs_ssd",
            beside_ssd("sqlite_wal"),
            "x",
        ),
    ];
    let measured = found.into_iter().filter(|(_, value, _)| value.is_some());
    measured
        .map(|(name, value, unit)| Row::new(name, value, unit))
        .collect()
}

/// What is asked for, by name: the least, or the most, that it should be.
pub const BARS: &[Asked] = &[
    ("redis_set_preload_vs_tmpfs", Bar::AtLeast(0.95)),
    ("redis_set_mount_vs_tmpfs", Bar::AtLeast(0.5)),
    ("redis_set_preload_vs_disk", Bar::Reported),
    ("rocksdb_fillrandom_preload_vs_tmpfs", Bar::AtLeast(0.85)),
    ("rocksdb_fillrandom_mount_vs_tmpfs", Bar::AtLeast(0.45)),
    ("sqlite_delete_mount_vs_disk", Bar::AtLeast(2.5)),
    ("sqlite_wal_mount_vs_disk", Bar::AtLeast(6.0)),
    ("append_256b_ns", Bar::AtMost(1200.0)),
    ("append_256b_lines", Bar::AtMost(8.0)),
    ("append_256b_fences", Bar::AtMost(1.1)),
    ("append_past_pool_vs_disk", Bar::AtLeast(0.9)),
    ("append_past_pool_mount_vs_disk", Bar::AtLeast(0.9)),
    ("private_files_2threads_scaling", Bar::AtLeast(1.8)),
    ("uniform_256b_2threads_scaling", Bar::AtLeast(1.6)),
    ("zipf_256b_2threads_scaling", Bar::AtLeast(1.6)),
    ("raw_2threads_scaling", Bar::Reported),
    ("buffered_4k_mount_vs_passthrough", Bar::AtLeast(0.8)),
    ("mount_create_50k_vs_passthrough", Bar::AtLeast(0.8)),
    ("mount_delete_50k_vs_passthrough", Bar::AtLeast(0.8)),
    ("fsync_after_setxattr_vs_plain", Bar::AtMost(1.3)),
    ("fsync_after_chmod_vs_plain", Bar::Reported),
    ("maildir_mount_vs_disk", Bar::AtLeast(3.0)),
    ("git_commit_mount_vs_disk", Bar::AtLeast(1.5)),
    ("git_commit_run_vs_disk", Bar::AtLeast(1.5)),
    ("rsync_fsync_mount_vs_disk", Bar::AtLeast(2.0)),
    (DISK, Bar::Reported),
    ("pgbench_ssd_pool_slow_disk_vs_ssd", Bar::AtLeast(0.8)),
    ("sqlite_ssd_pool_slow_disk_vs_ssd", Bar::AtLeast(0.8)),
    ("sync_4k_p50_slow_disk", Bar::Reported),
    ("fsx_operations", Bar::AtLeast(100_000.0)),
    ("posix_checks_failed", Bar::AtMost(0.0)),
    ("kill_rounds", Bar::AtLeast(100.0)),
    ("kill_losses", Bar::AtMost(0.0)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judged::{summary, table};
    use crate::outcome::Outcome;

    #[test]
    fn numbers_are_compared_with_their_bars() {
        let mut results = Results::default();
        for (place, rate) in [(Place::Preload, 950.0), (Place::DiskUnsynced, 1000.0)] {
            results.add(place, 0, Outcome::rate("append_past_pool", rate, "MiB/s"));
        }
        let mut rows = rows(&results);
        assert_eq!(rows, [Row::new("append_past_pool_vs_disk", 0.95, "x")]);
        rows.push(Row::new(DISK, 400_000.0, "ns"));
        let text = summary(BARS, &rows);
        assert_eq!(text.lines().count(), BARS.len());
        assert_eq!(text.matches("  met").count(), 1, "{text}");
        assert_eq!(text.matches("not measured").count(), BARS.len() - 2);
        for (place, rate) in [(Place::SlowDiskMountSsd, 900.0), (Place::Disk, 1000.0)] {
            for name in ["postgres_pgbench", "sqlite_wal"] {
                results.add(place, 0, Outcome::rate(name, rate, "transactions/s"));
            }
        }
        let text = summary(BARS, &super::rows(&results));
        for name in ["pgbench", "sqlite"] {
            let name = format!("{name}_ssd_pool_slow_disk_vs_ssd ");
            let line = text.lines().find(|line| line.starts_with(&name));
            assert!(line.is_some_and(|line| line.contains("0.90")), "{text}");
        }
        let slow = [Row::new("append_256b_ns", 1300.0, "ns")];
        assert!(summary(BARS, &slow).contains("SHORT"));
        let table = table(BARS, &slow);
        let at = BARS.iter().position(|(name, _)| *name == "append_256b_ns");
        let at = at.expect("it has a bar");
        assert_eq!(table.rows[at].1, [Some(1300.0)]);
        assert_eq!(table.remarks[at], "SHORT ≤ 1\u{202f}200");
    }
}
