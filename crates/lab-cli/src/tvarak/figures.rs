//! `forebay-lab tvarak run FIGURE` and `forebay-lab tvarak sweep`: cells, then the report of all that was measured so far.

use std::thread;

use forebay_command::{Failure, output, progress};
use forebay_harness::write_file;
use forebay_tvarak::Parameters;
use forebay_tvarak::figures::cell::Cell;
use forebay_tvarak::figures::plan::{self, Figure};
use forebay_tvarak::figures::sweep as variations;

use crate::measuring::none_failed;
use crate::tvarak::arguments::{CellsOptions, TvarakRun, TvarakSweep};
use crate::tvarak::cells::Cells;
use crate::tvarak::numbers::{self, Report};
use crate::tvarak::page;
use crate::tvarak::run::{self, QUICK_DIVISOR, parameters};
use crate::tvarak::store::{Common, Store};

/// Runs figures.
pub fn run(options: &TvarakRun, figures: &[Figure]) -> Result<(), Failure> {
    let parameters = parameters(options)?;
    let mut cells = plan::cells(figures, seeds(&options.cells, options.quick));
    cells.retain(|cell| run::is_asked(options, cell.design));
    perform(
        &parameters,
        &options.cells,
        (options.quick, options.json),
        &cells,
    )
}

/// Runs the sweep.
pub fn sweep(options: &TvarakSweep) -> Result<(), Failure> {
    let (parameters, how) = (Parameters::paper(), (options.quick, options.json));
    perform(&parameters, &options.cells, how, &variations::cells())
}

fn seeds(options: &CellsOptions, is_quick: bool) -> u64 {
    options.seeds.unwrap_or(if is_quick { 1 } else { 3 })
}

/// Runs cells and writes the report.
fn perform(
    parameters: &Parameters,
    options: &CellsOptions,
    (is_quick, is_json): (bool, bool),
    cells: &[Cell],
) -> Result<(), Failure> {
    let is_called_off = progress::called_off_flag()?;
    let common = Common {
        parameters,
        scale_divisor: if is_quick { QUICK_DIVISOR } else { 1 },
    };
    let store = Store::open(&options.out)?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let run = Cells {
        common,
        store: &store,
        threads: options.threads.map_or(processors, usize::from),
        is_called_off: &is_called_off,
    };
    let failures = match options.measured {
        true => Vec::new(),
        false => run.run(cells)?,
    };
    let report = Report::collect(&store, common, seeds(options, is_quick), failures);
    let json = report.to_json();
    write_file(
        &options.out.join("tvarak.json"),
        (json.to_string() + "\n").as_bytes(),
    )?;
    write_file(
        &options.out.join("tvarak.csv"),
        numbers::to_csv(&report).as_bytes(),
    )?;
    let page_path = options.out.join("tvarak.html");
    page::page(&report).write(&page_path)?;
    match is_json {
        true => output::json(&json),
        false => {
            output::text_of_ours(&report.to_text());
            output::line(&format!("The report: {}", page_path.display()));
        }
    }
    none_failed(&report.failures)
}
