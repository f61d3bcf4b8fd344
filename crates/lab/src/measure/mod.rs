//! Runs a workload on an engine and says what it cost.
//!
//! Lines and fences "per write" are those of the write path: commits, write-back and evictions,
//! wherever they happen, without what a read persists when it brings a block in. That is what the
//! papers must have counted: with Tinca's fills in it, its advantage over Classic would shrink from
//! one read-write mix to the next, and it stays the same (Tinca §5.2.1). Bytes persisted for each
//! byte written are of everything, fills included.

mod cell;
mod counts;
mod measurement;
mod perform;
mod spread;

use std::time::{Duration, Instant};

use crate::Engine;
use forebay::{Counters, Result};

pub use cell::{Cell, CellOptions, run_cell};
pub use counts::CountsRow;
pub use measurement::Measurement;
pub use perform::{perform, wrong_blocks};
pub use spread::Spread;

use crate::workload::{Operation, Workload};

/// Told how many operations are done, of how many.
pub type Progress<'p> = &'p mut dyn FnMut(u64, u64);

/// Performs `operations` operations of the workload and measures them.
///
/// # Errors
/// The engine's.
pub fn run(
    engine: &dyn Engine,
    workload: &mut dyn Workload,
    operations: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Measurement> {
    let before = engine.stats();
    let mut asked = Operation::default();
    let mut in_reads = Counters::default();
    let mut elapsed = Duration::ZERO;
    let mut actions = Vec::new();
    let mut done = 0;
    while done < operations {
        let batch = perform::BATCH.min(operations - done);
        actions.clear();
        for _ in 0..batch {
            let operation = workload.next(&mut actions);
            asked.writes += operation.writes;
            asked.reads += operation.reads;
            asked.payload_bytes += operation.payload_bytes;
        }
        let start = Instant::now();
        in_reads += perform(engine, &actions)?;
        elapsed += start.elapsed();
        done += batch;
        progress(done);
    }
    Ok(Measurement {
        operations,
        asked,
        dirty_before: before.dirty_blocks,
        done: measurement::difference(&before, &engine.stats()),
        in_reads,
        elapsed,
    })
}

#[cfg(test)]
mod tests;
