//! Charts that compare places: rates, and how large a share of all operations took no longer than so long.

use forebay_harness::{Chart, Series, Shape, Table};

use crate::outcome::{Curve, LATENCIES_PER_DECADE, latency_ns};
use crate::place::Place;
use crate::results::Results;

/// Those of the charts that compare programs, all but the slow disks, which have a chart of their own; each has the same colour in every
/// chart.
pub const PLACES: [Place; 9] = *Place::ALL.first_chunk().expect("fewer than all");

/// Names of rows, and titles.
pub const STORES: [(&str, &str); 3] = [
    ("redis", "Redis"),
    ("rocksdb", "RocksDB"),
    ("wiredtiger", "WiredTiger"),
];

/// Above this share of all operations nothing more is seen in a chart of shares.
const SHARE_MAX: f64 = 99.9;

/// Beyond so many points only powers of ten have names.
const NAMES_POINTS_MAX: usize = 3 * LATENCIES_PER_DECADE;

/// What the table of latencies shows, of all operations.
const TABLE_PERCENTS: [(f64, &str); 5] = [
    (50.0, "half"),
    (90.0, "90 %"),
    (99.0, "99 %"),
    (99.9, "99.9 %"),
    (100.0, "all"),
];

/// Bars on a logarithmic axis, without any series yet.
pub fn chart(title: &str, x_label: &str, y_label: &str, places: Vec<String>) -> Chart {
    Chart {
        title: title.into(),
        x_label: x_label.into(),
        y_label: y_label.into(),
        places,
        is_logarithmic: true,
        ..Chart::default()
    }
}

/// A series for each place; no chart where there is no number at all.
pub fn by_place(
    chart: Chart,
    names: &[String],
    value: impl Fn(&str, Place) -> Option<f64>,
) -> Option<Chart> {
    by_places(
        &PLACES.map(|place| (place, place.title())),
        chart,
        names,
        value,
    )
}

/// The same for these places, each with what it is called here.
pub fn by_places(
    places: &[(Place, &str)],
    mut chart: Chart,
    names: &[String],
    value: impl Fn(&str, Place) -> Option<f64>,
) -> Option<Chart> {
    let series = places.iter().map(|(place, title)| Series {
        name: (*title).into(),
        values: names.iter().map(|name| value(name, *place)).collect(),
        colour: Place::ALL.iter().position(|known| known == place),
        ..Series::default()
    });
    chart.series = series.collect();
    has_numbers(&chart).then_some(chart)
}

fn has_numbers(chart: &Chart) -> bool {
    let mut values = chart.series.iter().flat_map(|series| &series.values);
    values.any(Option::is_some)
}

/// How large a share of the operations called `name` took no longer than so long, in each place.
pub fn shares(results: &Results, name: &str, title: &str) -> Option<Chart> {
    let curves = PLACES.map(|place| results.curve(name, place));
    let known = || curves.iter().flatten().map(|curve| &curve.shares);
    let length = known().map(Vec::len).min()?;
    // Points before the first curve rises, and after all are complete, show nothing.
    let is_over = |point: usize| known().all(|shares| shares[point] >= SHARE_MAX);
    let has_begun = |point: usize| known().any(|shares| shares[point] > 0.0);
    let first = (0..length).find(|point| has_begun(*point))?;
    let first = first.saturating_sub(1);
    let last = (first..length).find(|point| is_over(*point));
    let last = last.unwrap_or(length - 1);
    let mut chart = chart(
        title,
        "µs",
        "% of them that took no longer",
        (first..=last)
            .map(|point| latency_name(point, last - first <= NAMES_POINTS_MAX))
            .collect(),
    );
    chart.shape = Shape::Lines;
    chart.is_logarithmic = false;
    let series = PLACES.iter().zip(&curves).map(|(place, curve)| Series {
        name: place.title().into(),
        values: (first..=last)
            .map(|point| Some(curve.as_ref()?.shares[point]))
            .collect(),
        ..Series::default()
    });
    chart.series = series.collect();
    Some(chart)
}

/// Each power of ten in microseconds, and two and five times it if `is_close`; the points between have no name.
fn latency_name(point: usize, is_close: bool) -> String {
    match (point % LATENCIES_PER_DECADE, is_close) {
        (0, _) | (3 | 7, true) => {
            let (micros, mut name) = (latency_ns(point) / 1000.0, String::new());
            // A tenth of a decade is not exactly a two or a five.
            let power = 10_f64.powi(micros.log10().floor() as i32);
            name += &((micros / power).round() * power * 10.0)
                .round()
                .to_string();
            match name.strip_suffix('0') {
                Some(whole) => whole.to_owned(),
                None => format!("0.{name}"),
            }
        }
        _ => String::new(),
    }
}

/// The latencies that shares of operations did not pass, in microseconds: by name and title, in each place.
pub fn latencies(results: &Results, cases: &[(String, String)]) -> Table {
    let row = |name: &str, title: &str, place: Place| {
        let curve: Curve = results.curve(name, place)?;
        let micros = |(percent, _)| Some(curve.at(percent)? / 1000.0);
        let title = format!("{title}: {}", place.title());
        Some((title, TABLE_PERCENTS.map(micros).into()))
    };
    let rows = cases.iter().flat_map(|(name, title)| {
        let places = PLACES.into_iter();
        places.filter_map(move |place| row(name, title, place))
    });
    let percents = TABLE_PERCENTS.map(|(_, percent)| percent.to_owned());
    Table {
        columns: std::iter::once("µs, at most, of".to_owned())
            .chain(percents)
            .collect(),
        rows: rows.collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn latencies_have_round_names_or_none() {
        let names: Vec<String> = (0..=22).map(|point| latency_name(point, true)).collect();
        let named: Vec<&str> = names.iter().map(String::as_str).collect();
        let shown: Vec<&str> = named.into_iter().filter(|name| !name.is_empty()).collect();
        assert_eq!(shown, ["0.1", "0.2", "0.5", "1", "2", "5", "10"]);
        assert_eq!(latency_name(43, true), "2000");
        assert_eq!(latency_name(43, false), "");
    }

    #[test]
    fn shares_are_shown_from_the_first_that_are_done_to_the_last() {
        let mut results = Results::default();
        for (place, latency_ns) in [(Place::Tmpfs, 900), (Place::Disk, 90_000)] {
            let mut outcome = Outcome::default();
            outcome
                .curves
                .extend(Curve::of("one".into(), &mut [latency_ns; 8]));
            results.add(place, 0, outcome);
        }
        let chart = shares(&results, "one", "One").expect("two places");
        // Above 0.9 µs is 1 µs, above 90 µs is 100.
        assert_eq!(
            chart.places.iter().filter(|name| !name.is_empty()).count(),
            7
        );
        assert_eq!(chart.places.len(), 2 * LATENCIES_PER_DECADE + 2);
        let tmpfs = &chart.series[1].values;
        assert_eq!((tmpfs[0], tmpfs[1]), (Some(0.0), Some(100.0)));
        let disk = &chart.series[0].values;
        assert_eq!(disk[disk.len() - 2..], [Some(0.0), Some(100.0)]);
        assert_eq!(shares(&results, "none", "None"), None);
        let table = latencies(&results, &[("one".into(), "One".into())]);
        assert_eq!(table.rows[1], ("One: tmpfs".into(), vec![Some(0.9); 5]));
    }
}
