//! The figures as one page: for each its plot as ratios with the paper's numbers, its plot as
//! measured, the paper's numbers beside ours, the exact counts, and a sentence on what differs.

use forebay_harness::{Page, Section, Table, digits};

use super::charts::charts;
use super::compare::{Comparison, compare, sentences};
use super::{FigureResult, Report, counts_page, output, verdicts};
use crate::experiments::Metric;

/// The page; the JSON and the CSV come along.
pub(super) fn page(report: &Report<'_>) -> Page {
    let mut sections = Vec::new();
    let rows = verdicts::rows(report.results, report.reports);
    if !report.results.is_empty() {
        sections.push(verdicts::section(&rows, report.results, report.counts));
    }
    sections.push(method(report));
    if !report.failures.is_empty() {
        sections.push(text_section("Not measured", report.failures.to_vec()));
    }
    if !report.counts.is_empty() {
        sections.push(counts_page::section(report.counts));
    }
    let mut shown: Vec<(String, Table)> = Vec::new();
    for result in report.results {
        sections.push(section(result, &mut shown));
    }
    Page {
        title: "NVM caches: the papers' figures, theirs and ours".into(),
        lead: lead(report, &rows),
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

fn text_section(heading: &str, paragraphs: Vec<String>) -> Section {
    Section {
        heading: heading.into(),
        paragraphs,
        ..Section::default()
    }
}

/// The load and the machine, and what it comes to.
fn lead(report: &Report<'_>, rows: &[verdicts::Row]) -> Vec<String> {
    let comparisons = report.results.iter().flat_map(compare);
    let put_off = comparisons.filter(Comparison::is_put_off).count();
    let mut lead = report.setting.sentences();
    if report.repeated > 0 {
        lead.push(format!(
            "Others disturbed {} measurements, which were made again.",
            report.repeated
        ));
    }
    if put_off > 0 {
        lead.push(format!(
            "{put_off} of the papers' numbers are times that others' load spoilt; they are not judged."
        ));
    }
    if !report.results.is_empty() {
        lead.extend(verdicts::shares(rows));
    }
    lead
}

/// What a reader has to know of how numbers came about.
fn method(report: &Report<'_>) -> Section {
    let scope = report.scope;
    let engines: Vec<&str> = scope.engines.iter().map(|engine| engine.as_str()).collect();
    let mut paragraphs = vec![
        format!(
            "The engines {} on the same memory, the same disk and the same work. Scale {}: the papers' \
             cache and data sets divided by {}, blocks and inodes as they are. Seed {}. Each workload ran {} times, in rounds, on fresh \
             memory and a fresh disk: numbers are the middle ones, ratios those of each round, and the line over a bar or a mark goes from \
             the lowest to the highest.",
            engines.join(", "),
            scope.scale,
            scope.scale.divisor(),
            scope.seed,
            scope.runs
        ),
        "Lines, fences, NVM bytes and disk blocks are counted where they happen, while real bytes are \
         stored, after the cache is full and replaces steadily. Times are this machine's, with the \
         medium's and the disk's delays emulated, and vary from run to run. The same work has the same counts in every run, which is \
         asserted, but for Forebay and for designs with the cleaner, whose threads choose when to write back."
            .to_owned(),
        "Each figure has a plot of ratios to its baseline and a plot as measured; a design has one colour in all of them, and of times \
         stands there twice: as printed, and faint with the cleaner that all have in common. Which is faster is told by the second. What the \
         paper's text says of it stands beside, hatched or hollow. The papers' plots are not text, so a figure whose prose has no numbers \
         shows ours alone."
            .to_owned(),
    ];
    paragraphs.push(match scope.flushes_content {
        false => "All engines stream the content of blocks past the caches.".to_owned(),
        true => "The papers' engines store the content of blocks and flush each line; Forebay streams it.".to_owned(),
    });
    if scope.is_quick {
        paragraphs.push("A quick run: fewer places, smaller sizes, short times.".into());
    }
    text_section("How it was measured", paragraphs)
}

fn section(result: &FigureResult, shown: &mut Vec<(String, Table)>) -> Section {
    let figure = &result.figure;
    let comparisons = compare(result);
    let mut paragraphs = vec![figure.about.to_owned()];
    if result.is_loaded() {
        paragraphs.push(format!(
            "LOADED: others took up to {} of the processors while these times were measured.",
            digits(result.others().unwrap_or(0.0))
        ));
    }
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
        ..Section::default()
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
    let mut outcomes = result.series.iter().flat_map(|series| &series.runs);
    let first = outcomes.find_map(|runs| runs.as_ref()?.iter().next());
    let metrics = first.map_or(Metric::OF_WORK, |run| Metric::all_of(&run.outcome));
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
            let runs = series.runs[place].as_ref();
            let values = metrics.iter().map(|metric| runs?.of(*metric));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elsewhere::Reports;
    use crate::experiments::Scope;
    use crate::figures::Setting;
    use crate::figures::testing::{figure, loaded};
    use forebay_harness::{Machine, OthersWatch};

    const SPEEDS: [(&str, &[f64]); 2] = [("classic", &[100.0, 100.0]), ("tinca", &[250.0, 200.0])];

    #[test]
    fn times_of_a_loaded_machine_do_not_count_among_those_that_hold() {
        let results = [
            figure("tinca-7a", &["3/7", "5/5"], &SPEEDS),
            loaded(
                "spindle-6-webproxy",
                &["16 KiB"],
                &[("tinca", &[1.0]), ("spindle", &[1.4])],
            ),
        ];
        let report = Report {
            scope: &Scope::quick(7),
            setting: &Setting::since(&OthersWatch::begin(), Machine::here()),
            results: &results,
            counts: &[],
            failures: &[],
            repeated: 0,
            reports: &Reports::none(),
        };
        let rows = verdicts::rows(&results, &Reports::none());
        let lead = lead(&report, &rows).join(" ");
        for wanted in [
            "1 of the papers' numbers are times",
            "Of the 2 numbers and orders of the papers' texts that could be judged 2 hold: Tinca 2 of 2.",
        ] {
            assert!(lead.contains(wanted), "{lead}");
        }
    }

    #[test]
    fn the_page_says_its_scale_and_what_failed() {
        let setting = Setting {
            others: Some(0.7),
            ..Setting::since(&OthersWatch::begin(), Machine::here())
        };
        let results = [
            figure("tinca-7a", &["3/7", "5/5"], &SPEEDS),
            figure("tinca-7b", &["3/7", "5/5"], &SPEEDS),
        ];
        let report = Report {
            scope: &Scope::quick(7),
            setting: &setting,
            results: &results,
            counts: &[],
            failures: &["ubj under fio: no room".to_owned()],
            repeated: 3,
            reports: &Reports::none(),
        };
        let html = page(&report).to_html();
        for wanted in [
            "Scale 1/256",
            "Seed 7",
            "ubj under fio: no room",
            "The counts are those of Figure 7a.",
            "LOADED. Others took 0.700 of this machine",
            "Each workload ran 3 times",
            "Others disturbed 3 measurements",
        ] {
            assert!(html.contains(wanted), "{wanted}");
        }
        let csv = output::to_csv(&results);
        assert_eq!(csv.lines().count(), 1 + 2 * 2 * 2);
        assert!(csv.contains("tinca-7a,3/7,tinca,writes_per_s,"), "{csv}");
    }
}
