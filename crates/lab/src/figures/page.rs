//! The figures as one page: for each its plot as ratios with the paper's numbers, its plot as
//! measured, the paper's numbers beside ours, the exact counts, and a sentence on what differs.

use forebay_harness::{Chart, Page, Section, Series, Shape, Table};

use super::compare::{Comparison, compare, normalised, sentences};
use super::{FigureResult, Report, counts_page, output};
use crate::experiments::Metric;
use crate::paper::{Reported, Value};

/// Series of one plot at most.
const SERIES_MAX: usize = 8;

/// The page; the JSON and the CSV come along.
pub(super) fn page(report: &Report<'_>) -> Page {
    let mut sections = Vec::new();
    if !report.failures.is_empty() {
        sections.push(text_section("Not measured", report.failures.to_vec()));
    }
    if !report.counts.is_empty() {
        sections.push(counts_page::section(report.counts));
    }
    if let Some(section) = verdicts(report.results) {
        sections.insert(0, section);
    }
    let mut shown: Vec<(String, Table)> = Vec::new();
    for result in report.results {
        sections.push(section(result, &mut shown));
    }
    Page {
        title: "NVM caches: the papers' figures, theirs and ours".into(),
        lead: lead(report),
        sections,
        attachments: vec![
            (
                "lab.json".into(),
                "application/json",
                report.to_json().to_string(),
            ),
            ("lab.csv".into(), "text/csv", output::to_csv(report.results)),
        ],
    }
}

/// What holds of each figure's numbers, before anything else, and what explains what does not.
fn verdicts(results: &[FigureResult]) -> Option<Section> {
    let mut table = Table {
        columns: ["figure", "numbers compared", "hold", "largest factor"]
            .map(str::to_owned)
            .into(),
        ..Table::default()
    };
    let mut reasons = vec![
        "A number holds if ours is within a factor of 1.25 of the paper's and tells the designs apart as it does: a ratio at \
         least half as far from 1, on the same side; of a share what lacks to all of it is near, too."
            .to_owned(),
    ];
    for result in results {
        let comparisons = compare(result);
        let verdicts: Vec<bool> = comparisons.iter().filter_map(Comparison::is_like).collect();
        if verdicts.is_empty() {
            continue;
        }
        let holding = verdicts.iter().filter(|holds| **holds).count();
        let factors = comparisons.iter().filter_map(Comparison::factor);
        let largest = factors.reduce(f64::max);
        let counts = [verdicts.len(), holding].map(|count| Some(count as f64));
        let figure = &result.figure;
        table
            .rows
            .push((figure.heading(), [&counts[..], &[largest]].concat()));
        if holding < verdicts.len() && !figure.caveat.is_empty() {
            reasons.push(format!("Figure {}: {}", figure.number, figure.caveat));
        }
    }
    (!table.rows.is_empty()).then(|| Section {
        heading: "What holds of the papers' numbers".into(),
        paragraphs: reasons,
        charts: Vec::new(),
        tables: vec![("Figure by figure".into(), table)],
        is_folded: false,
    })
}

fn text_section(heading: &str, paragraphs: Vec<String>) -> Section {
    Section {
        heading: heading.into(),
        paragraphs,
        ..Section::default()
    }
}

fn lead(report: &Report<'_>) -> Vec<String> {
    let scope = report.scope;
    let comparisons: Vec<Comparison> = report.results.iter().flat_map(compare).collect();
    let compared: Vec<bool> = comparisons.iter().filter_map(Comparison::is_like).collect();
    let like = compared.iter().filter(|is_like| **is_like).count();
    let engines: Vec<&str> = scope.engines.iter().map(|engine| engine.as_str()).collect();
    let mut lead = vec![
        format!(
            "The engines {} on the same memory, the same disk and the same work. Scale {}: the papers' \
             cache and data sets divided by {}, blocks and inodes as they are. Seed {}.",
            engines.join(", "),
            scope.scale,
            scope.scale.divisor(),
            scope.seed
        ),
        "Lines, fences, NVM bytes and disk blocks are counted where they happen, while real bytes are \
         stored, after the cache is full and replaces steadily. Times are this machine's, with the \
         medium's and the disk's delays emulated, and vary from run to run; counts do not."
            .to_owned(),
        "Each figure has a plot of ratios to its baseline, with the numbers that the paper's text gives \
         as dashed lines across our bars, and a plot as measured. The papers' plots are not text, so a figure whose prose \
         has no numbers shows ours alone."
            .to_owned(),
    ];
    if !compared.is_empty() {
        lead.push(format!(
            "Of the papers' {} numbers that could be compared, {like} hold; what differs is said at each figure.",
            compared.len()
        ));
    }
    lead.push(match scope.flushes_content {
        false => "All engines stream the content of blocks past the caches.".to_owned(),
        true => "The papers' engines store the content of blocks and flush each line; Forebay streams it.".to_owned(),
    });
    if scope.is_quick {
        lead.push("A quick run: fewer places, smaller sizes, short times.".into());
    }
    lead
}

