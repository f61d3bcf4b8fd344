//! The figures for programs: JSON with everything, CSV with a line for each series and place.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::compare::{compare, sentences};
use super::{FigureResult, Report, SeriesResult, verdicts};
use crate::experiments::{Metric, Runs, Spread};

/// Everything that a measurement has.
const METRICS: [&[Metric]; 3] = [Metric::OF_WORK, Metric::OF_TIME, Metric::OF_BLOCKS];

/// Everything measured, with what it was measured at.
pub(super) fn to_json(report: &Report<'_>) -> Value {
    let scope = report.scope;
    json!({
        "scale": scope.scale.to_string(),
        "seed": scope.seed,
        "is_quick": scope.is_quick,
        "flushes_content": scope.flushes_content,
        "runs": scope.runs,
        "machine": report.setting.to_json(),
        "engines": scope.engines.iter().map(|engine| engine.as_str()).collect::<Vec<_>>(),
        "verdicts": verdicts::to_json(&verdicts::rows(report.results, report.reports)),
        "counts": report.counts,
        "figures": report.results.iter().map(figure_to_json).collect::<Vec<_>>(),
        "failures": report.failures,
        "repeated_measurements": report.repeated,
    })
}

fn figure_to_json(result: &FigureResult) -> Value {
    let figure = &result.figure;
    let comparisons = compare(result);
    let reported: Vec<Value> = comparisons
        .iter()
        .map(|comparison| {
            json!({
                "what": comparison.what,
                "paper": comparison.paper,
                "ours": comparison.ours,
                "holds": comparison.is_like(),
                "forebay": comparison.forebay,
                "section": comparison.reported.section,
                "note": comparison.reported.note,
            })
        })
        .collect();
    json!({
        "figure": figure.name,
        "paper": figure.paper.name(),
        "number": figure.number,
        "title": figure.title,
        "places_are": figure.places_are,
        "metric": figure.metric.key(),
        "unit": figure.metric.label(),
        "baseline": figure.baseline,
        "others_processors": result.others(),
        "is_loaded": result.is_loaded(),
        "places": result.places,
        "series": result.series.iter().map(|series| json!({
            "key": series.key,
            "name": series.name,
            "values": (0..result.places.len())
                .map(|place| result.value(series, place))
                .collect::<Vec<_>>(),
            "least": ends(result, series, |spread| spread.least),
            "most": ends(result, series, |spread| spread.most),
            "runs": series.runs.iter()
                .map(|runs| runs.as_ref().map_or(0, Runs::count))
                .collect::<Vec<_>>(),
            "measurements": series.runs.iter().map(runs_to_json).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "reported": reported,
        "differences": sentences(result, &comparisons),
    })
}

/// One end of the runs of each place.
fn ends(result: &FigureResult, series: &SeriesResult, end: fn(Spread) -> f64) -> Vec<Option<f64>> {
    let places = 0..result.places.len();
    places
        .map(|place| result.spread(series, place).map(end))
        .collect()
}

/// The middle of every number that the runs have.
fn runs_to_json(runs: &Option<Runs>) -> Value {
    let Some(runs) = runs else {
        return Value::Null;
    };
    let fields = METRICS.concat().into_iter();
    fields
        .filter_map(|metric| Some((metric.key().to_owned(), json!(runs.of(metric)?))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// A line for each series and place: the figure's number in the middle and at the ends of its runs, its ratio to the baseline's, and
/// the rest of the measurement. Empty where a series has no such number.
pub(super) fn to_csv(results: &[FigureResult]) -> String {
    let metrics: Vec<Metric> = METRICS.concat();
    let mut csv = String::from("figure,place,series,metric,value,least,most,ratio_to_baseline");
    for metric in &metrics {
        let _ = write!(csv, ",{}", metric.key());
    }
    csv.push_str("\r\n");
    for result in results {
        let figure = &result.figure;
        for (place, name) in result.places.iter().enumerate() {
            for series in &result.series {
                let ratio = result.ratio((series.key, place), (figure.baseline, place));
                let spread = result.spread(series, place);
                let _ = write!(
                    csv,
                    "{},{},{},{},{},{},{},{}",
                    figure.name,
                    quote(name),
                    series.key,
                    figure.metric.key(),
                    number(spread.map(|spread| spread.median)),
                    number(spread.map(|spread| spread.least)),
                    number(spread.map(|spread| spread.most)),
                    number(ratio)
                );
                let runs = series.runs[place].as_ref();
                for metric in &metrics {
                    let value = runs.and_then(|runs| runs.of(*metric));
                    let _ = write!(csv, ",{}", number(value));
                }
                csv.push_str("\r\n");
            }
        }
    }
    csv
}

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn quote(text: &str) -> String {
    match text.contains(',') {
        true => format!("\"{text}\""),
        false => text.to_owned(),
    }
}
