//! Every engine on every workload: what each write costs in lines, fences and blocks.

use forebay::Result;

use super::{Cell, LOADED_FROM, Laboratory, Outcome, Runs, Scope, WorkCell};
use crate::engines::EngineName;
use crate::measure::{CountsRow, Measurement};
use crate::workload::WorkloadSpec;

/// The cells of the rows, workload by workload.
///
/// # Errors
/// None: every listed workload has its specification.
pub fn counts_cells(scope: &Scope) -> Result<Vec<Cell>> {
    let pairs = pairs(scope)?;
    Ok(pairs.into_iter().map(|(_, _, cell)| cell).collect())
}

/// The rows of the cells that were measured.
///
/// # Errors
/// As [`counts_cells`].
pub fn counts_rows(laboratory: &Laboratory) -> Result<Vec<CountsRow>> {
    let rows = pairs(laboratory.scope())?.into_iter();
    let rows = rows.filter_map(|(engine, workload, cell)| {
        counts_row(engine, workload, laboratory.runs(&cell)?)
    });
    Ok(rows.collect())
}

/// The row of a cell's runs.
pub(super) fn counts_row(engine: EngineName, workload: &str, runs: &Runs) -> Option<CountsRow> {
    let measured = runs.iter().filter_map(|run| match &run.outcome {
        Outcome::Work(work) => Some(&work.measurement),
        Outcome::Blocks(_) => None,
    });
    let measured: Vec<&Measurement> = measured.collect();
    let row = CountsRow::new(engine, workload, &measured)?;
    Some(CountsRow {
        is_loaded: runs.others().is_some_and(|others| others > LOADED_FROM),
        ..row
    })
}

fn pairs(scope: &Scope) -> Result<Vec<(EngineName, &'static str, Cell)>> {
    let mut pairs = Vec::new();
    for name in WorkloadSpec::NAMES {
        let workload = WorkloadSpec::named(name, scope.scale)?;
        for engine in &scope.engines {
            let cell = Cell::Work(WorkCell::new(*engine, workload.clone()));
            pairs.push((*engine, name, cell));
        }
    }
    Ok(pairs)
}
