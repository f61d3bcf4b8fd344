//! What was measured of mapped regions, to be written down: as a page, as rows of JSON, as text.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use forebay_harness::{Chart, Page, Section, Series, Shape, Table, digits, write_file};
use serde_json::{Value, json};

use super::{DaxScope, WindowRow};
use crate::txb::TransactionsReport;

/// What a run found.
#[derive(Clone, Copy, Debug)]
pub struct DaxReport<'a> {
    /// What it covered.
    pub scope: &'a DaxScope,
    /// A row for each tracker and period.
    pub rows: &'a [WindowRow],
    /// What transactions pay under each design, where that was measured.
    pub transactions: Option<TransactionsReport<'a>>,
    /// What could not be measured, a line each.
    pub not_measured: &'a [String],
}

/// What a plot shows of a row.
struct Shown {
    title: &'static str,
    of: fn(&WindowRow) -> u64,
}

const SHOWN: [Shown; 3] = [
    Shown {
        title: "half of the pages waited no longer (p50)",
        of: |row| row.p50_ns,
    },
    Shown {
        title: "99 of 100 pages waited no longer (p99)",
        of: |row| row.p99_ns,
    },
    Shown {
        title: "no page waited longer (maximum)",
        of: WindowRow::longest_ns,
    },
];

impl DaxReport<'_> {
    /// Writes `dax.html` and `dax.json` into `folder`, each whole or not at all.
    ///
    /// # Errors
    /// A file cannot be written; the error names it.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let json = self.to_json().to_string() + "\n";
        write_file(&folder.join("dax.json"), json.as_bytes())?;
        self.page().write(&folder.join("dax.html"))
    }

    /// The rows: those of windows have a `tracker`, those of transactions a `workload`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let windows = self.rows.iter().map(|row| json!(row));
        let transactions = self.transactions.map_or(&[][..], |report| report.rows);
        let transactions = transactions.iter().map(|row| json!(row));
        windows.chain(transactions).collect()
    }

    /// For a terminal: a line for each row.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if !self.rows.is_empty() {
            self.windows_to_text(&mut text);
        }
        if let Some(transactions) = self.transactions {
            text += &transactions.to_text();
        }
        for line in self.not_measured {
            let _ = writeln!(text, "not measured: {line}");
        }
        text
    }

    fn windows_to_text(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{:22} {:>8} {:>9} {:>9} {:>9} {:>8}",
            "window in s", "period", "p50", "p99", "maximum", "held"
        );
        for row in self.rows {
            let [p50, p99, longest] = SHOWN.map(|shown| digits(seconds((shown.of)(row))));
            let _ = writeln!(
                text,
                "{:22} {:>8} {p50:>9} {p99:>9} {longest:>9} {:>8}",
                name_of(row),
                digits(row.period_s),
                row.held_pages
            );
        }
    }

    /// The page; the rows come along.
    fn page(&self) -> Page {
        let mut sections = Vec::new();
        if !self.not_measured.is_empty() {
            sections.push(Section {
                heading: "Not measured".into(),
                paragraphs: self.not_measured.to_vec(),
                ..Section::default()
            });
        }
        if !self.rows.is_empty() {
            sections.push(self.windows());
        }
        sections.extend(self.transactions.map(|report| report.section()));
        Page {
            title: "Mapped regions: what redundancy costs, and when it comes".into(),
            lead: self.lead(),
            sections,
            attachments: vec![(
                "dax.json".into(),
                "application/json",
                self.to_json().to_string(),
            )],
        }
    }

    fn windows(&self) -> Section {
        let mut windows = Section::new(
            "How long a page is not protected",
            "From its first store, or rather from the end of the scan before it was found written, to the end of the \
             pass that covered it. The line of one period is what no design that makes passes can be below for a page \
             that is stored to just after one.",
            SHOWN.iter().map(|shown| Some(self.chart(shown))),
        );
        windows
            .tables
            .push(("What the passes did".into(), self.counts()));
        windows.paragraphs.extend(self.how_windows_were_measured());
        windows
    }

    fn lead(&self) -> Vec<String> {
        let mut lead = vec![
            "Times are this machine's and vary from run to run; lines, fences and pages are counted.".to_owned(),
        ];
        if self.scope.is_quick {
            lead.push("A quick run: fewer places, a smaller region, short times.".into());
        }
        lead
    }

    fn how_windows_were_measured(&self) -> [String; 2] {
        let scope = self.scope;
        [
            format!(
                "A region of {} MiB with a copy beside it. One thread stores into {} distinct pages a second, another \
                 one into four pages without a pause; each measurement lasts {} periods.",
                scope.size_bytes >> 20,
                scope.pages_s,
                scope.periods_each
            ),
            "Pages that never rest are covered with their writers held, once three passes have found them stored to \
             again. The tracker compare can hold no writers: there such a page waits for a pass that meets it at rest, \
             and the maximum counts what still waited in the end."
                .to_owned(),
        ]
    }

    fn chart(&self, shown: &Shown) -> Chart {
        let periods = &self.scope.periods;
        let one_period = periods.iter().map(|period| Some(period.as_secs_f64()));
        let mut series = vec![Series {
            name: "one period".into(),
            values: one_period.collect(),
            ..Series::default()
        }];
        for row in self.rows {
            let name = name_of(row);
            let place = periods
                .iter()
                .position(|period| period.as_secs_f64() == row.period_s);
            let Some(place) = place.filter(|_| row.pages > 0) else {
                continue;
            };
            let found = series.iter().position(|series| series.name == name);
            let index = found.unwrap_or_else(|| {
                let values = vec![None; periods.len()];
                series.push(Series {
                    name,
                    values,
                    ..Series::default()
                });
                series.len() - 1
            });
            series[index].values[place] = Some(seconds((shown.of)(row)));
        }
        Chart {
            title: shown.title.into(),
            x_label: "period in s".into(),
            y_label: "window in s".into(),
            places: periods
                .iter()
                .map(|period| digits(period.as_secs_f64()))
                .collect(),
            series,
            shape: Shape::Lines,
            is_logarithmic: true,
        }
    }

    fn counts(&self) -> Table {
        let columns = [
            "design and period",
            "pages covered",
            "passes",
            "over every page",
            "left to the next",
            "held",
            "still waiting",
            "lines",
            "fences",
        ];
        let row = |row: &WindowRow| {
            let counts = [
                row.pages,
                row.passes,
                row.compared_passes,
                row.skipped_pages,
                row.held_pages,
                row.waiting_pages,
                row.lines,
                row.fences,
            ];
            let name = format!("{}, {} s", name_of(row), digits(row.period_s));
            (name, counts.map(|count| Some(count as f64)).to_vec())
        };
        Table {
            columns: columns.map(str::to_owned).into(),
            rows: self.rows.iter().map(row).collect(),
            ..Table::default()
        }
    }
}