fn section(result: &FigureResult, shown: &mut Vec<(String, Table)>) -> Section {
    let figure = &result.figure;
    let comparisons = compare(result);
    let mut paragraphs = vec![figure.about.to_owned()];
    paragraphs.extend(sentences(result, &comparisons));
    let mut tables = Vec::new();
    if !comparisons.is_empty() {
        tables.push((
            "The paper's numbers and ours".into(),
            table_of(&comparisons),
        ));
        paragraphs.extend(notes(&comparisons));
    }
    if let Some(costs) = costs(result) {
        let caption = format!("Figure {}: what a write's time goes into", figure.number);
        tables.push((caption, costs));
    }
    let counts = counts(result);
    match shown.iter().find(|(_, table)| *table == counts) {
        Some((number, _)) => paragraphs.push(format!("The counts are those of Figure {number}.")),
        None => {
            tables.push((
                format!("Figure {}: counts and times", figure.number),
                counts.clone(),
            ));
            shown.push((figure.number.to_owned(), counts));
        }
    }
    Section {
        heading: figure.heading(),
        paragraphs,
        charts: charts(result),
        tables,
        is_folded: true,
    }
}

/// What is odd about the paper's numbers, each once.
fn notes(comparisons: &[Comparison]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for Comparison { reported, .. } in comparisons {
        let note = format!("{}: {}.", reported.section, reported.note);
        if !reported.note.is_empty() && !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

fn table_of(comparisons: &[Comparison]) -> Table {
    let rows = comparisons.iter().map(|comparison| {
        let values = vec![Some(comparison.paper), comparison.ours, comparison.forebay];
        (comparison.what.clone(), values)
    });
    Table {
        columns: ["what", "the paper", "ours", "forebay in its place"]
            .map(str::to_owned)
            .into(),
        rows: rows.collect(),
        ..Table::default()
    }
}

/// Every series at every place with its whole measurement.
fn counts(result: &FigureResult) -> Table {
    let mut outcomes = result
        .series
        .iter()
        .flat_map(|series| &series.outcomes)
        .flatten();
    let metrics = outcomes.next().map_or(Metric::OF_WORK, Metric::all_of);
    numbers(result, metrics)
}

/// For figures of speed: what a write's time goes into.
fn costs(result: &FigureResult) -> Option<Table> {
    let is_speed = matches!(
        result.figure.metric,
        Metric::WritesPerSecond | Metric::OperationsPerSecond | Metric::TimePerWrite
    );
    is_speed.then(|| numbers(result, Metric::OF_TIME))
}

fn numbers(result: &FigureResult, metrics: &[Metric]) -> Table {
    let mut rows = Vec::new();
    for (place, name) in result.places.iter().enumerate() {
        for series in &result.series {
            let outcome = series.outcomes[place].as_ref();
            let values = metrics.iter().map(|metric| metric.of(outcome?));
            rows.push((format!("{name}, {}", series.name), values.collect()));
        }
    }
    let columns = metrics.iter().map(|metric| metric.label().to_owned());
    Table {
        columns: std::iter::once(result.figure.places_are.to_owned())
            .chain(columns)
            .collect(),
        rows,
        ..Table::default()
    }
}

fn charts(result: &FigureResult) -> Vec<Chart> {
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
        let ours = result.series.iter().map(|series| Series {
            name: series.name.clone(),
            values: normalised(figure, result, series.key),
            ..Series::default()
        });
        let series = with_papers(result, ours.collect(), paper_ratios(result));
        charts.push(chart(
            format!(
                "Figure {}: {}, {} = 1",
                figure.number, figure.title, baseline.name
            ),
            format!("{} ÷ {}", figure.metric.label(), baseline.name),
            series,
        ));
    }
    let ours = result.series.iter().map(|series| Series {
        name: series.name.clone(),
        values: (0..result.places.len())
            .map(|place| result.value(series, place))
            .collect(),
        ..Series::default()
    });
    let series = with_papers(result, ours.collect(), paper_values(result));
    charts.push(chart(
        format!("Figure {}: {}, as measured", figure.number, figure.title),
        figure.metric.label().into(),
        series,
    ));
    charts
}

/// Ours, with a line across a design's bars where the paper has a number of it. What the paper says of no bar of ours, and in
/// plots without bars, is a series of its own.
fn with_papers(result: &FigureResult, ours: Vec<Series>, papers: Vec<Series>) -> Vec<Series> {
    let mut series = ours;
    for paper in papers {
        let is_of = |key: &str| paper.name == papers_name(key);
        let of = result.series.iter().position(|own| is_of(own.key));
        let has_bars = |own: &usize| {
            let bars = series[*own].values.iter();
            let lines = paper.values.iter().zip(bars);
            result.figure.shape == Shape::Bars
                && lines
                    .into_iter()
                    .all(|(line, bar)| line.is_none() || bar.is_some())
        };
        match of.filter(has_bars) {
            Some(own) => series[own].said = paper.values,
            None => series.push(paper),
        }
    }
    series
}

fn papers_name(key: &str) -> String {
    format!("paper: {key}")
}

/// The paper's ratios to the baseline: a series for each design it has numbers of, two where it
/// gives the ends of a range, which then stand at every place.
fn paper_ratios(result: &FigureResult) -> Vec<Series> {
    let figure = &result.figure;
    let to_baseline = |reported: &&Reported| reported.over == Some((figure.baseline, None));
    let mut list = SeriesList::new(result);
    for reported in crate::paper::of_figure(figure.name).filter(to_baseline) {
        let name = papers_name(reported.of);
        match reported.value {
            Value::Exactly(value) => list.put(&name, reported.place, value),
            Value::Everywhere(value) => list.put(&name, None, value),
            Value::UpTo(value) => list.put(&format!("{name}, at most"), None, value),
            Value::DownTo(value) => list.put(&format!("{name}, at least"), None, value),
            Value::Between(least, most) => {
                list.put(&format!("{name}, least"), None, least);
                list.put(&format!("{name}, most"), None, most);
            }
        }
    }
    list.series
}

fn is_absolute(reported: &&'static Reported) -> bool {
    reported.over.is_none()
}

/// The paper's numbers in the figure's own unit.
fn paper_values(result: &FigureResult) -> Vec<Series> {
    let mut list = SeriesList::new(result);
    for reported in crate::paper::of_figure(result.figure.name).filter(is_absolute) {
        if let Value::Exactly(value) = reported.value {
            list.put(&papers_name(reported.of), reported.place, value);
        }
    }
    list.series
}

/// Series that grow by name and place.
struct SeriesList<'a> {
    result: &'a FigureResult,
    series: Vec<Series>,
}

