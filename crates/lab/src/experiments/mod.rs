//! What is measured: cells, each an engine on some work with its media and options, measured as often as
//! the scope says however many figures show them.

mod blocks;
mod counts;
pub(crate) mod loads;
mod metric;
mod outcome;
mod repeats;
mod runs;
mod scope;
mod stand;
mod traces;
mod work;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::Result;
use forebay_harness::OthersWatch;

use crate::engines::EngineName;
pub use crate::measure::Spread;
pub use blocks::{BlockJob, BlockOutcome, Pattern};
pub use counts::{counts_cells, counts_rows};
pub use metric::Metric;
pub use outcome::Outcome;
pub(crate) use runs::is_disturbed;
pub use runs::{LOADED_FROM, Run, Runs};
pub use scope::{Contender, Scope};
pub use traces::TraceRun;
pub use work::{Extent, WorkCell, WorkOutcome};

use repeats::Repeats;
use stand::Stand;

/// One of the study's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockCell {
    /// The contender.
    pub contender: Contender,
    /// What.
    pub job: BlockJob,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    /// An engine under a workload.
    Work(WorkCell),
    /// One of the study's jobs.
    Blocks(BlockCell),
}

impl Cell {
    /// For progress and for failures.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Cell::Work(cell) => cell.name(),
            Cell::Blocks(BlockCell { contender, job }) => format!(
                "{contender}, {} threads, {} KiB, {} % writes",
                job.threads,
                job.request_bytes >> 10,
                job.write_percent
            ),
        }
    }

    /// The engine in it, if there is one.
    #[must_use]
    pub fn engine(&self) -> Option<EngineName> {
        match self {
            Cell::Work(cell) => Some(cell.engine),
            Cell::Blocks(cell) => cell.contender.engine(),
        }
    }

    /// The same with the cleaner that all designs have in common: the comparison that conclusions rest on. Forebay's is the
    /// same cell.
    #[must_use]
    pub fn with_cleaner(self) -> Cell {
        match self {
            Cell::Work(cell) => Cell::Work(cell.with_cleaner()),
            Cell::Blocks(cell) => Cell::Blocks(BlockCell {
                contender: cell.contender.with_cleaner(),
                ..cell
            }),
        }
    }
}

/// Measures cells and remembers what came out.
pub struct Laboratory {
    scope: Scope,
    folder: PathBuf,
    is_called_off: Arc<AtomicBool>,
    runs: HashMap<Cell, Runs>,
    failures: Vec<String>,
    repeats: Repeats,
    /// The memory or engine under the study's jobs, kept from one job to the next.
    stand: Option<Stand>,
}

impl Laboratory {
    /// A laboratory whose regions are made in `folder` and that stops when it is called off.
    #[must_use]
    pub fn new(scope: Scope, folder: PathBuf, is_called_off: Arc<AtomicBool>) -> Laboratory {
        Laboratory {
            scope,
            folder,
            is_called_off,
            runs: HashMap::new(),
            failures: Vec::new(),
            repeats: Repeats::default(),
            stand: None,
        }
    }

    /// What it covers.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// What was measured of a cell.
    #[must_use]
    pub fn runs(&self, cell: &Cell) -> Option<&Runs> {
        self.runs.get(cell)
    }

    /// What could not be measured, a line each.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// How many measurements were made again, because others used the processors meanwhile.
    #[must_use]
    pub fn repeated(&self) -> u32 {
        self.repeats.count()
    }

    /// Measures a cell once more, unless that was done as often as the scope says; one of the study's jobs as often at once. What
    /// others disturbed is measured again at once, within bounds. A failure is noted in [`Laboratory::failures`], and takes its round's
    /// place: the next run is of the next round. Called off, it ends soon and remembers nothing.
    pub fn measure(&mut self, cell: &Cell) {
        let done = self.runs.get(cell).map_or(0, Runs::rounds);
        if done >= self.scope.runs {
            return;
        }
        let result = self.measure_undisturbed(cell);
        if self.is_called_off.load(Ordering::Relaxed) {
            return;
        }
        match result {
            Ok(runs) => {
                for run in runs {
                    self.remember(cell, run);
                }
            }
            Err(error) => {
                self.fail(format!("{}: {error}", cell.name()));
                // A job's turns are measured all at once, or none is.
                if let Cell::Work(_) = cell {
                    self.runs.entry(cell.clone()).or_default().push(None);
                }
            }
        }
    }

