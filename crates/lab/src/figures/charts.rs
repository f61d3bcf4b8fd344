//! A figure's plots: as ratios to its baseline, and as measured; a design has one colour in all of them, and what its paper's
//! text says of it stands beside, hatched.

use forebay_harness::{Chart, Series};

use super::FigureResult;
use crate::engines::EngineName;
use crate::experiments::Spread;
use crate::paper::{Reported, Value};

/// Series of one plot at most.
const SERIES_MAX: usize = 12;

/// How the key of a series with the cleaner ends.
const CLEANED: &str = "-cleaner";

/// The plots of a figure.
pub(super) fn charts(result: &FigureResult) -> Vec<Chart> {
    let figure = &result.figure;
    let chart = |title: String, y_label: String, mut series: Vec<Series>| {
        series.truncate(SERIES_MAX);
        Chart {
            title,
            x_label: figure.places_are.into(),
            y_label,
            places: result.places.clone(),
            series,
            shape: figure.shape,
            is_logarithmic: false,
        }
    };
    let mut charts = Vec::new();
    if let Some(baseline) = result.series(figure.baseline) {
        let ours = of_ours(result, |key, place| {
            result.ratio_spread((key, place), (figure.baseline, place))
        });
        charts.push(chart(
            format!(
                "Figure {}: {}, {} = 1",
                figure.number, figure.title, baseline.name
            ),
            format!("{} ÷ {}", figure.metric.label(), baseline.name),
            with_papers(ours, paper_ratios(result)),
        ));
    }
    let ours = of_ours(result, |key, place| {
        result.spread(result.series(key)?, place)
    });
    charts.push(chart(
        format!("Figure {}: {}, as measured", figure.number, figure.title),
        figure.metric.label().into(),
        with_papers(ours, paper_values(result)),
    ));
    charts
}

/// A series for each of the figure's, with the key that tells its colour.
fn of_ours(
    result: &FigureResult,
    spread: impl Fn(&str, usize) -> Option<Spread>,
) -> Vec<(&'static str, Series)> {
    let all = result.series.iter().map(|series| {
        let places = 0..result.places.len();
        let spreads: Vec<Option<Spread>> = places.map(|place| spread(series.key, place)).collect();
        let drawn = Series {
            name: series.name.clone(),
            values: spreads
                .iter()
                .map(|spread| Some((*spread)?.median))
                .collect(),
            ranges: spreads.iter().map(|spread| ends(*spread)).collect(),
            colour: colour_of(series.key),
            is_faint: series.key.ends_with(CLEANED),
            ..Series::default()
        };
        (series.key, drawn)
    });
    all.collect()
}

fn ends(spread: Option<Spread>) -> Option<(f64, f64)> {
    let Spread { least, most, .. } = spread?;
    Some((least, most))
}

