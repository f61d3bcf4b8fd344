//! `forebay-lab files`: AutoBahn's design beside our file buffer, under the paper's micro-benchmark.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_command::{Failure, output, progress};
use forebay_harness::{Machine, OthersWatch};
use forebay_lab::figures::Setting;
use forebay_lab::files::{
    Cell, CountsRow, FilesOnDisk, FilesReport, FilesRow, FilesScope, InodesRow, count_writes,
    measure_cell, measure_inodes,
};
use indicatif::ProgressBar;

use crate::arguments::{FilesOptions, FilesPart};
use crate::measuring::{self, none_failed};

/// What is measured, and what has been.
struct Run<'o> {
    options: &'o FilesOptions,
    scope: &'o FilesScope,
    files: FilesOnDisk,
    is_called_off: &'o AtomicBool,
    bar: ProgressBar,
    counts: Vec<CountsRow>,
    rows: Vec<FilesRow>,
    inodes: Vec<InodesRow>,
    not_measured: Vec<String>,
    failures: Vec<String>,
    /// What others did while it was timed; since it began where nothing was.
    setting: Setting,
}

/// Somebody interrupted it.
struct CalledOff;

/// What is done, for people.
fn name_of(cell: Cell) -> String {
    format!(
        "{} of {}, {} threads",
        cell.pattern.as_str(),
        cell.unit.title,
        cell.threads
    )
}

impl Run<'_> {
    fn memory(&self) -> &Path {
        &self.options.directory
    }

    fn check(&self) -> Result<(), CalledOff> {
        match self.is_called_off.load(Ordering::Relaxed) {
            true => Err(CalledOff),
            false => Ok(()),
        }
    }

    /// Lines and fences, of the cells with one thread.
    fn count(&mut self) -> Result<(), CalledOff> {
        let contenders = self.scope.contenders.iter();
        let contenders: Vec<_> = contenders.copied().filter(|one| one.has_region()).collect();
        for cell in self.scope.cells().filter(|cell| cell.threads == 1) {
            self.check()?;
            self.bar.set_message(format!("counts: {}", name_of(cell)));
            for contender in &contenders {
                let at = (self.memory(), &self.files);
                match count_writes(*contender, at, self.scope, cell) {
                    Ok(row) => self.counts.push(row),
                    Err(error) => self.failed(&format!("counts of {}", name_of(cell)), &error),
                }
            }
            self.bar.inc(1);
        }
        Ok(())
    }

    fn time(&mut self) -> Result<(), CalledOff> {
        // The counts before it are exact whatever others do, and programs that make file systems come after it.
        let watch = OthersWatch::begin();
        let timed = self.time_cells();
        self.setting = Setting::since(&watch, self.setting.machine.clone());
        timed
    }

    fn time_cells(&mut self) -> Result<(), CalledOff> {
        for cell in self.scope.cells() {
            self.bar.set_message(name_of(cell));
            let measured = measure_cell(
                self.memory(),
                &self.files,
                self.scope,
                cell,
                self.is_called_off,
            );
            match measured {
                Ok(rows) => self.rows.extend(rows),
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(CalledOff),
                Err(error) => self.failed(&name_of(cell), &error),
            }
            self.bar.inc(1);
        }
        Ok(())
    }

    fn size_inodes(&mut self) -> Result<(), CalledOff> {
        self.check()?;
        self.bar.set_message("sizes of inodes");
        match measure_inodes(self.memory(), &self.files, self.scope) {
            Ok((rows, not_measured)) => {
                self.inodes = rows;
                self.not_measured.extend(not_measured);
            }
            Err(error) => self.failed("sizes of inodes", &error),
        }
        self.bar.inc(1);
        Ok(())
    }

    fn failed(&mut self, what: &str, error: &std::io::Error) {
        self.failures.push(format!("{what}: {error}"));
    }

    fn measure(&mut self) -> Result<(), CalledOff> {
        let is_wanted = |part| self.options.only.is_none_or(|only| only == part);
        let (counts, times, inodes) = (
            is_wanted(FilesPart::Counts),
            is_wanted(FilesPart::Times),
            is_wanted(FilesPart::Inodes),
        );
        if counts {
            self.count()?;
        }
        if times {
            self.time()?;
        }
        if inodes {
            self.size_inodes()?;
        }
        self.bar.finish_and_clear();
        Ok(())
    }
}

fn scope(options: &FilesOptions) -> FilesScope {
    let mut scope = match options.quick {
        true => FilesScope::quick(),
        false => FilesScope::full(),
    };
    if !options.threads.is_empty() {
        scope.threads.clone_from(&options.threads);
        scope.threads.sort_unstable();
        scope.threads.dedup();
    }
    scope
}

/// Measures what is asked for, and writes the report.
pub fn run(options: &FilesOptions) -> Result<(), Failure> {
    let scope = scope(options);
    let is_called_off = progress::called_off_flag()?;
    let files = FilesOnDisk::new(&options.files, &scope)?;
    let steps = scope.cells().count() + scope.cells().filter(|cell| cell.threads == 1).count() + 1;
    let mut run = Run {
        options,
        scope: &scope,
        files,
        is_called_off: &is_called_off,
        bar: measuring::bar(steps),
        counts: Vec::new(),
        rows: Vec::new(),
        inodes: Vec::new(),
        not_measured: Vec::new(),
        failures: Vec::new(),
        setting: Setting::since(&OthersWatch::begin(), Machine::here()),
    };
    run.measure().map_err(|CalledOff| measuring::called_off())?;
    run.not_measured.extend(run.failures.iter().cloned());
    let report = FilesReport {
        scope: &scope,
        setting: &run.setting,
        counts: &run.counts,
        rows: &run.rows,
        inodes: &run.inodes,
        not_measured: &run.not_measured,
    };
    measuring::print(
        (options.out.as_ref(), options.json),
        "files.html",
        |out| report.write(out),
        || match options.json {
            true => output::json(&report.to_json()),
            false => output::text_of_ours(report.to_text().trim_end()),
        },
    )?;
    none_failed(&run.failures)
}
