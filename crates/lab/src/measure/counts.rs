//! Every engine with every workload, as rows.

use forebay::Result;
use serde::Serialize;

use super::{CellOptions, Measurement, Progress, run_cell};
use crate::engines::EngineName;
use crate::workload::{Scale, WorkloadSpec};

/// One engine with one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountsRow {
    /// The engine's name.
    pub engine: String,
    /// The workload's name.
    pub workload: String,
    /// [`Measurement::lines_per_write`].
    pub lines_per_write: f64,
    /// [`Measurement::fences_per_write`].
    pub fences_per_write: f64,
    /// [`Measurement::nvm_bytes_per_payload_byte`].
    pub nvm_bytes_per_payload_byte: f64,
    /// [`Measurement::disk_blocks_per_write`].
    pub disk_blocks_per_write: f64,
    /// [`Measurement::hit_ratio`].
    pub hit_ratio: f64,
    /// [`Measurement::ops_per_s`].
    pub ops_per_s: f64,
}

impl CountsRow {
    /// The row of a measured cell.
    #[must_use]
    pub fn new(engine: EngineName, workload: &str, measured: &Measurement) -> CountsRow {
        CountsRow {
            engine: engine.to_string(),
            workload: workload.to_string(),
            lines_per_write: measured.lines_per_write(),
            fences_per_write: measured.fences_per_write(),
            nvm_bytes_per_payload_byte: measured.nvm_bytes_per_payload_byte(),
            disk_blocks_per_write: measured.disk_blocks_per_write(),
            hit_ratio: measured.hit_ratio(),
            ops_per_s: measured.ops_per_s(),
        }
    }
}

/// Measures these engines with these workloads, one after the other, at this scale; `each` is told of
/// every row as it is there, `progress` of the operations of the running cell.
///
/// # Errors
/// There is no workload of such a name; an engine fails.
pub fn counts(
    engines: &[EngineName],
    workloads: &[&str],
    scale: Scale,
    seed: u64,
    progress: Progress<'_>,
    each: &mut dyn FnMut(&CountsRow),
) -> Result<Vec<CountsRow>> {
    let mut rows = Vec::with_capacity(engines.len() * workloads.len());
    for &name in workloads {
        for &engine in engines {
            let options = CellOptions {
                seed,
                ..CellOptions::new(engine, WorkloadSpec::named(name, scale)?, scale)
            };
            let measured = run_cell(&options, progress)?;
            let row = CountsRow::new(engine, name, &measured);
            each(&row);
            rows.push(row);
        }
    }
    Ok(rows)
}