impl SeriesList<'_> {
    fn new(result: &FigureResult) -> SeriesList<'_> {
        SeriesList {
            result,
            series: Vec::new(),
        }
    }

    /// Puts a number at a place, or at all of them.
    fn put(&mut self, name: &str, place: Option<&str>, value: f64) {
        let places = self.result.places.len();
        let found = self.series.iter().position(|series| series.name == name);
        let index = found.unwrap_or_else(|| {
            self.series.push(Series {
                name: name.to_owned(),
                values: vec![None; places],
                ..Series::default()
            });
            self.series.len() - 1
        });
        let values = &mut self.series[index].values;
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
    use crate::experiments::Scope;
    use crate::figures::testing::figure;

    fn series<'a>(chart: &'a Chart, name: &str) -> Option<&'a [Option<f64>]> {
        let found = chart.series.iter().find(|series| series.name == name)?;
        Some(&found.values)
    }

    fn said<'a>(chart: &'a Chart, name: &str) -> Option<&'a [Option<f64>]> {
        let found = chart.series.iter().find(|series| series.name == name)?;
        Some(&found.said)
    }

    #[test]
    fn the_papers_numbers_are_lines_across_our_bars_where_there_are_some() {
        let charts = charts(&figure("tinca-7a", &["3/7", "5/5"], &SPEEDS));
        assert_eq!(said(&charts[0], "tinca"), Some(&[Some(2.5), Some(2.1)][..]));
        assert_eq!(series(&charts[0], "paper: tinca"), None);
        let unmeasured = [("classic", &[100.0, 100.0][..]), ("tinca", &[250.0][..])];
        let charts = super::charts(&figure("tinca-7a", &["3/7", "5/5"], &unmeasured));
        assert!(series(&charts[0], "paper: tinca").is_some());
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
            series(&ranges[0], "paper: spindle, least"),
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

    #[test]
    fn the_page_says_its_scale_and_what_failed() {
        let results = [
            figure("tinca-7a", &["3/7", "5/5"], &SPEEDS),
            figure("tinca-7b", &["3/7", "5/5"], &SPEEDS),
        ];
        let report = Report {
            scope: &Scope::quick(7),
            results: &results,
            counts: &[],
            failures: &["ubj under fio: no room".to_owned()],
        };
        let html = page(&report).to_html();
        for wanted in [
            "Scale 1/256",
            "Seed 7",
            "ubj under fio: no room",
            "The counts are those of Figure 7a.",
        ] {
            assert!(html.contains(wanted), "{wanted}");
        }
        let csv = output::to_csv(&results);
        assert_eq!(csv.lines().count(), 1 + 2 * 2 * 2);
        assert!(csv.contains("tinca-7a,3/7,tinca,writes_per_s,"), "{csv}");
    }
}
