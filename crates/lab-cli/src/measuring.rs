//! What every subcommand that measures has: a bar, a report where it was asked for, and a word of what failed.

use std::io;
use std::path::{Path, PathBuf};

use forebay_command::{Failure, output};
use indicatif::{ProgressBar, ProgressStyle};

/// Where a report goes by default.
const OUT: &str = "forebay-lab";

/// A bar on standard error, where that is a terminal, of so many measurements.
pub fn bar(measurements: usize) -> ProgressBar {
    let template = "[{bar:30}] {pos}/{len} {elapsed} {wide_msg}";
    styled_bar(measurements as u64, template)
}

/// One of so many of whatever it counts.
pub fn styled_bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The end of one that somebody interrupted.
pub fn called_off() -> Failure {
    Failure::Cancelled("called off; no report was written and nothing was left behind".into())
}

/// # Errors
/// Something could not be measured.
pub fn none_failed(failures: &[String]) -> Result<(), Failure> {
    match failures {
        [] => Ok(()),
        failures => Err(Failure::Failed(format!(
            "{} measurements failed: {}",
            failures.len(),
            failures.join("; ")
        ))),
    }
}

/// The folder of a report; none where the outcome is to be JSON and no folder was named.
pub fn folder((out, json): (Option<&PathBuf>, bool)) -> Option<&Path> {
    match (out, json) {
        (Some(out), _) => Some(out.as_path()),
        (None, true) => None,
        (None, false) => Some(Path::new(OUT)),
    }
}

/// Writes a report's files, into a folder of its own unless the outcome is to be JSON, and has the outcome printed.
///
/// # Errors
/// They cannot be written.
pub fn print(
    (out, json): (Option<&PathBuf>, bool),
    page: &str,
    write: impl FnOnce(&Path) -> io::Result<()>,
    tell: impl FnOnce(),
) -> Result<(), Failure> {
    let out = folder((out, json));
    if let Some(out) = out {
        write(out)?;
    }
    tell();
    if let (Some(out), false) = (out, json) {
        output::line(&format!("The report: {}", out.join(page).display()));
    }
    Ok(())
}
