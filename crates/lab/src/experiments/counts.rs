//! Every engine on every workload: what each write costs in lines, fences and blocks.

use forebay::Result;

use super::{Cell, Extent, Laboratory, Outcome, Runs, Scope, WorkCell, loads};
use crate::engines::EngineName;
use crate::measure::{CountsRow, Measurement};
use crate::workload::WorkloadSpec;

/// The cells of the rows, workload by workload: each engine as printed and with the cleaner.
///
/// # Errors
/// None: every listed workload has its specification.
pub fn counts_cells(scope: &Scope) -> Result<Vec<Cell>> {
    let pairs = pairs(scope)?.into_iter();
    let cells = pairs.flat_map(|(_, _, cell)| both(cell));
    Ok(cells.collect())
}

/// The rows of the cells that were measured.
///
/// # Errors
/// As [`counts_cells`].
pub fn counts_rows(laboratory: &Laboratory) -> Result<Vec<CountsRow>> {
    let pairs = pairs(laboratory.scope())?.into_iter();
    let rows = pairs.filter_map(|(engine, workload, cell)| row(laboratory, engine, workload, cell));
    let mut rows: Vec<CountsRow> = rows.collect();
    CountsRow::note_standings(&mut rows);
    Ok(rows)
}

/// A cell as printed, and the same with the cleaner.
pub(super) fn both(cell: WorkCell) -> [Cell; 2] {
    [Cell::Work(cell.clone()), Cell::Work(cell.with_cleaner())]
}

/// The row of both, if both were measured.
pub(super) fn row(
    laboratory: &Laboratory,
    engine: EngineName,
    workload: &str,
    cell: WorkCell,
) -> Option<CountsRow> {
    let [printed, cleaned] = both(cell).map(|cell| laboratory.runs(&cell));
    let (printed, cleaned) = (printed?, cleaned?);
    let row = CountsRow::new(
        engine,
        workload,
        &measurements(printed),
        &measurements(cleaned),
    )?;
    Some(CountsRow {
        is_loaded: printed.is_loaded() || cleaned.is_loaded(),
        ..row
    })
}

/// One a round; none of one that failed.
fn measurements(runs: &Runs) -> Vec<Option<&Measurement>> {
    let measured = runs.by_round().map(|run| match &run?.outcome {
        Outcome::Work(work) => Some(&work.measurement),
        Outcome::Blocks(_) => None,
    });
    measured.collect()
}

fn pairs(scope: &Scope) -> Result<Vec<(EngineName, &'static str, WorkCell)>> {
    let mut pairs = Vec::new();
    for name in WorkloadSpec::NAMES {
        let workload = WorkloadSpec::named(name, scope.scale)?;
        for engine in &scope.engines {
            let cell = WorkCell {
                extent: Extent {
                    operations: Some(loads::counted_operations(&workload, scope.is_quick)),
                    ..Extent::default()
                },
                ..WorkCell::new(*engine, workload.clone())
            };
            pairs.push((*engine, name, cell));
        }
    }
    Ok(pairs)
}
