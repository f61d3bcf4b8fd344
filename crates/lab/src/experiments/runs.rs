//! What was measured of a cell, run by run: the middle counts, and how far the others are from it is said.

use super::{Metric, Outcome};
use crate::measure::Spread;

/// A machine is loaded when others take more than so much of a processor while something is measured.
pub const LOADED_FROM: f64 = 0.15;

/// One run of a cell, on memory and a disk of its own.
#[derive(Clone, Debug)]
pub struct Run {
    /// What came out.
    pub outcome: Outcome,
    /// Processors that others took meanwhile, on average; none where the kernel does not tell.
    pub others: Option<f64>,
}

/// The runs of one cell, in the order of their rounds.
#[derive(Clone, Debug, Default)]
pub struct Runs(Vec<Run>);

impl Runs {
    /// So many runs.
    #[must_use]
    pub fn new(runs: Vec<Run>) -> Runs {
        Runs(runs)
    }

    /// One more.
    pub fn push(&mut self, run: Run) {
        self.0.push(run);
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The numbers of all runs; fewer where a run has no such number.
    #[must_use]
    pub fn numbers(&self, metric: Metric) -> Vec<f64> {
        let outcomes = self.0.iter().map(|run| &run.outcome);
        outcomes.filter_map(|outcome| metric.of(outcome)).collect()
    }

    /// The middle and the ends of a number.
    #[must_use]
    pub fn spread(&self, metric: Metric) -> Option<Spread> {
        Spread::of(self.numbers(metric))
    }

    /// The middle of a number.
    #[must_use]
    pub fn of(&self, metric: Metric) -> Option<f64> {
        Some(self.spread(metric)?.median)
    }

    /// The most that others took of the machine's processors in any of the runs.
    #[must_use]
    pub fn others(&self) -> Option<f64> {
        let others = self.0.iter().filter_map(|run| run.others);
        others.reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::BlockOutcome;

    #[test]
    fn the_middle_run_counts_and_the_ends_are_kept() {
        let run = |requests_per_s, others| Run {
            outcome: Outcome::Blocks(BlockOutcome {
                requests: 1,
                requests_per_s,
                bytes_per_s: 1.0,
                response_ns: 1.0,
            }),
            others,
        };
        let runs = Runs::new(vec![
            run(30.0, Some(0.0)),
            run(10.0, Some(0.7)),
            run(20.0, None),
        ]);
        let spread = Spread {
            median: 20.0,
            least: 10.0,
            most: 30.0,
        };
        assert_eq!(runs.spread(Metric::RequestsPerSecond), Some(spread));
        assert_eq!(runs.spread(Metric::LinesPerWrite), None);
        assert_eq!(runs.others(), Some(0.7));
    }
}
