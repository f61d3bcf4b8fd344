//! A real machine's block trace on several engines.

use super::counts::{both, row};
use super::{Cell, Extent, Laboratory, Scope, WorkCell};
use crate::disk::DiskKind;
use crate::engines::EngineName;
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
                cache_bytes: Some(cache_bytes),
                warm_up: Some(warm_up),
                operations: Some(requests - warm_up),
            },
        }
    }

    /// The cells of each engine of the scope.
    #[must_use]
    pub fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let engines = scope.engines.iter();
        engines
            .flat_map(|engine| both(self.cell(*engine)))
            .collect()
    }

    /// The rows of the cells that were measured.
    #[must_use]
    pub fn rows(&self, laboratory: &Laboratory) -> Vec<CountsRow> {
        let engines = laboratory.scope().engines.iter();
        let rows =
            engines.filter_map(|engine| row(laboratory, *engine, &self.name, self.cell(*engine)));
        let mut rows: Vec<CountsRow> = rows.collect();
        CountsRow::note_standings(&mut rows);
        rows
    }

    fn cell(&self, engine: EngineName) -> WorkCell {
        WorkCell {
            disk: self.disk,
            extent: self.extent,
            ..WorkCell::new(engine, self.workload.clone())
        }
    }
}
