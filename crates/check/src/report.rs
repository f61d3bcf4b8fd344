//! The report: a list of named values that other tools read, and what a person sees meanwhile.

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// One line of the report.
pub struct Entry {
    /// What it is.
    pub name: &'static str,
    /// How much.
    pub value: u64,
    /// Of what.
    pub unit: &'static str,
}

/// Writes `entries` into the report at `path`. Others that are there stay, unless they are of
/// another commit.
pub fn write(path: &Path, entries: &[Entry]) -> Result<(), String> {
    let context = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let commit = commit_hash();
    let mut list: Vec<Value> = std::fs::read(path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let named = |value: &Value, name: &str| value["name"] == name;
    let is_ours = list
        .iter()
        .any(|value| named(value, "commit_hash") && value["value"] == *commit);
    if !is_ours {
        list = vec![json!({"name": "commit_hash", "value": commit})];
    }
    for Entry { name, value, unit } in entries {
        list.retain(|value| !named(value, name));
        list.push(json!({"name": name, "value": value, "unit": unit}));
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| context(&error))?;
    }
    let text = serde_json::to_string_pretty(&list).map_err(|error| context(&error))?;
    std::fs::write(path, text + "\n").map_err(|error| context(&error))
}

fn commit_hash() -> String {
    let output = std::process::Command::new("git")
        .args(["rev-parse", "HEAD"])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_string()
        }
        _ => String::from("unknown"),
    }
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
