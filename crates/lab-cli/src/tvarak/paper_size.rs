//! `forebay-lab tvarak run --paper-size`: whether a part of the paper's operations tells what all of them do.

use std::thread;

use forebay_command::{Failure, output, progress};
use forebay_harness::write_file;
use forebay_tvarak::change::Change;
use forebay_tvarak::figures::cell::Cell;
use forebay_tvarak::figures::plan::PRESENTED;
use forebay_tvarak::name::Workload;
use forebay_tvarak::{Design, Parameters};
use serde_json::{Value, json};

use crate::measuring::none_failed;
use crate::tvarak::arguments::TvarakRun;
use crate::tvarak::cells::Cells;
use crate::tvarak::run::{QUICK_DIVISOR, parameters};
use crate::tvarak::store::{Common, Store};

/// The baseline, and those that are compared.
const DESIGNS: [Design; 4] = [
    Design::Baseline,
    Design::Tvarak,
    Design::TxbObject,
    Design::TxbPage,
];
/// Points by which an overhead may move.
const POINTS_MOST: f64 = 2.0;

/// Runs each program twice on each design.
pub fn run(options: &TvarakRun) -> Result<(), Failure> {
    let is_called_off = progress::called_off_flag()?;
    let part = parameters(options)?;
    let mut all = part.clone();
    all.programs.work_divisor.value = 1;
    // Apart from the figures' cells, whose time left is told by what cells took.
    let store = Store::open(&options.cells.out.join("paper-size"))?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let run = |parameters| Cells {
        common: common(parameters, options.quick),
        store: &store,
        threads: options.cells.threads.map_or(processors, usize::from),
        is_called_off: &is_called_off,
    };
    let mut failures = run(&part).run(&cells())?;
    failures.extend(run(&all).run(&cells())?);
    let rows = rows(&store, [&part, &all], options.quick);
    let most = rows.iter().filter_map(|row| row["points"].as_f64());
    let most = most.fold(0.0, |most: f64, points| most.max(points.abs()));
    let report = json!({
        "operations_divisor": part.programs.work_divisor.value,
        "points_most": most,
        "holds": most <= POINTS_MOST && failures.is_empty(),
        "rows": rows,
    });
    let path = options.cells.out.join("tvarak-paper-size.json");
    write_file(&path, (report.to_string() + "\n").as_bytes())?;
    match options.json {
        true => output::json(&report),
        false => output::text_of_ours(&text(&report)),
    }
    none_failed(&failures)
}

fn common(parameters: &Parameters, is_quick: bool) -> Common<'_> {
    Common {
        parameters,
        scale_divisor: if is_quick { QUICK_DIVISOR } else { 1 },
    }
}

/// The workloads of §4.7 that are programs, one of each application.
fn workloads() -> impl Iterator<Item = Workload> {
    let is_program = |workload: &Workload| matches!(workload, Workload::Program(_));
    PRESENTED.into_iter().filter(is_program)
}

fn cell(workload: Workload, design: Design) -> Cell {
    Cell {
        workload,
        design,
        change: Change::Nothing,
        vary: None,
        seed: 1,
    }
}

fn cells() -> Vec<Cell> {
    let of = |workload| DESIGNS.map(|design| cell(workload, design));
    workloads().flat_map(of).collect()
}

/// Of each workload and design but the baseline the overhead with a part of the operations, with all, and their difference, in
/// percent and percentage points.
fn rows(store: &Store, parameters: [&Parameters; 2], is_quick: bool) -> Vec<Value> {
    let mut rows = Vec::new();
    for workload in workloads() {
        for design in DESIGNS.into_iter().filter(|one| *one != Design::Baseline) {
            let [part, all] = parameters.map(|parameters| {
                let runtime = |design| {
                    let kept = store.get(common(parameters, is_quick), &cell(workload, design))?;
                    Some(kept.measured.runtime_ns as f64)
                };
                Some(100.0 * (runtime(design)? / runtime(Design::Baseline)? - 1.0))
            });
            let points = part.zip(all).map(|(part, all)| all - part);
            rows.push(json!({
                "workload": workload.as_str(),
                "design": design.as_str(),
                "overhead_of_part_percent": part,
                "overhead_of_all_percent": all,
                "points": points,
            }));
        }
    }
    rows
}

fn text(report: &Value) -> String {
    let mut text = format!(
        "{:<18} {:<12} {:>14} {:>12} {:>8}",
        "workload",
        "design",
        format!("1/{} of it, %", report["operations_divisor"]),
        "all, %",
        "points",
    );
    for row in report["rows"].as_array().into_iter().flatten() {
        let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        text += &format!(
            "\n{:<18} {:<12} {:>14.2} {:>12.2} {:>8.2}",
            row["workload"].as_str().unwrap_or_default(),
            row["design"].as_str().unwrap_or_default(),
            number("overhead_of_part_percent"),
            number("overhead_of_all_percent"),
            number("points"),
        );
    }
    let most = report["points_most"].as_f64().unwrap_or(f64::NAN);
    let verdict = match report["holds"].as_bool() {
        Some(true) => "no overhead moves by more than 2",
        _ => "an overhead moves by more than 2, or was not measured",
    };
    text + &format!("\nThe most: {most:.2} points; {verdict}.")
}
