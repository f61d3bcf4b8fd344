//! A real machine's block trace on several engines.

use super::counts::counts_row;
use super::{Cell, Extent, Laboratory, Scope, WorkCell};
use crate::disk::DiskKind;
use crate::measure::CountsRow;
use crate::workload::{Trace, WorkloadSpec};

/// A trace, and what it runs on.
#[derive(Clone, Debug)]
pub struct TraceRun {
    workload: WorkloadSpec,
    name: String,
    disk: DiskKind,
    extent: Extent,
}

impl TraceRun {
    /// Replays `trace` over a cache of `cache_bytes` before `disk`. Of a hundred requests the first
    /// `warm_up_percent` fill the cache and are not measured; at least one is.
    #[must_use]
    pub fn new(
        trace: Trace,
        scope: &Scope,
        disk: DiskKind,
        cache_bytes: u64,
        warm_up_percent: u8,
    ) -> TraceRun {
        let requests = trace.requests();
        let warm_up = requests * u64::from(warm_up_percent.min(100)) / 100;
        let warm_up = warm_up.min(requests - 1);
        TraceRun {
            name: trace.name().to_owned(),
            workload: WorkloadSpec::trace(trace, scope.scale),
            disk,
            extent: Extent {
                cache_bytes,
                warm_up,
                operations: requests - warm_up,
            },
        }
    }

    /// A cell for each engine of the scope.
    #[must_use]
    pub fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let cell = |engine| {
            Cell::Work(WorkCell {
                disk: self.disk,
                extent: Some(self.extent),
                ..WorkCell::new(engine, self.workload.clone())
            })
        };
        scope.engines.iter().map(|engine| cell(*engine)).collect()
    }

    /// The rows of the cells that were measured.
    #[must_use]
    pub fn rows(&self, laboratory: &Laboratory) -> Vec<CountsRow> {
        let scope = laboratory.scope();
        let cells = self.cells(scope).into_iter().zip(&scope.engines);
        let rows = cells
            .filter_map(|(cell, engine)| counts_row(*engine, &self.name, laboratory.runs(&cell)?));
        rows.collect()
    }
}
