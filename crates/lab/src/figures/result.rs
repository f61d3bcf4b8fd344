//! A figure with its measurements.

use super::{Figure, Plan};
use crate::experiments::{Laboratory, Runs, Spread};

/// One series with what was measured.
#[derive(Clone, Debug)]
pub struct SeriesResult {
    /// What the table of the papers' numbers calls it.
    pub key: &'static str,
    /// What readers see.
    pub name: String,
    /// As many as there are places; none where nothing was measured.
    pub runs: Vec<Option<Runs>>,
}

/// A figure with its measurements.
#[derive(Clone, Debug)]
pub struct FigureResult {
    /// Which.
    pub figure: Figure,
    /// Its places.
    pub places: Vec<String>,
    /// Its series.
    pub series: Vec<SeriesResult>,
}

impl FigureResult {
    /// Collects what `laboratory` measured for `plan`.
    #[must_use]
    pub fn collect(figure: Figure, plan: Plan, laboratory: &Laboratory) -> FigureResult {
        let series = plan.series.into_iter().map(|series| {
            let runs = series.cells.iter();
            let runs = runs.map(|cell| laboratory.runs(cell.as_ref()?).cloned());
            SeriesResult {
                key: series.key,
                name: series.name,
                runs: runs.collect(),
            }
        });
        FigureResult {
            series: series.collect(),
            places: plan.places,
            figure,
        }
    }

    /// The series with this key.
    #[must_use]
    pub fn series(&self, key: &str) -> Option<&SeriesResult> {
        self.series.iter().find(|series| series.key == key)
    }

    /// Which place is called so.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.iter().position(|place| place == name)
    }

    /// The figure's number of a series at a place, in the middle of its runs and at their ends.
    #[must_use]
    pub fn spread(&self, series: &SeriesResult, place: usize) -> Option<Spread> {
        let runs = series.runs.get(place)?.as_ref()?;
        runs.spread(self.figure.metric)
    }

    /// The figure's number of a series at a place, in the middle of its runs.
    #[must_use]
    pub fn value(&self, series: &SeriesResult, place: usize) -> Option<f64> {
        Some(self.spread(series, place)?.median)
    }

    /// The number of the series `key` at a place, divided by that of `over` at its place, round by round.
    #[must_use]
    pub fn ratio_spread(
        &self,
        (key, place): (&str, usize),
        (over, over_place): (&str, usize),
    ) -> Option<Spread> {
        let numbers = |key, place: usize| {
            let runs = self.series(key)?.runs.get(place)?.as_ref()?;
            Some(runs.numbers(self.figure.metric))
        };
        Spread::of_ratios(&numbers(key, place)?, &numbers(over, over_place)?)
    }

    /// The middle of these ratios.
    #[must_use]
    pub fn ratio(&self, of: (&str, usize), over: (&str, usize)) -> Option<f64> {
        Some(self.ratio_spread(of, over)?.median)
    }

    /// The most that others took of the machine's processors while any of it was measured.
    #[must_use]
    pub fn others(&self) -> Option<f64> {
        let runs = self.series.iter().flat_map(|series| &series.runs);
        let others = runs.flatten().filter_map(Runs::others);
        others.reduce(f64::max)
    }

    /// Whether it shows times, and others used the processors meanwhile.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        let mut runs = self.series.iter().flat_map(|series| &series.runs);
        self.figure.metric.is_timed() && runs.any(|runs| runs.as_ref().is_some_and(Runs::is_loaded))
    }

    /// The same of one series at one place.
    #[must_use]
    pub fn is_loaded_at(&self, series: &SeriesResult, place: usize) -> bool {
        let runs = series.runs.get(place).and_then(Option::as_ref);
        self.figure.metric.is_timed() && runs.is_some_and(Runs::is_loaded)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::engines::EngineName;
    use crate::experiments::{Cell, Extent, Scope, WorkCell, loads};
    use crate::figures::{PlannedSeries, select};
    use crate::workload::Scale;

    /// A folder that is made only after the first of them has failed in the first round.
    fn two_rounds(cells: [&Cell; 2], folder: &Path) -> Laboratory {
        let scope = Scope {
            runs: 2,
            ..Scope::quick(1)
        };
        let is_called_off = Arc::new(AtomicBool::new(false));
        let mut laboratory = Laboratory::new(scope, folder.to_owned(), is_called_off);
        laboratory.measure(cells[0]);
        std::fs::create_dir(folder).expect("a folder");
        laboratory.measure(cells[1]);
        for cell in cells {
            laboratory.measure(cell);
        }
        laboratory
    }

    #[test]
    fn a_run_that_failed_leaves_the_others_in_their_rounds() {
        let cell = |engine| {
            Cell::Work(WorkCell {
                extent: Extent {
                    cache_bytes: Some(4 << 20),
                    warm_up: Some(8),
                    operations: Some(64),
                },
                ..WorkCell::new(engine, loads::fio(Scale::one_over(16_384), 50))
            })
        };
        let cells = [cell(EngineName::Tinca), cell(EngineName::Ubj)];
        let folder = tempfile::tempdir().expect("a folder");
        let laboratory = two_rounds([&cells[0], &cells[1]], &folder.path().join("regions"));
        let series = |key, cell: &Cell| PlannedSeries {
            key,
            name: key.into(),
            cells: vec![Some(cell.clone())],
        };
        let plan = Plan {
            places: vec!["5/5".into()],
            series: vec![series("tinca", &cells[0]), series("ubj", &cells[1])],
        };
        let figure = select(&["tinca-7a".into()]).expect("a figure").remove(0);
        let metric = figure.metric;
        let speeds = |cell| -> Vec<f64> {
            let runs = laboratory.runs(cell).expect("measured").iter();
            runs.map(|run| metric.of(&run.outcome).expect("a speed"))
                .collect()
        };
        let (ours, theirs) = (speeds(&cells[0]), speeds(&cells[1]));
        assert_eq!(
            (ours.len(), theirs.len()),
            (1, 2),
            "{:?}",
            laboratory.failures()
        );
        let result = FigureResult::collect(figure, plan, &laboratory);
        let ratio = result.ratio_spread(("tinca", 0), ("ubj", 0)).expect("one");
        let of_the_second_round = ours[0] / theirs[1];
        assert_eq!(
            (ratio.least, ratio.most),
            (of_the_second_round, of_the_second_round)
        );
    }
}
