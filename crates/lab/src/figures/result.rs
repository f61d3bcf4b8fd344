//! A figure with its measurements.

use super::{Figure, Plan};
use crate::experiments::{Laboratory, Outcome};

/// One series with what was measured.
#[derive(Clone, Debug)]
pub struct SeriesResult {
    /// What the table of the papers' numbers calls it.
    pub key: &'static str,
    /// What readers see.
    pub name: String,
    /// As many as there are places; none where nothing was measured.
    pub outcomes: Vec<Option<Outcome>>,
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
            let outcomes = series.cells.iter();
            let outcomes = outcomes.map(|cell| laboratory.outcome(cell.as_ref()?).cloned());
            SeriesResult {
                key: series.key,
                name: series.name,
                outcomes: outcomes.collect(),
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

    /// The figure's number of a series at a place.
    #[must_use]
    pub fn value(&self, series: &SeriesResult, place: usize) -> Option<f64> {
        let outcome = series.outcomes.get(place)?.as_ref()?;
        self.figure.metric.of(outcome)
    }

    /// The number of the series `key` at a place, divided by that of `over` at its place.
    #[must_use]
    pub fn ratio(
        &self,
        (key, place): (&str, usize),
        (over, over_place): (&str, usize),
    ) -> Option<f64> {
        let value = self.value(self.series(key)?, place)?;
        let divisor = self.value(self.series(over)?, over_place)?;
        (divisor > 0.0).then(|| value / divisor)
    }
}
