//! Figures with made-up measurements, for tests.

use std::time::Duration;

use forebay::EmulatedMedia;

use super::{FigureResult, SeriesResult, select};
use crate::experiments::{Outcome, Run, Runs, WorkOutcome};
use crate::measure::Measurement;
use crate::workload::Operation;

/// A figure whose series write so many blocks a second at each place.
pub(super) fn figure(
    name: &str,
    places: &[&str],
    series: &[(&'static str, &[f64])],
) -> FigureResult {
    figure_beside(0.0, name, places, series)
}

/// The same, measured while others took a processor.
pub(super) fn loaded(
    name: &str,
    places: &[&str],
    series: &[(&'static str, &[f64])],
) -> FigureResult {
    figure_beside(1.0, name, places, series)
}

fn figure_beside(
    others: f64,
    name: &str,
    places: &[&str],
    series: &[(&'static str, &[f64])],
) -> FigureResult {
    let mut figures = select(&[name.to_owned()]).expect("a figure");
    let runs = |writes_per_s: &f64| {
        let measurement = Measurement {
            operations: 1000,
            asked: Operation {
                writes: 1000,
                ..Operation::default()
            },
            elapsed: Duration::from_secs_f64(1000.0 / writes_per_s),
            ..Measurement::default()
        };
        let media = EmulatedMedia::Pcm;
        let outcome = Outcome::Work(Box::new(WorkOutcome { measurement, media }));
        let run = Run {
            outcome,
            others: Some(others),
        };
        Some(Runs::new(vec![Some(run); 3]))
    };
    FigureResult {
        figure: figures.remove(0),
        places: places.iter().map(|place| (*place).to_owned()).collect(),
        series: series
            .iter()
            .map(|(key, values)| SeriesResult {
                key,
                name: (*key).to_owned(),
                runs: values.iter().map(runs).collect(),
            })
            .collect(),
    }
}
