//! Runs a workload on an engine and says what it cost.
//!
//! Lines and fences "per write" are those of the write path: commits, write-back and evictions,
//! without what a reading thread persists: the block that it brings in, and, where there is no cleaner, what it has to make leave for it. That is what the
//! papers must have counted: with Tinca's fills in it, its advantage over Classic would shrink from
//! one read-write mix to the next, and it stays the same (Tinca §5.2.1). Bytes persisted for each
//! byte written are of everything, fills included.

mod cell;
mod counts;
mod measurement;
mod perform;
mod spread;
mod standing;

use std::time::{Duration, Instant};

use crate::Engine;
use forebay::Result;
use forebay_harness::OthersWatch;

pub use cell::{Cell, CellOptions, run_cell};
pub use counts::CountsRow;
pub use measurement::Measurement;
pub use perform::{perform, wrong_blocks};
pub use spread::Spread;
pub use standing::Standing;

use crate::workload::{Action, Operation, Workload};

/// Told how many operations are done, of how many.
pub type Progress<'p> = &'p mut dyn FnMut(u64, u64);

/// Bytes that are made up before they are performed, at most. What an engine's own threads and its disk do meanwhile costs no
/// measured time, so there are few such pauses: a cell's measured operations usually have one.
const WINDOW_BYTES: usize = 256 << 20;

/// Operations that are performed between two looks at whether the run was called off.
const BATCH: u64 = 64;

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
    let mut of_all = Measurement {
        operations,
        dirty_before: before.dirty_blocks,
        ..Measurement::default()
    };
    let mut done = 0;
    while done < operations {
        let window = Window::make(workload, operations - done);
        let watch = OthersWatch::begin();
        let start = Instant::now();
        for batch in window
            .batches
            .iter()
            .take_while(|_| !workload.is_called_off())
        {
            of_all.in_reads += perform(engine, &batch.actions)?;
            done += batch.operations;
            progress(done);
        }
        let elapsed = start.elapsed();
        let others = (elapsed >= WATCHED_FROM)
            .then(|| watch.processors())
            .flatten();
        of_all.others = [of_all.others, others]
            .into_iter()
            .flatten()
            .reduce(f64::max);
        of_all.elapsed += elapsed;
        of_all.asked += window.asked;
        if workload.is_called_off() {
            break;
        }
    }
    of_all.done = measurement::difference(&before, &engine.stats());
    Ok(of_all)
}

/// The kernel counts what processors do in hundredths of a second: a shorter time says nothing of a seventh of one.
const WATCHED_FROM: Duration = Duration::from_millis(400);

/// Operations that are performed without a pause.
struct Window {
    batches: Vec<Batch>,
    asked: Operation,
}

struct Batch {
    operations: u64,
    actions: Vec<Action>,
}

impl Window {
    /// As many as are wanted, or as [`WINDOW_BYTES`] hold.
    fn make(workload: &mut dyn Workload, wanted: u64) -> Window {
        let mut window = Window {
            batches: Vec::new(),
            asked: Operation::default(),
        };
        let (mut made, mut bytes) = (0, 0);
        while made < wanted && bytes < WINDOW_BYTES {
            let operations = BATCH.min(wanted - made);
            let mut actions = Vec::new();
            for _ in 0..operations {
                window.asked += workload.next(&mut actions);
            }
            bytes += actions.iter().map(Action::bytes).sum::<usize>();
            made += operations;
            window.batches.push(Batch {
                operations,
                actions,
            });
        }
        window
    }
}

#[cfg(test)]
mod tests;
