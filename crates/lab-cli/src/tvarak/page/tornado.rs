//! The sweep: what each reconstructed parameter moves, the most first, and which verdicts it changes.

use forebay_harness::{Chart, Section, Series, Shape, Table};
use forebay_tvarak::Design;
use forebay_tvarak::change::Change;
use forebay_tvarak::claims::Metric;
use forebay_tvarak::figures::plan::PRESENTED;
use forebay_tvarak::figures::results::Results;
use forebay_tvarak::figures::sweep::{FACTORS, parameters};
use forebay_tvarak::name::Workload;

use crate::tvarak::numbers::{Report, Swept};

const ABOUT: &str = "Each parameter that the paper does not give, halved and doubled, under one workload of each program, with one \
     seed. A bar is by how many percentage points the overhead over the baseline, which has the same parameter, is another; a claim of \
     several workloads is judged by the one that was swept.";

/// Designs have the colours before.
const FIRST_COLOUR: usize = 10;
/// Parameters of one plot at most.
const PARAMETERS_MOST: usize = 8;
/// What moves nothing by a tenth of a point is not shown.
const POINTS_LEAST: f64 = 0.1;

/// The sweep, if any of it was measured.
pub fn section(report: &Report<'_>) -> Option<Section> {
    if report.swept.is_empty() {
        return None;
    }
    let shown = [Design::Tvarak, Design::TxbObject];
    let charts = PRESENTED
        .into_iter()
        .flat_map(|workload| shown.map(|design| chart(report, workload, design)));
    let changing = report
        .swept
        .iter()
        .filter(|swept| !swept.changed.is_empty());
    let rows = changing.map(|swept| {
        let changed = swept
            .changed
            .iter()
            .map(|judgement| format!("{} {}", judgement.claim.id, judgement.verdict.as_str()));
        let changed: Vec<String> = changed.collect();
        (
            (swept.vary.to_string(), vec![Some(changed.len() as f64)]),
            changed.join(", "),
        )
    });
    let (rows, remarks): (Vec<_>, Vec<_>) = rows.unzip();
    let table = Table {
        columns: ["variation", "claims", "what became of them"]
            .map(str::to_owned)
            .into(),
        rows,
        remarks,
    };
    let mut paragraphs = vec![ABOUT.to_owned()];
    if report.common.scale_divisor != 1 {
        paragraphs.push(
            "Here numbers are judged at the smaller size as well, to see what moves them; above they are not."
                .into(),
        );
    }
    Some(Section {
        heading: "The sweep of what is reconstructed".into(),
        paragraphs,
        charts: charts.flatten().collect(),
        tables: vec![("Verdicts that change".into(), table)],
        is_folded: true,
        ..Section::default()
    })
}

fn overhead(results: &Results, workload: Workload, design: Design) -> Option<f64> {
    let sides = [design, Design::Baseline].map(|design| (design, Change::Nothing));
    Some(results.ratio(workload, sides, Metric::Runtime)?.mean)
}

fn chart(report: &Report<'_>, workload: Workload, design: Design) -> Option<Chart> {
    let plain = overhead(&report.results, workload, design)?;
    let moved = |name: &str, factor: [u64; 2]| {
        let is_it = |swept: &&Swept| swept.vary.name == name && swept.vary.factor == factor;
        let swept = report.swept.iter().find(is_it)?;
        Some((overhead(&swept.results, workload, design)? - plain) * 100.0)
    };
    let mut rows: Vec<(String, [Option<f64>; 2])> = parameters()
        .into_iter()
        .map(|name| {
            let both = FACTORS.map(|factor| moved(&name, factor));
            (name, both)
        })
        .collect();
    let most = |both: &[Option<f64>; 2]| {
        both.iter()
            .flatten()
            .fold(0.0_f64, |most, one| most.max(one.abs()))
    };
    rows.retain(|(_, both)| most(both) >= POINTS_LEAST);
    rows.sort_by(|(_, one), (_, other)| most(other).total_cmp(&most(one)));
    rows.truncate(PARAMETERS_MOST);
    let series = ["halved", "doubled"]
        .into_iter()
        .enumerate()
        .map(|(index, name)| Series {
            name: name.into(),
            values: rows.iter().map(|(_, both)| both[index]).collect(),
            ..Series::default()
        });
    // Colours that no design has.
    let series: Vec<Series> = std::iter::repeat_n(Series::default(), FIRST_COLOUR)
        .chain(series)
        .collect();
    (!rows.is_empty()).then(|| Chart {
        title: format!(
            "{} on {}: {:.1} % over the baseline",
            workload.as_str(),
            design.as_str(),
            (plain - 1.0) * 100.0
        ),
        x_label: "parameter".into(),
        y_label: "percentage points".into(),
        places: rows.into_iter().map(|(name, _)| name).collect(),
        series,
        shape: Shape::Lying,
        is_logarithmic: false,
    })
}
