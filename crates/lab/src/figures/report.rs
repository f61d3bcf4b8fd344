//! What a run found, to be written down: as a page, as JSON, as CSV, as text.

use std::io;
use std::path::Path;

use forebay_harness::{digits, write_file};
use serde_json::{Value, json};

use super::compare::{compare, sentences};
use super::{FigureResult, Report, counts_page, output, page};

impl Report<'_> {
    /// Writes `lab.html`, `lab.json` and `lab.csv` into `folder`, each whole or not at all.
    ///
    /// # Errors
    /// A file cannot be written; the error names it.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let json = self.to_json().to_string() + "\n";
        write_file(&folder.join("lab.json"), json.as_bytes())?;
        let csv = output::to_csv(self.results);
        write_file(&folder.join("lab.csv"), csv.as_bytes())?;
        page::page(self).write(&folder.join("lab.html"))
    }

    /// Everything as one object; the rows of every engine and workload alone, as a list, where
    /// nothing else was asked for.
    #[must_use]
    pub fn to_json(&self) -> Value {
        if self.results.is_empty() {
            return json!(self.counts);
        }
        output::to_json(self)
    }

    /// For a terminal: a table for each figure, and what differs from the paper.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("Scale {}, seed {}\n", self.scope.scale, self.scope.seed);
        if !self.counts.is_empty() {
            text += &counts_page::to_text(self.counts);
        }
        for result in self.results {
            text += &figure_to_text(result);
        }
        text
    }
}

fn figure_to_text(result: &FigureResult) -> String {
    let figure = &result.figure;
    let widths = result
        .series
        .iter()
        .map(|series| series.name.chars().count());
    let width = widths.max().unwrap_or(0).max(8);
    let mut text = format!(
        "\n{} ({})\n{:16}",
        figure.heading(),
        figure.metric.label(),
        ""
    );
    for series in &result.series {
        text += &format!(" {:>width$}", series.name);
    }
    text.push('\n');
    for (place, name) in result.places.iter().enumerate() {
        text += &format!("{name:16}");
        for series in &result.series {
            let value = result.value(series, place).map_or("–".into(), digits);
            text += &format!(" {value:>width$}");
        }
        text.push('\n');
    }
    for sentence in sentences(result, &compare(result)) {
        text += &format!("  {sentence}\n");
    }
    text
}
