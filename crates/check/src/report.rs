//! The report: a list of named values that other tools read, and what a person sees meanwhile.

use forebay_harness::{Row, rows};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::time::Duration;

/// One line of the report.
pub struct Entry {
    /// What it is.
    pub name: String,
    /// How much.
    pub value: u64,
    /// Of what.
    pub unit: &'static str,
}

/// Writes `entries` into the report at `path`. Others that are there stay, unless they are of
/// another commit.
pub fn write(path: &Path, entries: &[Entry]) -> Result<(), String> {
    let row = |entry: &Entry| Row::new(&entry.name, entry.value as f64, entry.unit);
    let list: Vec<Row> = entries.iter().map(row).collect();
    rows::merge(path, &list).map_err(|error| error.to_string())
}

/// A bar on a terminal, nothing elsewhere.
pub fn progress_bar(length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template(
        "{prefix:>28} {wide_bar} {human_pos}/{human_len} images, {per_sec}",
    );
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_prefix(what.to_string());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
