//! What was measured, beside what was hoped for: the table on the screen and `report.json`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::Result;

/// One number. `value` is none where it could not be measured here.
#[derive(Debug)]
pub struct Row {
    /// Its name; those in [`BARS`] are fixed.
    pub name: &'static str,
    /// The number.
    pub value: Option<f64>,
    /// What it counts.
    pub unit: &'static str,
}

impl Row {
    /// A row.
    pub fn new(name: &'static str, value: impl Into<Option<f64>>, unit: &'static str) -> Row {
        Row {
            name,
            value: value.into(),
            unit,
        }
    }
}

enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    fn is_met(&self, value: f64) -> bool {
        match self {
            Bar::AtMost(limit) => value <= *limit,
            Bar::AtLeast(limit) => value >= *limit,
        }
    }
    fn text(&self) -> String {
        match self {
            Bar::AtMost(limit) => format!("<= {limit}"),
            Bar::AtLeast(limit) => format!(">= {limit}"),
        }
    }
}

/// Name, the bar, and the goal where it is higher.
const BARS: [(&str, Bar, Option<f64>); 19] = [
    ("commit_1x4k_fences", Bar::AtMost(1.1), None),
    ("commit_1x4k_lines", Bar::AtMost(66.5), None),
    ("commit_16x4k_lines_per_block", Bar::AtMost(65.4), None),
    ("delta_256b_lines", Bar::AtMost(11.0), None),
    ("insert_evict_lines", Bar::AtMost(67.5), None),
    ("commit_1x4k_vs_raw", Bar::AtLeast(0.60), Some(0.75)),
    ("commit_16x4k_vs_raw", Bar::AtLeast(0.78), Some(0.88)),
    ("commit_2threads_vs_raw_2threads", Bar::AtLeast(0.60), None),
    ("read_hit_4k_vs_memcpy", Bar::AtLeast(0.62), Some(0.75)),
    ("read_hit_4k_unverified_vs_memcpy", Bar::AtLeast(0.80), None),
    ("commit_1x4k_vs_libpmemblk", Bar::AtLeast(1.8), None),
    ("commit_16x4k_vs_libpmemobj", Bar::AtLeast(5.0), None),
    ("dram_bytes_per_block", Bar::AtMost(40.0), Some(24.0)),
    ("recovery_ms_per_gib", Bar::AtMost(60.0), None),
    ("replacement_hit_ratio_vs_lru", Bar::AtLeast(1.0), None),
    ("nbd_read_qd1_vs_qsd", Bar::AtLeast(1.0), None),
    ("nbd_read_qd32_vs_qsd", Bar::AtLeast(1.0), None),
    ("nbd_write_qd1_vs_qsd", Bar::AtLeast(1.0), None),
    ("nbd_write_qd32_vs_qsd", Bar::AtLeast(1.0), None),
];

/// The rows as a table: those with a bar first.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<34} {:>12} {:<14} {:>8} {:>6}  ok?\n",
        "name", "value", "unit", "bar", "goal"
    );
    let bar_of = |row: &Row| BARS.iter().find(|(name, ..)| *name == row.name);
    let (barred, others): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| bar_of(row).is_some());
    for row in barred.into_iter().chain(others) {
        let (mut bar, mut goal, mut verdict) = (String::new(), String::new(), "");
        if let Some((_, limit, wanted)) = bar_of(row) {
            bar = limit.text();
            goal = wanted.map_or(String::new(), |goal| goal.to_string());
            verdict = match row.value {
                Some(value) if limit.is_met(value) => "yes",
                Some(_) => "NO",
                None => "not measured",
            };
        }
        let value = row.value.map_or("-".to_owned(), digits);
        writeln!(
            text,
            "{:<34} {value:>12} {:<14} {bar:>8} {goal:>6}  {verdict}",
            row.name, row.unit
        )
        .expect("a string takes everything");
    }
    text
}

/// Four significant digits, and no fraction where it says nothing.
fn digits(value: f64) -> String {
    match value.abs() {
        large if large >= 10_000.0 => format!("{value:.0}"),
        large if large >= 100.0 => format!("{value:.1}"),
        large if large >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Writes the rows and the commit they belong to.
pub fn write(path: &Path, rows: &[Row]) -> Result<()> {
    let mut list: Vec<Value> = rows
        .iter()
        .map(|row| json!({"name": row.name, "value": row.value, "unit": row.unit}))
        .collect();
    list.push(json!({"name": "commit_hash", "value": commit_hash()}));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let text = serde_json::to_string_pretty(&list)?;
    std::fs::write(path, text + "\n")
        .map_err(|error| format!("{}: cannot write the report: {error}", path.display()))?;
    Ok(())
}

/// The commit of the source tree, with `-dirty` where it has changes, or `unknown`.
fn commit_hash() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(env!("CARGO_MANIFEST_DIR"))
            .args(arguments)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(hash) = git(&["rev-parse", "HEAD"]) else {
        return "unknown".into();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => hash,
        _ => hash + "-dirty",
    }
}
