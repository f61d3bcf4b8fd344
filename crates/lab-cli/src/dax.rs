//! `forebay-lab dax`: the window of mapped regions against the period, by tracker.

use forebay_command::{Failure, output, progress};
use forebay_lab::dax::{DaxReport, DaxScope, NotMeasured, measure};

use crate::arguments::DaxOptions;
use crate::measuring::{self, none_failed};

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
    let bar = measuring::bar(cells.len());
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
                return Err(measuring::called_off());
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
    measuring::print(
        (options.out.as_ref(), options.json),
        "dax.html",
        |out| report.write(out),
        || match options.json {
            true => output::json(&report.to_json()),
            false => output::text_of_ours(report.to_text().trim_end()),
        },
    )?;
    // A tracker that this machine lacks is said; with none of them there is nothing to show.
    if rows.is_empty() {
        failures.clone_from(&not_measured);
    }
    none_failed(&failures)
}
