//! `forebay-lab dax`: the window of mapped regions against the period, by tracker.

use std::path::Path;

use forebay_command::{Failure, output, progress};
use forebay_lab::dax::{DaxReport, DaxScope, NotMeasured, measure};
use indicatif::ProgressBar;

use crate::arguments::DaxOptions;

/// Where the report goes by default.
const OUT: &str = "forebay-lab";

fn scope(options: &DaxOptions) -> DaxScope {
    let mut scope = match options.quick {
        true => DaxScope::quick(),
        false => DaxScope::full(),
    };
    if !options.periods.is_empty() {
        scope.periods.clone_from(&options.periods);
        scope.periods.sort_unstable();
        scope.periods.dedup();
    }
    if !options.trackers.is_empty() {
        scope.trackers.clone_from(&options.trackers);
    }
    if let Some(size_bytes) = options.size {
        scope.size_bytes = size_bytes;
    }
    scope
}

/// Measures every tracker at every period, and writes the report.
pub fn run(options: &DaxOptions) -> Result<(), Failure> {
    let scope = scope(options);
    let is_called_off = progress::called_off_flag()?;
    let cells: Vec<_> = scope.cells().collect();
    let bar = ProgressBar::new(cells.len() as u64);
    let (mut rows, mut not_measured, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        let (tracker, period) = cell;
        let what = format!("{tracker}, {} s", period.as_secs_f64());
        bar.set_message(what.clone());
        match measure(&options.directory, &scope, cell, &is_called_off) {
            Ok(row) => rows.push(row),
            Err(NotMeasured::NoTracker(why)) => not_measured.push(format!("{what}: {why}")),
            Err(NotMeasured::Failed(why)) => failures.push(format!("{what}: {why}")),
            Err(NotMeasured::CalledOff) => {
                bar.finish_and_clear();
                return Err(Failure::Cancelled(
                    "called off; no report was written and nothing was left behind".into(),
                ));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    not_measured.extend(failures.iter().cloned());
    let report = DaxReport {
        scope: &scope,
        rows: &rows,
        not_measured: &not_measured,
    };
    print(options, &report)?;
    // A tracker that this machine lacks is said; with none of them there is nothing to show.
    if rows.is_empty() {
        failures.clone_from(&not_measured);
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(format!(
            "{} measurements failed: {}",
            failures.len(),
            failures.join("; ")
        ))),
    }
}

/// Writes the files and prints the outcome.
fn print(options: &DaxOptions, report: &DaxReport<'_>) -> Result<(), Failure> {
    let out = match (&options.out, options.json) {
        (Some(out), _) => Some(out.as_path()),
        (None, true) => None,
        (None, false) => Some(Path::new(OUT)),
    };
    if let Some(out) = out {
        report.write(out)?;
    }
    if options.json {
        output::json(&report.to_json());
        return Ok(());
    }
    output::text_of_ours(report.to_text().trim_end());
    if let Some(out) = out {
        output::line(&format!("The report: {}", out.join("dax.html").display()));
    }
    Ok(())
}