/// Ours, each followed by what the paper says of it; what it says of a design that is not there comes last.
fn with_papers(
    ours: Vec<(&'static str, Series)>,
    mut papers: Vec<(&'static str, Series)>,
) -> Vec<Series> {
    let mut series = Vec::new();
    for (key, own) in ours {
        series.push(own);
        let of_this = papers.extract_if(.., |(of, _)| *of == key);
        series.extend(of_this.map(|(_, paper)| paper));
    }
    series.extend(papers.into_iter().map(|(_, paper)| paper));
    series
}

/// The colour of an engine, or of what a figure has beside them, in every plot.
pub(super) fn colour_of(key: &str) -> Option<usize> {
    const COLOURS: [(&str, usize); 13] = [
        (EngineName::Forebay.as_str(), 0),
        (EngineName::Classic.as_str(), 1),
        (EngineName::Tinca.as_str(), 2),
        (EngineName::Spindle.as_str(), 3),
        (EngineName::Ubj.as_str(), 4),
        ("raw", 5),
        ("bcache", 6),
        ("dm-cache", 7),
        // Classic, as all figures have it, and what one figure each leaves out of it.
        ("journal", 1),
        ("no-journal", 8),
        ("journal-no-flush", 9),
        ("no-journal-no-flush", 10),
        ("no-metadata", 11),
    ];
    // With the cleaner that all have in common a design is the same design.
    let key = key.strip_suffix(CLEANED).unwrap_or(key);
    let found = COLOURS.iter().find(|(known, _)| *known == key);
    found.map(|(_, colour)| *colour)
}

/// The paper's ratios to the baseline: a series for each design it has numbers of, two where it
/// gives the ends of a range, which then stand at every place.
fn paper_ratios(result: &FigureResult) -> Vec<(&'static str, Series)> {
    let figure = &result.figure;
    let to_baseline = |reported: &&Reported| reported.over == Some((figure.baseline, None));
    let mut list = SeriesList::new(result);
    for reported in crate::paper::of_figure(figure.name).filter(to_baseline) {
        let mut put = |words, place, value| list.put((reported.of, words), place, value);
        match reported.value {
            Value::Exactly(value) => put("", reported.place, value),
            Value::Everywhere(value) => put("", None, value),
            Value::UpTo(value) => put(", at most", None, value),
            Value::DownTo(value) => put(", at least", None, value),
            Value::Between(least, most) => {
                put(", least", None, least);
                put(", most", None, most);
            }
            Value::Falls => {}
        }
    }
    list.series
}

fn is_absolute(reported: &&'static Reported) -> bool {
    reported.over.is_none()
}

/// The paper's numbers in the figure's own unit.
fn paper_values(result: &FigureResult) -> Vec<(&'static str, Series)> {
    let mut list = SeriesList::new(result);
    for reported in crate::paper::of_figure(result.figure.name).filter(is_absolute) {
        if let Value::Exactly(value) = reported.value {
            list.put((reported.of, ""), reported.place, value);
        }
    }
    list.series
}

/// Series that grow by name and place.
struct SeriesList<'a> {
    result: &'a FigureResult,
    series: Vec<(&'static str, Series)>,
}

impl SeriesList<'_> {
    fn new(result: &FigureResult) -> SeriesList<'_> {
        SeriesList {
            result,
            series: Vec::new(),
        }
    }

    /// Puts a number at a place, or at all of them.
    fn put(&mut self, (of, words): (&'static str, &str), place: Option<&str>, value: f64) {
        let name = format!("paper: {of}{words}");
        let places = self.result.places.len();
        let found = self
            .series
            .iter()
            .position(|(_, series)| series.name == name);
        let index = found.unwrap_or_else(|| {
            let series = Series {
                name,
                values: vec![None; places],
                colour: colour_of(of),
                is_hatched: true,
                ..Series::default()
            };
            self.series.push((of, series));
            self.series.len() - 1
        });
        let values = &mut self.series[index].1.values;
        match place {
            None => values.fill(Some(value)),
            Some(place) => {
                // A place that a quick run leaves out has no bar.
                if let Some(place) = self.result.place(place) {
                    values[place] = Some(value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::figure;

    fn series<'a>(chart: &'a Chart, name: &str) -> Option<&'a [Option<f64>]> {
        let found = chart.series.iter().find(|series| series.name == name)?;
        Some(&found.values)
    }

    #[test]
    fn what_a_paper_says_stands_beside_ours_in_its_colour() {
        let charts = charts(&figure("tinca-7a", &["3/7", "5/5"], &SPEEDS));
        let names: Vec<&str> = charts[0]
            .series
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(names, ["classic", "tinca", "paper: tinca"]);
        let [_, ours, theirs] = &charts[0].series[..] else {
            panic!("three series");
        };
        assert_eq!(ours.colour, theirs.colour);
        assert!(theirs.is_hatched && !ours.is_hatched);
        assert_eq!(theirs.values, [Some(2.5), Some(2.1)]);
    }

    /// Every series of every figure has a colour, and no two of a figure the same.
    #[test]
    fn a_design_has_one_colour_throughout() {
        for figure in crate::figures::all() {
            let plan = (figure.plan)(&crate::experiments::Scope::quick(1));
            let colours = plan.series.iter().map(|series| colour_of(series.key));
            let mut colours: Vec<usize> = colours.map(|colour| colour.expect("a colour")).collect();
            let count = colours.len();
            colours.sort_unstable();
            colours.dedup();
            assert_eq!(colours.len(), count, "{}", figure.name);
        }
    }

    const SPEEDS: [(&str, &[f64]); 2] = [("classic", &[100.0, 100.0]), ("tinca", &[250.0, 200.0])];

    #[test]
    fn the_papers_numbers_are_drawn_where_its_text_has_them() {
        let result = figure("tinca-8a", &["5", "20"], &SPEEDS);
        let charts = charts(&result);
        assert_eq!(charts.len(), 2, "as ratios, and as measured");
        assert_eq!(
            series(&charts[0], "tinca"),
            Some(&[Some(2.5), Some(2.0)][..])
        );
        // The text has a number for 5 users and for 60, which this run left out.
        assert_eq!(
            series(&charts[0], "paper: tinca"),
            Some(&[Some(1.8), None][..])
        );
        assert_eq!(series(&charts[1], "paper: tinca"), None);
        let ranges = super::charts(&figure("spindle-5a", &["0/10", "5/5"], &SPEEDS[1..]));
        assert_eq!(
            series(&ranges[0], "paper: spindle, at least"),
            Some(&[Some(1.13); 2][..])
        );
    }

    #[test]
    fn numbers_in_the_figures_own_unit_are_drawn_both_ways() {
        let result = figure("tinca-8c", &["5", "60"], &SPEEDS);
        let charts = charts(&result);
        let values = series(&charts[1], "paper: classic").expect("in its unit");
        assert_eq!(values, [Some(4.2), Some(7.0)]);
        // Nothing was written to the disk here, so that ours have no ratio; the paper's have.
        let ratios = series(&charts[0], "paper: tinca").expect("as a ratio");
        assert!(
            ratios
                .iter()
                .flatten()
                .all(|ratio| (0.42..0.46).contains(ratio))
        );
    }
}
