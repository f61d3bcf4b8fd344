//! `forebay-lab list`, `run` and `trace`: the papers' figures over their caches and ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_harness::{Machine, OthersWatch};
use forebay_lab::elsewhere::Reports;
use forebay_lab::engines::EngineName;
use forebay_lab::experiments::{
    Cell, Laboratory, Scope, TraceRun, counts_cells, counts_rows, in_order,
};
use forebay_lab::figures::{self, Figure, FigureResult, Plan, Report, Setting};
use forebay_lab::workload::{self, Scale, Trace};
use serde_json::{Value, json};

use crate::arguments::{ListOptions, RunOptions, TraceOptions};
use crate::measuring::{self, none_failed};
use forebay_command::Failure;
use forebay_command::{output, progress};

/// The name of the rows of every engine and workload.
const COUNTS: &str = "counts";

/// Names every figure.
pub fn list(options: &ListOptions) {
    let figures = figures::all();
    if options.json {
        let list: Vec<Value> = figures
            .iter()
            .map(|figure| json!({"figure": figure.name, "title": figure.heading(), "about": figure.about}))
            .collect();
        return output::json(&Value::from(list));
    }
    let width = figures.iter().map(|figure| figure.name.len()).max();
    let width = width.unwrap_or(0);
    for figure in &figures {
        output::line(&format!("{:width$}  {}", figure.name, figure.heading()));
    }
    output::line(&format!(
        "{COUNTS:width$}  a row for each engine and workload"
    ));
}

fn scope(options: &RunOptions) -> Scope {
    let mut scope = match options.quick {
        true => Scope::quick(options.seed),
        false => Scope::full(options.seed),
    };
    if let Some(divisor) = options.scale {
        scope.scale = Scale::one_over(divisor);
    }
    if let Some(runs) = options.runs {
        scope.runs = usize::from(runs);
    }
    scope.flushes_content = options.flush_content;
    choose(&mut scope, &options.engines);
    scope
}

/// Only these engines, oldest first; all where none is named.
fn choose(scope: &mut Scope, engines: &[EngineName]) {
    if !engines.is_empty() {
        scope.engines.retain(|engine| engines.contains(engine));
    }
}

/// Measures figures and writes the report.
pub fn measure(options: &RunOptions) -> Result<(), Failure> {
    let has_counts = options
        .figures
        .iter()
        .any(|name| name == COUNTS || name == "all");
    let names: Vec<String> = options
        .figures
        .iter()
        .filter(|name| *name != COUNTS)
        .cloned()
        .collect();
    let chosen = figures::select(&names)?;
    let scope = scope(options);
    let is_called_off = progress::called_off_flag()?;
    let mut laboratory = Laboratory::new(
        scope.clone(),
        options.directory.clone(),
        Arc::clone(&is_called_off),
    );
    let plans: Vec<(Figure, Plan)> = chosen
        .into_iter()
        .map(|figure| {
            let plan = figure.planned(&scope);
            (figure, plan)
        })
        .collect();
    let mut cells: Vec<Cell> = Vec::new();
    if has_counts {
        cells.extend(counts_cells(&scope)?);
    }
    cells.extend(plans.iter().flat_map(|(_, plan)| plan.cells()));
    let before = Machine::here();
    let watch = OthersWatch::begin();
    measure_cells(&mut laboratory, cells, &is_called_off)?;
    let setting = Setting::since(&watch, before);
    let rows = match has_counts {
        true => counts_rows(&laboratory)?,
        false => Vec::new(),
    };
    let results: Vec<FigureResult> = plans
        .into_iter()
        .map(|(figure, plan)| FigureResult::collect(figure, plan, &laboratory))
        .collect();
    let folder = measuring::folder((options.out.as_ref(), options.json));
    let reports = folder.map_or_else(Reports::none, Reports::beside);
    let report = Report {
        scope: &scope,
        setting: &setting,
        results: &results,
        counts: &rows,
        failures: laboratory.failures(),
        repeated: laboratory.repeated(),
        reports: &reports,
    };
    measuring::print(
        (options.out.as_ref(), options.json),
        "lab.html",
        |out| report.write(out),
        || {
            output::text_of_ours(&match options.json {
                true => report.to_json().to_string(),
                false => report.to_text(),
            });
        },
    )?;
    none_failed(laboratory.failures())
}

/// Replays a trace and prints a row for each engine.
pub fn replay(options: &TraceOptions) -> Result<(), Failure> {
    let trace = Trace::open(
        &options.file,
        &workload::TraceOptions {
            device: options.device.clone(),
            requests_max: options.requests.unwrap_or(u64::MAX),
            ..workload::TraceOptions::default()
        },
    );
    // The failure is not one of a foreign or damaged pool.
    let trace = trace.map_err(|error| Failure::Arguments(error.to_string()))?;
    let mut scope = Scope::full(options.seed);
    // A trace may be long, and is what it is.
    scope.runs = 1;
    choose(&mut scope, &options.engines);
    let run = TraceRun::new(trace, &scope, options.disk, options.size, options.warm_up);
    let is_called_off = progress::called_off_flag()?;
    let cells = run.cells(&scope);
    let mut laboratory =
        Laboratory::new(scope, options.directory.clone(), Arc::clone(&is_called_off));
    measure_cells(&mut laboratory, cells, &is_called_off)?;
    let rows = run.rows(&laboratory);
    match options.json {
        true => output::json(&json!(rows)),
        false => output::text_of_ours(figures::rows_to_text(&rows).trim()),
    }
    none_failed(laboratory.failures())
}

/// Measures with a bar on standard error, where that is a terminal.
fn measure_cells(
    laboratory: &mut Laboratory,
    cells: Vec<Cell>,
    is_called_off: &AtomicBool,
) -> Result<(), Failure> {
    let cells = in_order(cells);
    // A round of all cells comes before the next, so that a slow hour of the machine is no one cell's.
    let rounds = laboratory.scope().runs;
    let bar = measuring::bar(cells.len() * rounds);
    for cell in (0..rounds).flat_map(|_| &cells) {
        bar.set_message(cell.name());
        laboratory.measure(cell);
        bar.inc(1);
        if is_called_off.load(Ordering::Relaxed) {
            bar.finish_and_clear();
            return Err(measuring::called_off());
        }
    }
    bar.finish_and_clear();
    Ok(())
}
