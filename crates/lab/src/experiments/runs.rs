//! What was measured of a cell, run by run: the middle counts, and how far the others are from it is said.

use super::{Metric, Outcome};
use crate::measure::Spread;

/// A machine is loaded when others take more than so much of a processor while something is measured.
pub const LOADED_FROM: f64 = 0.15;

/// Whether times say little, as others took so many processors meanwhile.
pub(crate) fn is_disturbed(others: Option<f64>) -> bool {
    others.is_some_and(|others| others > LOADED_FROM)
}

/// One run of a cell, on memory and a disk of its own.
#[derive(Clone, Debug)]
pub struct Run {
    /// What came out.
    pub outcome: Outcome,
    /// Processors that others took meanwhile, on average; none where the kernel does not tell.
    pub others: Option<f64>,
}

/// The runs of one cell, one a round; none in a round in which it failed.
#[derive(Clone, Debug, Default)]
pub struct Runs(Vec<Option<Run>>);

impl Runs {
    /// A run for each round.
    #[must_use]
    pub fn new(runs: Vec<Option<Run>>) -> Runs {
        Runs(runs)
    }

    /// That of the next round; none where it failed.
    pub fn push(&mut self, run: Option<Run>) {
        self.0.push(run);
    }

    /// Each round's; none where it failed.
    pub fn by_round(&self) -> impl Iterator<Item = Option<&Run>> {
        self.0.iter().map(Option::as_ref)
    }

    /// Each that did not fail.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.0.iter().flatten()
    }

    /// How many did not fail.
    #[must_use]
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// How many rounds there were.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.0.len()
    }

    /// The number of each round; none where it failed or has no such number.
    #[must_use]
    pub fn numbers(&self, metric: Metric) -> Vec<Option<f64>> {
        let of = |run: &Option<Run>| metric.of(&run.as_ref()?.outcome);
        self.0.iter().map(of).collect()
    }

    /// The middle and the ends of a number.
    #[must_use]
    pub fn spread(&self, metric: Metric) -> Option<Spread> {
        Spread::of(self.numbers(metric).into_iter().flatten().collect())
    }

    /// The middle of a number.
    #[must_use]
    pub fn of(&self, metric: Metric) -> Option<f64> {
        Some(self.spread(metric)?.median)
    }

    /// The most that others took of the machine's processors in any of the runs.
    #[must_use]
    pub fn others(&self) -> Option<f64> {
        let others = self.iter().filter_map(|run| run.others);
        others.reduce(f64::max)
    }

    /// Whether others used the processors in any of them, so that its times say little.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        is_disturbed(self.others())
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
            Some(run(30.0, Some(0.0))),
            Some(run(10.0, Some(0.7))),
            None,
            Some(run(20.0, None)),
        ]);
        let spread = Spread {
            median: 20.0,
            least: 10.0,
            most: 30.0,
        };
        assert_eq!(runs.spread(Metric::RequestsPerSecond), Some(spread));
        assert_eq!(runs.spread(Metric::LinesPerWrite), None);
        assert_eq!(runs.others(), Some(0.7));
        assert_eq!((runs.count(), runs.rounds()), (3, 4));
        let numbers = [Some(30.0), Some(10.0), None, Some(20.0)];
        assert_eq!(runs.numbers(Metric::RequestsPerSecond), numbers);
    }
}
