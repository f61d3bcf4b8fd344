//! What was measured of transactions, to be written down: as sections of a page, as text.

use std::fmt::Write as _;

use forebay_harness::{Chart, Section, Series, Shape, Table, digits};

use super::design::Design;
use super::measure::{REPORTED, TransactionsRow, TransactionsScope, Workload};

/// What a run found of transactions.
#[derive(Clone, Copy, Debug)]
pub struct TransactionsReport<'a> {
    /// What it covered.
    pub scope: &'a TransactionsScope,
    /// A row for each workload and design.
    pub rows: &'a [TransactionsRow],
}

/// Loads that have a plot of run times each, and what the plot is called.
const TIMED: [(&[&str], &str); 3] = [
    (
        &["insert", "set"],
        "run time over none: new keys, and values set",
    ),
    (
        &["balanced"],
        "run time over none: as many updates as lookups",
    ),
    (&["remove"], "run time over none: keys removed"),
];
/// Loads whose counts have plots.
const COUNTED: &[&str] = &["insert", "set"];

type Of = fn(&TransactionsRow) -> Option<f64>;

impl TransactionsReport<'_> {
    /// For a terminal: a line for each row.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{:18} {:10} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8}\n",
            "a transaction", "design", "lines", "fences", "checksums", "parity", "ns", "× none"
        );
        for row in self.rows {
            let shown = |value: Option<f64>| value.map_or("–".into(), digits);
            let _ = writeln!(
                text,
                "{:18} {:10} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8}",
                row.workload.to_string(),
                row.design,
                shown(row.lines_per_transaction),
                shown(row.fences_per_transaction),
                shown(row.checksum_bytes_per_transaction),
                shown(row.parity_bytes_per_transaction),
                digits(row.ns_per_operation),
                shown(row.times_none),
            );
        }
        text + &self.order() + "\n"
    }

    /// Its section of a page.
    #[must_use]
    pub fn section(&self) -> Section {
        let times = TIMED.iter().map(|(loads, title)| self.times(loads, title));
        let counts = [
            (
                "cache lines written",
                "lines a transaction",
                lines as Of,
                false,
            ),
            (
                "read for checksums",
                "bytes a transaction",
                checksums as Of,
                true,
            ),
        ];
        let counts = counts.map(|(title, label, of, is_logarithmic)| {
            let title = format!("{title}: new keys, and values set");
            self.chart((&title, label), COUNTED, of, is_logarithmic)
        });
        let charts = counts.into_iter().chain(times).filter(has_numbers);
        let mut section = Section::new(
            "What redundancy costs a transaction",
            "none has neither checksums nor parity. async is this project's: passes behind the program. \
             txb-object and txb-page are TVARAK's two in software (CMU-PDL-19-105, §4): at a transaction's end, \
             before it counts, the checksum of each changed object or of each changed page, and the parity of the \
             lines that differ.",
            charts.map(Some),
        );
        section.paragraphs.extend(self.paragraphs());
        section.tables.push((
            "Of a transaction; the time of an operation".into(),
            self.table(),
        ));
        section.tables.push((
            "What the paper's text has, as run time over its Baseline's".into(),
            reported(),
        ));
        section
    }

    fn paragraphs(&self) -> Vec<String> {
        let scope = self.scope;
        vec![
            format!(
                "Regions of {} MiB in three extents and a parity; {} keys before the first round; {} rounds of {} \
                 operations by each design in turn. Times are the thread's processor time, and the median of the rounds. \
                 async has a pass at the end of each round, on the program's thread.",
                scope.size_bytes >> 20,
                digits(scope.keys as f64),
                scope.rounds,
                digits(scope.operations as f64)
            ),
            "The programs are libpmemobj's example maps and a table like Redis', over an undo log of the lab's own: \
             libpmemobj's own metadata cannot be covered from outside. The paper simulates memory of 60 and 150 ns with \
             caches that a battery keeps, so that nobody flushes; here every design flushes and fences what a \
             transaction changed. Its numbers stand beside ours where its text has any."
                .into(),
            self.order(),
        ]
    }

    /// Where the designs are in the paper's order, which has nothing of passes in numbers.
    fn order(&self) -> String {
        let lines = self.rising(&[Design::None, Design::TxbObject, Design::TxbPage], lines);
        let times = self.rising(&Design::ALL, |row| match row.design {
            Design::None => Some(1.0),
            _ => row.times_none,
        });
        format!(
            "Of the workloads with transactions, cache lines rise from none over txb-object to txb-page in {lines}; \
             times rise from none over async and txb-object to txb-page in {times}."
        )
    }

    /// In which workloads a number rises from each of the designs to the next, in words.
    fn rising(&self, designs: &[Design], of: Of) -> String {
        let workloads = self.workloads(|row| row.transactions > 0);
        let is_rising = |workload: &&Workload| {
            let values = designs
                .iter()
                .map(|design| self.value(**workload, *design, of));
            let values: Vec<Option<f64>> = values.collect();
            values.windows(2).all(|pair| pair[0] < pair[1])
        };
        let others = workloads.iter().filter(|workload| !is_rising(workload));
        let others: Vec<String> = others.map(Workload::to_string).collect();
        match others.is_empty() {
            true => "all".into(),
            false => format!("all but {}", others.join(", ")),
        }
    }

    fn workloads(&self, wanted: impl Fn(&TransactionsRow) -> bool) -> Vec<Workload> {
        let mut workloads: Vec<Workload> = Vec::new();
        for row in self.rows.iter().filter(|row| wanted(row)) {
            if !workloads.contains(&row.workload) {
                workloads.push(row.workload);
            }
        }
        workloads
    }

    fn value(&self, workload: Workload, design: Design, of: Of) -> Option<f64> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.workload == workload && row.design == design);
        row.and_then(of)
    }

    fn chart(
        &self,
        (title, y_label): (&str, &str),
        loads: &[&str],
        of: Of,
        is_logarithmic: bool,
    ) -> Chart {
        let workloads = self.workloads(|row| loads.contains(&row.workload.load()));
        let series = Design::ALL.map(|design| Series {
            name: design.to_string(),
            values: workloads
                .iter()
                .map(|workload| self.value(*workload, design, of))
                .collect(),
            ..Series::default()
        });
        Chart {
            title: title.into(),
            x_label: "program".into(),
            y_label: y_label.into(),
            places: workloads
                .iter()
                .map(|workload| workload.program().to_owned())
                .collect(),
            series: series.into(),
            shape: Shape::Bars,
            is_logarithmic,
        }
    }

    fn times(&self, loads: &[&str], title: &str) -> Chart {
        let label = "times the run time of none";
        let mut chart = self.chart((title, label), loads, |row| row.times_none, false);
        let workloads = self.workloads(|row| loads.contains(&row.workload.load()));
        for design in [Design::TxbObject, Design::TxbPage] {
            let of = |workload: &Workload| {
                let mut numbers = REPORTED.iter();
                numbers.find(|number| number.design == design && number.is_of(*workload))
            };
            let values = workloads
                .iter()
                .map(|workload| of(workload).map(|number| number.times_none));
            chart.series.push(Series {
                name: format!("{}, paper", design.as_str().trim_start_matches("txb-")),
                values: values.collect(),
                ..Series::default()
            });
        }
        chart
    }

    fn table(&self) -> Table {
        let columns = [
            "workload and design",
            "transactions",
            "lines",
            "fences",
            "checksum bytes",
            "parity bytes",
            "covered pages",
            "ns",
            "times none",
        ];
        let row = |row: &TransactionsRow| {
            let values = [
                Some(row.transactions as f64),
                row.lines_per_transaction,
                row.fences_per_transaction,
                row.checksum_bytes_per_transaction,
                row.parity_bytes_per_transaction,
                row.pages_covered_per_transaction,
                Some(row.ns_per_operation),
                row.times_none,
            ];
            (format!("{}, {}", row.workload, row.design), values.into())
        };
        Table {
            columns: columns.map(str::to_owned).into(),
            rows: self.rows.iter().map(row).collect(),
            ..Table::default()
        }
    }
}