/// What a row's series is called.
fn name_of(row: &WindowRow) -> String {
    format!("{}, {}", row.design, row.tracker)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tracker: &str, period_s: f64, pages: u64) -> WindowRow {
        WindowRow {
            design: "async",
            tracker: tracker.into(),
            period_s,
            pages,
            p50_ns: 100_000_000,
            p99_ns: 150_000_000,
            max_ns: 200_000_000,
            oldest_ns: 700_000_000,
            waiting_pages: 4,
            passes: 3,
            compared_passes: 0,
            skipped_pages: 12,
            held_pages: 0,
            lines: 130 * pages,
            fences: 6,
        }
    }

    #[test]
    fn each_design_and_tracker_is_a_series_over_the_periods() {
        let scope = DaxScope::quick();
        let rows = [
            row("async-wp", 0.1, 10),
            row("async-wp", 0.4, 10),
            row("compare", 0.2, 0),
        ];
        let report = DaxReport {
            scope: &scope,
            rows: &rows,
            transactions: None,
            not_measured: &["fault: this kernel has none".to_owned()],
        };
        let [_, p99, longest] = SHOWN.map(|shown| report.chart(&shown));
        let names: Vec<&str> = p99.series.iter().map(|one| one.name.as_str()).collect();
        // Nothing was covered with compare.
        assert_eq!(names, ["one period", "async, async-wp"]);
        assert_eq!(p99.series[0].values, [Some(0.1), Some(0.2), Some(0.4)]);
        assert_eq!(p99.series[1].values, [Some(0.15), None, Some(0.15)]);
        assert_eq!(longest.series[1].values[0], Some(0.7));
        let html = report.page().to_html();
        for wanted in [
            "fault: this kernel has none",
            "A quick run",
            "16 MiB",
            "async, compare",
            "dax.json",
            "prefers-color-scheme",
        ] {
            assert!(html.contains(wanted), "{wanted}");
        }
        assert_eq!(report.to_json()[1]["p99_ns"], 150_000_000);
        assert_eq!(report.to_text().lines().count(), 1 + 3 + 1);
    }
}
