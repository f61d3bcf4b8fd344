//! What was measured of file buffers, for a terminal: a table for each part that was measured.

use std::fmt::Write as _;

use forebay_harness::digits;

use super::report::FilesReport;
use super::row::FilesRow;

impl FilesReport<'_> {
    /// For a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut tables: Vec<String> = Vec::new();
        if !self.counts.is_empty() {
            tables.push(self.counts_text());
        }
        if !self.rows.is_empty() {
            tables.push(self.writes_text());
        }
        if !self.inodes.is_empty() {
            tables.push(self.inodes_text());
        }
        let mut text = tables.join("\n");
        for line in self.not_measured {
            let _ = writeln!(text, "not measured: {line}");
        }
        text
    }

    fn counts_text(&self) -> String {
        let mut text = format!(
            "{:24} {:16} {:>12} {:>8} {:>8}\n",
            "counted, a write", "by", "writes", "lines", "fences"
        );
        for row in self.counts {
            let _ = writeln!(
                text,
                "{:24} {:16} {:>12} {:>8} {:>8}",
                format!("{} {} B", row.pattern, row.unit_bytes),
                row.contender.as_str(),
                row.writes,
                digits(row.lines),
                digits(row.fences),
            );
        }
        text
    }

    fn writes_text(&self) -> String {
        let mut text = format!(
            "{:24} {:16} {:>12} {:>9} {:>9} {:>8} {:>8}\n",
            "writes", "by", "a second", "p50 µs", "p99 µs", "lines", "fences"
        );
        let shown = |value: Option<f64>| value.map_or("–".into(), digits);
        let latency = |row: &FilesRow, share| {
            let latency_ns = row.latency_ns(share);
            shown(latency_ns.map(|latency_ns| f64::from(latency_ns) / 1000.0))
        };
        for row in self.rows {
            let _ = writeln!(
                text,
                "{:24} {:16} {:>12} {:>9} {:>9} {:>8} {:>8}",
                format!(
                    "{} {} B, {} threads",
                    row.pattern, row.unit_bytes, row.threads
                ),
                row.contender.as_str(),
                digits(row.writes_s),
                latency(row, 50.0),
                latency(row, 99.0),
                shown(row.lines_per_write),
                shown(row.fences_per_write),
            );
        }
        text
    }

    fn inodes_text(&self) -> String {
        let mut text = format!(
            "{:24} {:16} {:>12}\n",
            "appends, inode's record", "by", "a second"
        );
        for row in self.inodes {
            let record = row
                .inode_bytes
                .map_or("none".into(), |bytes| format!("{bytes} B"));
            let _ = writeln!(
                text,
                "{:24} {:16} {:>12}",
                format!("{record}, {} threads", row.threads),
                row.contender.as_str(),
                digits(row.writes_s),
            );
        }
        text
    }
}
