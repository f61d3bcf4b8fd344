//! Runs cells, several at a time, and keeps each when it is done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use forebay_command::Failure;
use forebay_harness::thread_time;
use forebay_tvarak::Parameters;
use forebay_tvarak::figures::cell::Cell;
use forebay_tvarak::figures::measured::Measured;
use forebay_tvarak::measure::{NoOutcome, Scope, measure_prepared, prepare, steps};
use forebay_tvarak::name::Workload;
use forebay_tvarak::programs::prepared::Prepared;
use indicatif::ProgressBar;
use parking_lot::Mutex;

use crate::measuring::styled_bar;
use crate::tvarak::costs::{estimate_ms, is_dear};
use crate::tvarak::store::{Common, Kept, Store};

const BAR: &str = "[{bar:30}] {percent} %, {elapsed}, about {eta} left, {wide_msg}";

/// What is run, and how.
#[derive(Clone, Copy)]
pub struct Cells<'a> {
    /// What they have in common.
    pub common: Common<'a>,
    /// Where they are kept.
    pub store: &'a Store,
    /// So many at the same time.
    pub threads: usize,
    /// Set by Ctrl-C.
    pub is_called_off: &'a AtomicBool,
}

/// What the last programs were filled with. One of these is kept: it takes gigabytes.
type Shared = Mutex<Option<Arc<Prepared>>>;

/// Whether two cells run a program from the same filled regions, or are the same workload on other machines.
fn shares(one: &Cell, other: &Cell) -> bool {
    let is_program = matches!(one.workload, Workload::Program(_));
    one == other || is_program && (one.workload, one.seed) == (other.workload, other.seed)
}

/// What a cell's program is filled with, as cells before it had it if it is the same.
fn prepared(shared: &Shared, parameters: &Parameters, cell: &Cell) -> Option<Arc<Prepared>> {
    let own = prepare(parameters, cell.workload, cell.seed)?;
    let mut shared = shared.lock();
    match &*shared {
        Some(kept) if kept.is_like(&own) => Some(Arc::clone(kept)),
        _ => Some(Arc::clone(shared.insert(Arc::new(own)))),
    }
}

/// All of a seed before the next. Of these the dear ones last; before them, cells together that share what they are filled with, and else
/// the shortest first: a run that is interrupted has most of them.
fn ordered(cells: Vec<(u64, &Cell)>) -> Vec<(u64, &Cell)> {
    let group_ms = |one: &Cell| {
        let alike = cells.iter().filter(|(_, cell)| shares(cell, one));
        let ms = alike.map(|(ms, _)| *ms);
        ms.filter(|ms| !is_dear(*ms)).sum::<u64>()
    };
    let order_ms = |ms: u64, cell: &Cell| match is_dear(ms) {
        true => (true, ms),
        false => (false, group_ms(cell)),
    };
    let mut ordered = cells.clone();
    ordered.sort_by_cached_key(|(ms, cell)| {
        let (is_dear, order_ms) = order_ms(*ms, cell);
        (cell.seed, is_dear, order_ms, cell.workload.as_str(), *ms)
    });
    ordered
}