fn lines(row: &TransactionsRow) -> Option<f64> {
    row.lines_per_transaction
}

fn checksums(row: &TransactionsRow) -> Option<f64> {
    row.checksum_bytes_per_transaction
        .filter(|bytes| *bytes > 0.0)
}

fn has_numbers(chart: &Chart) -> bool {
    let mut values = chart.series.iter().flat_map(|series| &series.values);
    values.any(Option::is_some)
}

fn reported() -> Table {
    let row = |number: &super::measure::Reported| {
        let program = number.program.unwrap_or("ctree, rbtree, btree");
        let name = format!(
            "{program} {}, {}: {} ({})",
            number.load, number.design, number.section, number.note
        );
        (name, vec![Some(number.times_none)])
    };
    Table {
        columns: vec!["of".into(), "times none".into()],
        rows: REPORTED.iter().map(row).collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::maps::MapKind;
    use super::super::measure::MapLoad;
    use super::*;

    fn rows(workload: Workload, times: [f64; 3]) -> Vec<TransactionsRow> {
        let times = [None].into_iter().chain(times.map(Some));
        let rows = Design::ALL.into_iter().zip(times);
        let row = |(design, times_none): (Design, Option<f64>)| TransactionsRow {
            workload,
            design,
            operations: 100,
            transactions: 100,
            lines_per_transaction: Design::ALL
                .iter()
                .position(|one| *one == design)
                .map(|place| place as f64),
            fences_per_transaction: Some(4.0),
            checksum_bytes_per_transaction: design.is_inline().then_some(4096.0),
            parity_bytes_per_transaction: None,
            pages_covered_per_transaction: None,
            ns_per_operation: 1000.0,
            times_none,
        };
        rows.map(row).collect()
    }

    #[test]
    fn the_papers_numbers_stand_beside_ours_and_what_is_out_of_order_is_named() {
        let scope = TransactionsScope::quick();
        let ctree = Workload::Map(MapKind::CTree, MapLoad::Insert);
        let rows = [
            rows(ctree, [1.1, 1.5, 3.0]),
            rows(Workload::TableSet, [1.6, 1.5, 3.0]),
        ]
        .concat();
        let report = TransactionsReport {
            scope: &scope,
            rows: &rows,
        };
        let order = report.order();
        assert!(order.contains("txb-page in all; times"), "{order}");
        assert!(order.ends_with("in all but table set."), "{order}");
        let section = report.section();
        assert_eq!(section.charts.len(), 3, "nothing was balanced or removed");
        let times = &section.charts[2];
        let names: Vec<&str> = times.series.iter().map(|one| one.name.as_str()).collect();
        let wanted = [
            "none",
            "async",
            "txb-object",
            "txb-page",
            "object, paper",
            "page, paper",
        ];
        assert_eq!(names, wanted);
        assert_eq!(times.places, ["ctree", "table"]);
        assert_eq!(times.series[5].values, [Some(2.71), Some(3.0)]);
        assert_eq!(section.tables[0].1.rows.len(), 8);
        assert_eq!(report.to_text().lines().count(), 1 + 8 + 1);
    }
}