    /// The least disturbed of as many measurements as [`Repeats`] allows.
    fn measure_undisturbed(&mut self, cell: &Cell) -> Result<Vec<Run>> {
        let most = |runs: &[Run]| runs.iter().filter_map(|run| run.others).reduce(f64::max);
        self.repeats.begin();
        let mut least = self.measure_one(cell)?;
        let mut repeats = 0;
        while !self.is_called_off.load(Ordering::Relaxed)
            && self.repeats.is_due(most(&least), repeats)
        {
            let again = self.measure_one(cell)?;
            if most(&again) < most(&least) {
                least = again;
            }
            repeats += 1;
        }
        Ok(least)
    }

    /// One measurement, with what others took of the processors meanwhile, the study's job with all its turns.
    fn measure_one(&mut self, cell: &Cell) -> Result<Vec<Run>> {
        let watch = OthersWatch::begin();
        let outcomes = self.outcomes(cell)?;
        let others = watch.processors();
        let run = |outcome: Outcome| {
            let others = [others, outcome.others()].into_iter().flatten();
            Run {
                others: others.reduce(f64::max),
                outcome,
            }
        };
        Ok(outcomes.into_iter().map(run).collect())
    }

    /// Notes a failure, once however many rounds have it.
    fn fail(&mut self, failure: String) {
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    /// Keeps a run. What is exact has to be what it was in the runs before.
    fn remember(&mut self, cell: &Cell, run: Run) {
        let runs = self.runs.entry(cell.clone()).or_default();
        runs.push(Some(run));
        let mut both = runs.iter().map(|run| &run.outcome);
        if let (Cell::Work(work), Some(first), Some(last)) = (cell, both.next(), both.last())
            && work.is_exact()
            && !first.counts_as(last)
        {
            let failure = format!(
                "{}: its counts are not those of the run before, and the same work has the same",
                cell.name()
            );
            self.fail(failure);
        }
    }

    fn outcomes(&mut self, cell: &Cell) -> Result<Vec<Outcome>> {
        match cell {
            Cell::Work(cell) => {
                // The memory of the study's jobs is not kept beside a workload's.
                self.stand = None;
                let outcome = cell.measure(&self.scope, &self.folder, &self.is_called_off)?;
                Ok(vec![Outcome::Work(Box::new(outcome))])
            }
            Cell::Blocks(cell) => {
                let outcomes = self.measure_blocks(cell)?;
                Ok(outcomes.into_iter().map(Outcome::Blocks).collect())
            }
        }
    }

    fn measure_blocks(&mut self, cell: &BlockCell) -> Result<Vec<BlockOutcome>> {
        let span_bytes = cell.job.span_bytes;
        let kept = self.stand.take();
        let stand = match kept.filter(|stand| stand.serves(cell.contender, span_bytes)) {
            Some(stand) => stand,
            None => Stand::new(&self.scope, &self.folder, cell.contender, span_bytes)?,
        };
        let stand = self.stand.insert(stand);
        stand.run(&cell.job, &self.scope, &self.is_called_off)
    }
}

/// The order in which to measure cells, each once a round: workloads as they come, then the study's jobs by
/// contender, so that one filled engine serves all of its jobs.
#[must_use]
pub fn in_order(cells: Vec<Cell>) -> Vec<Cell> {
    let mut work = Vec::new();
    let mut jobs = Vec::new();
    for cell in cells {
        match cell {
            Cell::Blocks(cell) => jobs.push(cell),
            Cell::Work(_) if work.contains(&cell) => {}
            Cell::Work(_) => work.push(cell),
        }
    }
    // Jobs that write come last, after those that only read what was filled in.
    jobs.sort_by_key(|cell| {
        (
            cell.contender,
            cell.job.span_bytes,
            cell.job.write_percent > 0,
            cell.job,
        )
    });
    jobs.dedup();
    work.extend(jobs.into_iter().map(Cell::Blocks));
    work
}
