//! The numbers that have a bar. A comparison with the disk is judged where the disk is slow enough for a cache to matter: one
//! that answers a sync sooner than the kernel answers a request through FUSE has nothing to gain.

use forebay_harness::{Bar, Row, Table, bars};

/// A write of 4 KiB and its sync, from which on a disk is one to be compared with.
const DISK_NS_MIN: f64 = 300_000.0;
/// The number that says how fast it is.
pub const DISK: &str = "disk_fsync_4k_disk";

/// What is asked for, by name.
const BARS: &[(&str, Bar)] = &[
    ("etcd_1client_mount_vs_disk", Bar::AtLeast(1.6)),
    ("etcd_16clients_mount_vs_disk", Bar::Reported),
    ("gluster_mail_r2_mount_vs_disk", Bar::AtLeast(1.3)),
    ("gluster_mail_r2_serve_vs_disk", Bar::AtLeast(1.2)),
    ("nats_1client_mount_vs_disk", Bar::AtLeast(2.4)),
    ("hdfs_hsync_r3_mount_vs_disk", Bar::AtLeast(1.4)),
    ("teragen_r3_mount_vs_disk", Bar::AtLeast(0.9)),
    (DISK, Bar::Reported),
    ("cluster_kill_rounds", Bar::AtLeast(20.0)),
    ("cluster_clean_pools", Bar::AtMost(0.0)),
    ("cluster_losses", Bar::AtMost(0.0)),
    ("cluster_failures", Bar::AtMost(0.0)),
];

const NOT_JUDGED: &str =
    "not judged: the disk answers a sync in less than 0.3 ms, or was not measured";

fn value_of(rows: &[Row], name: &str) -> Option<f64> {
    rows.iter().find(|row| row.name == name)?.value
}

/// Whether a number is one to be judged here.
fn is_judged(rows: &[Row], name: &str) -> bool {
    let is_slow = || value_of(rows, DISK).is_some_and(|latency_ns| latency_ns >= DISK_NS_MIN);
    !name.ends_with("_vs_disk") || is_slow()
}

/// What a number that has a bar comes to.
fn verdict(rows: &[Row], (name, bar): (&str, Bar)) -> String {
    let value = value_of(rows, name);
    match value.is_some() && !is_judged(rows, name) {
        true => format!("{NOT_JUDGED}; {bar}"),
        false => format!("{} {bar}", bar.verdict(value)),
    }
    .trim_end()
    .to_owned()
}

/// Each number that is asked for: the number, whether its bar is met, the bar.
pub fn table(rows: &[Row]) -> Table {
    let row = |(name, _): &(&str, Bar)| ((*name).to_owned(), vec![value_of(rows, name)]);
    Table {
        columns: ["name", "measured", "asked for"].map(String::from).into(),
        rows: BARS.iter().map(row).collect(),
        remarks: BARS.iter().map(|bar| verdict(rows, *bar)).collect(),
    }
}

/// The same in lines.
pub fn summary(rows: &[Row]) -> String {
    let line = |(name, bar): &(&str, Bar)| {
        let row = rows.iter().find(|row| row.name == *name);
        match is_judged(rows, name) || row.is_none() {
            true => bars::line(name, row, Some(*bar)),
            false => {
                let row = row.cloned().map(|row| row.with_note(Some(NOT_JUDGED)));
                bars::line(name, row.as_ref(), None)
            }
        }
    };
    BARS.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ratio: f64, disk_ns: Option<f64>) -> Vec<Row> {
        vec![
            Row::new("etcd_1client_mount_vs_disk", ratio, "x"),
            Row::new(DISK, disk_ns, "ns"),
            Row::new("cluster_losses", 1.0, "keys"),
        ]
    }

    fn told(rows: &[Row], name: &str) -> String {
        let table = table(rows);
        let at = table.rows.iter().position(|(known, _)| known == name);
        table.remarks[at.expect("it has a bar")].clone()
    }

    #[test]
    fn a_comparison_with_a_fast_disk_is_not_judged_and_a_loss_always_is() {
        let name = "etcd_1client_mount_vs_disk";
        assert_eq!(told(&rows(1.7, Some(430_000.0)), name), "met ≥ 1.60");
        assert_eq!(told(&rows(1.2, Some(430_000.0)), name), "SHORT ≥ 1.60");
        for disk_ns in [Some(70_000.0), None] {
            let rows = rows(1.2, disk_ns);
            assert!(told(&rows, name).starts_with("not judged"));
            assert_eq!(told(&rows, "cluster_losses"), "SHORT ≤ 0");
            let summary = summary(&rows);
            assert!(summary.contains("not judged"), "{summary}");
            assert_eq!(summary.lines().count(), BARS.len());
        }
        assert_eq!(told(&[], name), "not measured ≥ 1.60");
    }
}
