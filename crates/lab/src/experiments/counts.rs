//! Every engine on every workload: what each write costs in lines, fences and blocks.

use serde::Serialize;

use super::{Cell, Laboratory, Metric, Outcome, Scope, WorkCell};
use crate::engines::EngineName;
use crate::workload::WorkloadSpec;

/// One engine on one workload.
#[derive(Clone, Debug, Serialize)]
pub struct CountsRow {
    /// The engine's name.
    pub engine: String,
    /// The workload's name.
    pub workload: String,
    /// Cache lines persisted for an application write.
    pub lines_per_write: Option<f64>,
    /// Fences for an application write.
    pub fences_per_write: Option<f64>,
    /// Bytes persisted for a byte that the application wrote.
    pub nvm_bytes_per_payload_byte: Option<f64>,
    /// Blocks of 4 KiB written to the disk for an application write.
    pub disk_blocks_per_write: Option<f64>,
    /// Share of blocks read or written that were cached.
    pub hit_ratio: Option<f64>,
    /// Application operations a second.
    pub ops_per_s: Option<f64>,
}

impl CountsRow {
    /// The numbers, in the order of the fields.
    #[must_use]
    pub fn numbers(&self) -> [Option<f64>; 6] {
        [
            self.lines_per_write,
            self.fences_per_write,
            self.nvm_bytes_per_payload_byte,
            self.disk_blocks_per_write,
            self.hit_ratio,
            self.ops_per_s,
        ]
    }
}

/// The cells of the rows, workload by workload.
#[must_use]
pub fn counts_cells(scope: &Scope) -> Vec<Cell> {
    let pairs = pairs(scope);
    pairs.into_iter().map(|(_, _, cell)| cell).collect()
}

/// The rows, with nothing where a cell was not measured.
#[must_use]
pub fn counts_rows(laboratory: &Laboratory) -> Vec<CountsRow> {
    let pairs = pairs(laboratory.scope()).into_iter();
    pairs
        .map(|(engine, workload, cell)| {
            let number = |metric: Metric| {
                laboratory
                    .outcome(&cell)
                    .and_then(|outcome: &Outcome| metric.of(outcome))
            };
            CountsRow {
                engine: engine.to_string(),
                workload: workload.to_owned(),
                lines_per_write: number(Metric::LinesPerWrite),
                fences_per_write: number(Metric::FencesPerWrite),
                nvm_bytes_per_payload_byte: number(Metric::NvmBytesPerPayloadByte),
                disk_blocks_per_write: number(Metric::DiskBlocksPerWrite),
                hit_ratio: number(Metric::HitRatio),
                ops_per_s: number(Metric::OperationsPerSecond),
            }
        })
        .collect()
}

fn pairs(scope: &Scope) -> Vec<(EngineName, &'static str, Cell)> {
    let mut pairs = Vec::new();
    for name in WorkloadSpec::NAMES {
        let workload = WorkloadSpec::named(name, scope.scale).expect("a listed workload");
        for engine in &scope.engines {
            let cell = Cell::Work(WorkCell::new(*engine, workload.clone()));
            pairs.push((*engine, name, cell));
        }
    }
    pairs
}
