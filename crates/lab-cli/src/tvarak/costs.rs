//! What a cell will cost: as long as it took before on this host, or else by a table.

use forebay_tvarak::Design;
use forebay_tvarak::figures::cell::Cell;
use forebay_tvarak::measure::steps;

use crate::tvarak::store::{Common, Store};

/// Microseconds for a step of a workload on the baseline, filling its memory included: two cores of a virtual machine (AMD
/// EPYC, Zen 3), both busy.
const STEP_US: [(&str, f64); 5] = [
    ("redis", 34.0),
    ("nstore", 79.0),
    ("fio", 4.6),
    ("stream", 3.9),
    ("", 45.0),
];

/// How many times that a design takes, as most workloads have it at the paper's size.
fn times(design: Design) -> f64 {
    match design {
        Design::Baseline => 1.0,
        Design::Naive | Design::RegionsSync => 20.0,
        Design::Passes | Design::Regions | Design::TxbPage => 3.0,
        _ => 2.0,
    }
}

/// A cell that takes longer is dear: filling its program's regions once more is little beside it.
const DEAR_MS: u64 = 3 * 60_000;

/// Whether a cell that will take so long comes after all others of its seed.
pub fn is_dear(ms: u64) -> bool {
    ms > DEAR_MS
}

/// Milliseconds that a cell will take.
pub fn estimate_ms(store: &Store, common: Common<'_>, cell: &Cell) -> u64 {
    store
        .cost_ms(common.scale_divisor, cell)
        .unwrap_or_else(|| {
            let name = cell.workload.as_str();
            let mut table = STEP_US.iter();
            let of_step = table.find(|(program, _)| name.starts_with(program));
            let of_step_us = of_step.map_or(0.0, |(_, us)| *us);
            let steps = match cell.parameters(common.parameters, common.scale_divisor) {
                Ok(parameters) => steps(&parameters, cell.workload),
                Err(_) => 0,
            };
            (steps as f64 * of_step_us * times(cell.design) / 1e3) as u64 + 1
        })
}
