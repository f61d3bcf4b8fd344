//! Numbers beside their bars. A comparison with the disk is judged where the disk is slow enough for a cache to matter: one
//! that answers a sync sooner than the kernel answers a request through FUSE has nothing to gain.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use forebay_harness::{Bar, Result, Row, Table, bars, median};

/// What is measured of the disk itself.
pub const DISK_NUMBER: &str = "disk_fsync_4k";
/// The row that says how fast it is.
pub const DISK: &str = "disk_fsync_4k_disk";
/// A write of 4 KiB and its sync, from which on a disk is one to be compared with.
const DISK_NS_MIN: f64 = 300_000.0;
const NOT_JUDGED: &str =
    "not judged: the disk answers a sync in less than 0.3 ms, or was not measured";

const PROBE_BYTES: usize = 4096;
const PROBES: usize = 200;

/// A number, and what is asked of it.
pub type Asked = (&'static str, Bar);

fn value_of(rows: &[Row], name: &str) -> Option<f64> {
    rows.iter().find(|row| row.name == name)?.value
}

/// Whether a number is one to be judged here.
fn is_judged(rows: &[Row], name: &str) -> bool {
    let is_slow = || value_of(rows, DISK).is_some_and(|latency_ns| latency_ns >= DISK_NS_MIN);
    !name.ends_with("_vs_disk") || is_slow()
}

/// What a number that has a bar comes to.
fn verdict(rows: &[Row], (name, bar): Asked) -> String {
    let value = value_of(rows, name);
    match value.is_some() && !is_judged(rows, name) {
        true => format!("{NOT_JUDGED}; {bar}"),
        false => format!("{} {bar}", bar.verdict(value)),
    }
    .trim_end()
    .to_owned()
}

/// Each number that is asked for: the number, whether its bar is met, the bar.
pub fn table(asked: &[Asked], rows: &[Row]) -> Table {
    let row = |(name, _): &Asked| ((*name).to_owned(), vec![value_of(rows, name)]);
    Table {
        columns: ["name", "measured", "asked for"].map(String::from).into(),
        rows: asked.iter().map(row).collect(),
        remarks: asked.iter().map(|bar| verdict(rows, *bar)).collect(),
    }
}

/// The same in lines.
pub fn summary(asked: &[Asked], rows: &[Row]) -> String {
    let line = |(name, bar): &Asked| {
        let row = rows.iter().find(|row| row.name == *name);
        match is_judged(rows, name) || row.is_none() {
            true => bars::line(name, row, Some(*bar)),
            false => {
                let row = row.cloned().map(|row| row.with_note(Some(NOT_JUDGED)));
                bars::line(name, row.as_ref(), None)
            }
        }
    };
    asked.iter().map(line).collect()
}

/// The median of a write of 4 KiB in a file that has it already, and its sync: what the disk itself takes, without a
/// journal's part.
pub fn disk_fsync_ns(folder: &Path) -> Result<f64> {
    let path = folder.join("probe");
    let file = File::create_new(&path)?;
    let piece = [0x5a; PROBE_BYTES];
    file.write_all_at(&piece, 0)?;
    file.sync_all()?;
    let mut all = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        let began = Instant::now();
        file.write_all_at(&piece, 0)?;
        file.sync_data()?;
        all.push(began.elapsed().as_nanos() as f64);
    }
    std::fs::remove_file(path)?;
    Ok(median(all).expect("there are some"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &[Asked] = &[
        ("etcd_1client_mount_vs_disk", Bar::AtLeast(1.6)),
        ("cluster_losses", Bar::AtMost(0.0)),
    ];

    fn rows(ratio: f64, disk_ns: Option<f64>) -> Vec<Row> {
        vec![
            Row::new("etcd_1client_mount_vs_disk", ratio, "x"),
            Row::new(DISK, disk_ns, "ns"),
            Row::new("cluster_losses", 1.0, "keys"),
        ]
    }

    fn told(rows: &[Row], name: &str) -> String {
        let table = table(ASKED, rows);
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
            let summary = summary(ASKED, &rows);
            assert!(summary.contains("not judged"), "{summary}");
            assert_eq!(summary.lines().count(), ASKED.len());
        }
        assert_eq!(told(&[], name), "not measured ≥ 1.60");
    }

    #[test]
    fn a_disk_takes_some_time() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(disk_fsync_ns(folder.path()).expect("a number") > 0.0);
        let left = std::fs::read_dir(folder.path()).expect("a folder");
        assert_eq!(left.count(), 0);
    }
}