impl Cells<'_> {
    /// Runs those that are not kept yet: what failed, a line each.
    ///
    /// # Errors
    /// It was called off, or a cell cannot be kept.
    pub fn run(&self, cells: &[Cell]) -> Result<Vec<String>, Failure> {
        let left: Vec<(u64, &Cell)> = cells
            .iter()
            .filter(|cell| self.store.get(self.common, cell).is_none())
            .map(|cell| (estimate_ms(self.store, self.common, cell), cell))
            .collect();
        let left = ordered(left);
        let shared = Mutex::new(None);
        // Of milliseconds of one thread.
        let bar = styled_bar(left.iter().map(|(ms, _)| *ms).sum(), BAR);
        bar.set_message(format!("{} cells", left.len()));
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        let unkept = Mutex::new(None);
        thread::scope(|scope| {
            for _ in 0..self.threads.min(left.len()) {
                scope.spawn(|| {
                    while !self.is_called_off.load(Ordering::SeqCst) {
                        let Some((ms, cell)) = left.get(next.fetch_add(1, Ordering::Relaxed))
                        else {
                            return;
                        };
                        bar.set_message(cell.name());
                        match self.cell(cell, *ms, (&bar, &shared)) {
                            Ok(None) => {}
                            Ok(Some(failure)) => {
                                failures.lock().push(format!("{}: {failure}", cell.name()));
                            }
                            Err(error) => {
                                *unkept.lock() = Some(error);
                                return;
                            }
                        }
                    }
                });
            }
        });
        bar.finish_and_clear();
        if self.is_called_off.load(Ordering::SeqCst) {
            return Err(Failure::Cancelled(format!(
                "called off; no report was written, and what was measured is kept in {}: the next run goes on from there",
                self.store.path().display()
            )));
        }
        match unkept.into_inner() {
            Some(error) => Err(Failure::from(error)),
            None => Ok(failures.into_inner()),
        }
    }

    /// Runs one: why it failed, if it did.
    fn cell(
        &self,
        cell: &Cell,
        estimate_ms: u64,
        (bar, shared): (&ProgressBar, &Shared),
    ) -> std::io::Result<Option<String>> {
        let common = self.common;
        let parameters = match cell.parameters(common.parameters, common.scale_divisor) {
            Ok(parameters) => parameters,
            Err(error) => return Ok(Some(error.to_string())),
        };
        let scope = Scope {
            workload: cell.workload,
            design: cell.design,
            seed: cell.seed,
            is_checked: false,
        };
        let (all, mut shown_ms) = (steps(&parameters, cell.workload).max(1), 0);
        let prepared = prepared(shared, &parameters, cell);
        // Of this thread: others may keep it waiting.
        let start = thread_time();
        // A mistake of the simulator's costs this cell, not those that hours were spent on.
        let ran = catch_unwind(AssertUnwindSafe(|| {
            measure_prepared(&parameters, &scope, prepared, &mut |steps| {
                let now_ms = estimate_ms * steps.min(all) / all;
                bar.inc(now_ms.saturating_sub(shown_ms));
                shown_ms = now_ms.max(shown_ms);
                !self.is_called_off.load(Ordering::SeqCst)
            })
        }));
        bar.inc(estimate_ms.saturating_sub(shown_ms));
        match ran {
            Ok(Ok(outcome)) => {
                let kept = Kept {
                    measured: Measured::new(&parameters, &outcome),
                    host_ms: (thread_time() - start).as_millis() as u64,
                };
                self.store.put(common, cell, kept)?;
                Ok(None)
            }
            Ok(Err(NoOutcome::CalledOff)) => Ok(None),
            Ok(Err(NoOutcome::Lost(loss))) => Ok(Some(loss.to_string())),
            Err(_) => Ok(Some("the simulator stopped; what it said is above".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_tvarak::Design;
    use forebay_tvarak::figures::plan::Figure;

    #[test]
    fn dear_cells_come_last_and_the_others_of_a_program_together() {
        let all = Figure::Fig8.cells(2);
        let cost_ms = |cell: &Cell| match (cell.workload, cell.design) {
            (Workload::Program(_), Design::RegionsSync | Design::Passes) => 600_000,
            (Workload::Stream(_), _) => 10_000,
            _ => 60_000,
        };
        let ordered = ordered(all.iter().map(|cell| (cost_ms(cell), cell)).collect());
        assert_eq!(ordered.len(), all.len());
        let place = |(ms, cell): &(u64, &Cell)| (cell.seed, is_dear(*ms));
        assert!(ordered.is_sorted_by_key(place));
        // Of a seed each program is met once among those that are not dear.
        let cheap = ordered.iter().filter(|(ms, _)| !is_dear(*ms));
        let mut met: Vec<_> = cheap.map(|(_, cell)| (cell.seed, cell.workload)).collect();
        met.dedup();
        let is_new = |(at, met_now): (usize, _)| !met[..at].contains(met_now);
        assert!(met.iter().enumerate().all(is_new));
        assert!(matches!(ordered[0].1.workload, Workload::Stream(_)));
    }
}
