//! `forebay-lab dax`: the window of mapped regions against the period, by tracker, and what transactions pay.

use std::sync::atomic::AtomicBool;

use forebay_command::{Failure, output, progress};
use forebay_lab::dax::{DaxReport, DaxScope, NotMeasured, WindowRow, measure};
use forebay_lab::txb::{
    NoRows, TransactionsReport, TransactionsRow, TransactionsScope, measure_transactions,
};
use indicatif::ProgressBar;

use crate::arguments::{DaxOptions, DaxPart};
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

/// What is measured, and what has been.
struct Run<'o> {
    options: &'o DaxOptions,
    is_called_off: &'o AtomicBool,
    bar: ProgressBar,
    windows: Vec<WindowRow>,
    transactions: Vec<TransactionsRow>,
    not_measured: Vec<String>,
    failures: Vec<String>,
}

/// Somebody interrupted it.
struct CalledOff;

impl Run<'_> {
    /// Every tracker at every period.
    fn measure_windows(&mut self, scope: &DaxScope) -> Result<(), CalledOff> {
        for cell in scope.cells() {
            let (tracker, period) = cell;
            let what = format!("{tracker}, {} s", period.as_secs_f64());
            self.bar.set_message(what.clone());
            match measure(&self.options.directory, scope, cell, self.is_called_off) {
                Ok(row) => self.windows.push(row),
                Err(NotMeasured::NoTracker(why)) => {
                    self.not_measured.push(format!("{what}: {why}"))
                }
                Err(NotMeasured::Failed(why)) => self.failures.push(format!("{what}: {why}")),
                Err(NotMeasured::CalledOff) => return Err(CalledOff),
            }
            self.bar.inc(1);
        }
        Ok(())
    }

    /// Every design under every workload.
    fn measure_transactions(&mut self, scope: &TransactionsScope) -> Result<(), CalledOff> {
        for &workload in &scope.workloads {
            self.bar.set_message(workload.to_string());
            let directory = &self.options.directory;
            match measure_transactions(directory, scope, workload, self.is_called_off) {
                Ok(rows) => self.transactions.extend(rows),
                Err(NoRows::Failed(why)) => self.failures.push(format!("{workload}: {why}")),
                Err(NoRows::CalledOff) => return Err(CalledOff),
            }
            self.bar.inc(1);
        }
        Ok(())
    }

    /// All that was asked for.
    fn measure(
        &mut self,
        windows: Option<&DaxScope>,
        transactions: Option<&TransactionsScope>,
    ) -> Result<(), CalledOff> {
        let measured = windows.map_or(Ok(()), |scope| self.measure_windows(scope));
        let measured = measured
            .and_then(|()| transactions.map_or(Ok(()), |scope| self.measure_transactions(scope)));
        self.bar.finish_and_clear();
        measured
    }
}

/// Measures what is asked for, and writes the report.
pub fn run(options: &DaxOptions) -> Result<(), Failure> {
    let scope = scope(options);
    let transactions = match options.quick {
        true => TransactionsScope::quick(),
        false => TransactionsScope::full(),
    };
    let is_called_off = progress::called_off_flag()?;
    let windows = (options.only != Some(DaxPart::Transactions)).then_some(&scope);
    let transactions = (options.only != Some(DaxPart::Windows)).then_some(&transactions);
    let steps = windows.map_or(0, |scope| scope.cells().count())
        + transactions.map_or(0, |scope| scope.workloads.len());
    let mut run = Run {
        options,
        is_called_off: &is_called_off,
        bar: measuring::bar(steps),
        windows: Vec::new(),
        transactions: Vec::new(),
        not_measured: Vec::new(),
        failures: Vec::new(),
    };
    let measured = run.measure(windows, transactions);
    measured.map_err(|CalledOff| measuring::called_off())?;
    run.not_measured.extend(run.failures.iter().cloned());
    let report = DaxReport {
        scope: &scope,
        rows: &run.windows,
        transactions: transactions.map(|scope| TransactionsReport {
            scope,
            rows: &run.transactions,
        }),
        not_measured: &run.not_measured,
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
    if run.windows.is_empty() && windows.is_some() {
        run.failures.clone_from(&run.not_measured);
    }
    none_failed(&run.failures)
}
