//! Every engine on every workload, for people: plots, Forebay beside the others, the rows.

use forebay_harness::{Chart, Section, Series, Shape, Table, digits};

use super::charts::colour_of;
use crate::engines::EngineName;
use crate::measure::{CountsRow, Standing};

const ABOUT: &str = "For each application write, after the cache is full and replaces steadily; for each \
     operation where a workload does not write. Lines and fences are those of the write path, without \
     what a read persists to bring a block in; NVM bytes, for each byte that the application wrote, \
     are of everything.";

/// The lowest and the highest of a row's runs.
type Ends = fn(&CountsRow) -> (f64, f64);

/// One number of a row.
struct Column {
    title: &'static str,
    label: &'static str,
    of: fn(&CountsRow) -> f64,
    /// Whether a plot of it needs powers of ten.
    is_wide: bool,
    /// Of a throughput, the lowest and the highest of the runs.
    range: Option<Ends>,
}

const COLUMNS: [Column; 10] = [
    Column {
        title: "Lines",
        label: "lines/write",
        of: |row| row.lines_per_write,
        is_wide: true,
        range: None,
    },
    Column {
        title: "Lines with the cleaner",
        label: "lines, cleaner",
        of: |row| row.lines_per_write_cleaner,
        is_wide: true,
        range: None,
    },
    Column {
        title: "Fences",
        label: "fences/write",
        of: |row| row.fences_per_write,
        is_wide: true,
        range: None,
    },
    Column {
        title: "Fences with the cleaner",
        label: "fences, cleaner",
        of: |row| row.fences_per_write_cleaner,
        is_wide: true,
        range: None,
    },
    Column {
        title: "NVM bytes",
        label: "NVM bytes/byte",
        of: |row| row.nvm_bytes_per_payload_byte,
        is_wide: true,
        range: None,
    },
    Column {
        title: "Disk blocks",
        label: "disk blocks/write",
        of: |row| row.disk_blocks_per_write,
        is_wide: false,
        range: None,
    },
    Column {
        title: "Disk blocks with the cleaner",
        label: "blocks, cleaner",
        of: |row| row.disk_blocks_per_write_cleaner,
        is_wide: false,
        range: None,
    },
    Column {
        title: "Hit ratio",
        label: "hit ratio",
        of: |row| row.hit_ratio,
        is_wide: false,
        range: None,
    },
    Column {
        title: "Throughput",
        label: "operations/s",
        of: |row| row.ops_per_s,
        is_wide: true,
        range: Some(|row| (row.ops_per_s_least, row.ops_per_s_most)),
    },
    Column {
        title: "Throughput with the cleaner",
        label: "op/s, cleaner",
        of: |row| row.ops_per_s_cleaner,
        is_wide: true,
        range: Some(|row| (row.ops_per_s_cleaner_least, row.ops_per_s_cleaner_most)),
    },
];

/// The section of a page.
pub(super) fn section(rows: &[CountsRow]) -> Section {
    let mut paragraphs = vec![ABOUT.to_owned()];
    let loaded: Vec<String> = rows.iter().filter(|row| row.is_loaded).map(name).collect();
    if !loaded.is_empty() {
        paragraphs.push(format!(
            "LOADED: others used the processors while the throughput of {} of {} rows was measured: {}.",
            loaded.len(),
            rows.len(),
            loaded.join("; ")
        ));
    }
    let mut tables = Vec::new();
    let standing = standing(rows);
    if !standing.rows.is_empty() {
        tables.push(("Forebay ÷ the others with the cleaner".into(), standing));
    }
    tables.push(("Every row".into(), table(rows)));
    Section {
        heading: "Every engine on every workload".into(),
        paragraphs,
        charts: COLUMNS.iter().map(|column| chart(rows, column)).collect(),
        tables,
        is_folded: true,
        ..Section::default()
    }
}

/// The rows for a terminal.
#[must_use]
pub fn to_text(rows: &[CountsRow]) -> String {
    let mut text = format!("\n{:24}", "workload, engine");
    for column in &COLUMNS {
        text += &format!(" {:>17}", column.label);
    }
    text.push('\n');
    for row in rows {
        text += &format!("{:24}", name(row));
        for column in &COLUMNS {
            text += &format!(" {:>17}", digits((column.of)(row)));
        }
        text.push('\n');
    }
    text
}

fn name(row: &CountsRow) -> String {
    format!("{}, {}", row.workload, row.engine)
}

fn table(rows: &[CountsRow]) -> Table {
    let labels = COLUMNS.iter().map(|column| column.label.to_owned());
    Table {
        columns: std::iter::once("workload, engine".to_owned())
            .chain(labels)
            .collect(),
        rows: rows
            .iter()
            .map(|row| {
                let values = COLUMNS.iter().map(|column| Some((column.of)(row)));
                (name(row), values.collect())
            })
            .collect(),
        ..Table::default()
    }
}

fn chart(rows: &[CountsRow], column: &Column) -> Chart {
    let places = workloads(rows);
    let engines = EngineName::ALL.iter().map(|engine| engine.as_str());
    let series = engines
        .filter(|engine| rows.iter().any(|row| row.engine == *engine))
        .map(|engine| Series {
            name: engine.to_owned(),
            values: places
                .iter()
                .map(|workload| find(rows, workload, engine).map(column.of))
                .collect(),
            ranges: column.range.map_or(Vec::new(), |range| {
                let found = places.iter().map(|workload| find(rows, workload, engine));
                found.map(|row| row.map(range)).collect()
            }),
            colour: colour_of(engine),
            ..Series::default()
        });
    Chart {
        title: format!("{} of every engine on every workload", column.title),
        x_label: "workload".into(),
        y_label: column.label.into(),
        series: series.collect(),
        places,
        shape: Shape::Bars,
        is_logarithmic: column.is_wide,
    }
}

/// The workloads, in the order of the rows.
pub(super) fn workloads(rows: &[CountsRow]) -> Vec<String> {
    let mut names: Vec<String> = rows.iter().map(|row| row.workload.clone()).collect();
    names.dedup();
    names
}

/// The row of an engine on a workload.
pub(super) fn find<'a>(
    rows: &'a [CountsRow],
    workload: &str,
    engine: &str,
) -> Option<&'a CountsRow> {
    let mut rows = rows.iter();
    rows.find(|row| row.workload == workload && row.engine == engine)
}

/// Forebay's numbers divided by Spindle's, and by the best of all others with the cleaner, which all then have; its throughput
/// by the fastest of both forms, round by round.
fn standing(rows: &[CountsRow]) -> Table {
    let forebay = EngineName::Forebay.as_str();
    let ratio = |ours: f64, other: Option<f64>| {
        other.filter(|other| *other > 0.0).map(|other| ours / other)
    };
    let row = |workload: String| {
        let ours = find(rows, &workload, forebay)?;
        let others = || {
            rows.iter()
                .filter(|row| row.workload == workload && row.engine != forebay)
        };
        let spindle = find(rows, &workload, EngineName::Spindle.as_str());
        let of_spindle = |of: fn(&CountsRow) -> f64| ratio(of(ours), spindle.map(of));
        let of_least =
            |of: fn(&CountsRow) -> f64| ratio(of(ours), others().map(of).reduce(f64::min));
        let standing = |of: fn(&Standing) -> f64| ours.standing.as_ref().map(of);
        let values = vec![
            of_spindle(|row| row.lines_per_write_cleaner),
            of_least(|row| row.lines_per_write_cleaner),
            of_least(|row| row.fences_per_write_cleaner),
            of_least(|row| row.disk_blocks_per_write_cleaner),
            standing(|of| of.ops_per_s_vs_fastest),
            standing(|of| of.ops_per_s_vs_fastest_least),
            standing(|of| of.ops_per_s_vs_fastest_most),
        ];
        Some((workload, values))
    };
    let columns = [
        "workload",
        "lines ÷ spindle",
        "lines ÷ least",
        "fences ÷ least",
        "disk blocks ÷ least",
        "operations/s ÷ fastest",
        "its least",
        "its most",
    ];
    Table {
        columns: columns.map(str::to_owned).into(),
        rows: workloads(rows).into_iter().filter_map(row).collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: EngineName, workload: &str, number: f64) -> CountsRow {
        CountsRow {
            lines_per_write: number,
            lines_per_write_cleaner: number,
            fences_per_write_cleaner: number,
            disk_blocks_per_write_cleaner: number,
            ops_per_s_runs: vec![Some(number / 2.0); 3],
            ops_per_s_cleaner_runs: vec![Some(number); 3],
            ..CountsRow::blank(engine, workload)
        }
    }

    #[test]
    fn forebay_stands_beside_spindle_and_the_best_of_the_others() {
        let mut rows = [
            row(EngineName::Tinca, "tpcc", 8.0),
            row(EngineName::Spindle, "tpcc", 4.0),
            row(EngineName::Forebay, "tpcc", 2.0),
            row(EngineName::Tinca, "metadata", 1.0),
        ];
        CountsRow::note_standings(&mut rows);
        let standing = standing(&rows);
        let values = [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25].map(Some).to_vec();
        assert_eq!(standing.rows, [("tpcc".to_owned(), values)]);
        let chart = chart(&rows, &COLUMNS[0]);
        assert_eq!(chart.places, ["tpcc", "metadata"]);
        assert_eq!(chart.series[0].values, [Some(8.0), Some(1.0)]);
        assert_eq!(chart.series[2].values, [Some(2.0), None]);
    }
}
