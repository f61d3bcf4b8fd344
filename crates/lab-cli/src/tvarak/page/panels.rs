//! The figures: a plot for each panel, a colour for each design.

use forebay_harness::{Chart, Section, Series, Shape};
use forebay_tvarak::Design;
use forebay_tvarak::change::Change;
use forebay_tvarak::claims::Metric;
use forebay_tvarak::figures::plan::{
    Figure, MORE_DIMMS, PRESENTED, WAYS, diff_ways, redundancy_ways,
};
use forebay_tvarak::name::Workload;

use crate::tvarak::numbers::{METRICS, Report, said};

/// The programs of Figure 8, the beginnings of its workloads' names, and its panels.
const PROGRAMS: [(&str, &[&str], &str); 5] = [
    ("Redis", &["redis"], "abcd"),
    (
        "key-value data structures",
        &["ctree", "btree", "rbtree"],
        "efgh",
    ),
    ("N-Store", &["nstore"], "ijkl"),
    ("fio", &["fio"], "mnop"),
    ("stream", &["stream"], "qrst"),
];

/// Above so many times the baseline's, ratios are drawn over powers of ten.
const LINEAR_MOST: f64 = 8.0;

/// All of which anything was measured.
pub fn sections(report: &Report<'_>) -> Vec<Section> {
    let eight = PROGRAMS.map(|program| figure_8(report, program));
    let others = [
        figure_9(report),
        figure_10(report),
        eight_dimms(report),
        technology(report),
    ];
    let all = eight.into_iter().chain(others);
    all.filter(|section| !section.charts.is_empty()).collect()
}

/// A plot over workloads, bars of designs divided by the baseline's, all with the same change.
fn over_workloads(
    report: &Report<'_>,
    (title, metric): (String, Metric),
    (figure, change): (Figure, Change),
    workloads: &[Workload],
) -> Chart {
    let shown = figure.designs();
    let series = Design::ALL.into_iter().map(|design| {
        let sides = [(design, change), (Design::Baseline, change)];
        let is_shown = shown.contains(&design);
        let of = |of: &dyn Fn(Workload) -> Option<f64>| {
            let each = workloads
                .iter()
                .map(|workload| of(*workload).filter(|_| is_shown));
            each.collect::<Vec<_>>()
        };
        let ratio = |workload| report.results.ratio(workload, sides, metric);
        let has_said = change == Change::Nothing && report.common.scale_divisor == 1;
        let exactly = |workload| {
            let said =
                said(workload, design, metric).filter(|(least, most)| least == most && has_said);
            // More than 200 times as many accesses would leave nothing of the others to see.
            said.map(|(_, most)| most).filter(|most| *most < 50.0)
        };
        Series {
            name: design.as_str().into(),
            values: of(&|workload| Some(ratio(workload)?.mean)),
            spreads: of(&|workload| Some(ratio(workload)?.rms)),
            parts: of(&|workload| report.results.part(workload, sides, metric)),
            said: of(&exactly),
            ..Series::default()
        }
    });
    let series: Vec<Series> = series.collect();
    let values = series
        .iter()
        .flat_map(|series| series.values.iter().flatten());
    let most = values.fold(0.0_f64, |most, value| most.max(*value));
    Chart {
        title,
        x_label: "workload".into(),
        y_label: "baseline = 1".into(),
        places: workloads.iter().map(|workload| short(*workload)).collect(),
        series,
        shape: Shape::Bars,
        // Bars of two parts are not: the faint one would be too short.
        is_logarithmic: most > LINEAR_MOST && matches!(metric, Metric::Runtime | Metric::Energy),
    }
}

/// A workload's name where the program's is said already.
fn short(workload: Workload) -> String {
    let name = workload.as_str();
    let of_one = ["redis-", "fio-", "stream-", "nstore-"];
    let rest = of_one.iter().find_map(|program| name.strip_prefix(program));
    match workload {
        workload if PRESENTED.contains(&workload) && rest.is_none() => name.into(),
        _ => rest.unwrap_or(name).into(),
    }
}

fn has_any(chart: &Chart) -> bool {
    // The baseline alone says nothing.
    let others = chart.series.iter().skip(1);
    others
        .flat_map(|series| &series.values)
        .any(Option::is_some)
}

fn figure_8(report: &Report<'_>, (program, names, panels): (&str, &[&str], &str)) -> Section {
    let is_of = |workload: &Workload| names.iter().any(|name| workload.as_str().starts_with(name));
    let workloads: Vec<Workload> = Figure::Fig8.workloads().into_iter().filter(is_of).collect();
    let titles = [
        "runtime",
        "energy by Table 3",
        "accesses to NVM",
        "accesses to caches",
    ];
    let charts = METRICS.iter().zip(titles).zip(panels.chars());
    let charts = charts.map(|(((metric, _), what), panel)| {
        let title = format!("Figure 8({panel}): {program}, {what}");
        over_workloads(
            report,
            (title, *metric),
            (Figure::Fig8, Change::Nothing),
            &workloads,
        )
    });
    let mut paragraphs = vec![
        "The faint part of a bar is redundancy (accesses to NVM), or what is not of the first caches (accesses to caches). A dashed \
         line across a bar is the number that the paper's text has of it. Where a design takes more than eight times the baseline's, the \
         axis of runtime or energy has powers of ten."
            .to_owned(),
    ];
    if names == ["redis"] {
        paragraphs.push(
            "Six instances, as in the paper's plot; of one to six it says that the trends are the same. The asynchronous design is \
             in the paper's Table 1 alone; here and in all of Figure 8 it stands beside."
                .into(),
        );
        paragraphs.extend(energies(report));
    }
    if names == ["nstore"] {
        paragraphs.push("A single run, as in the paper.".into());
    }
    Section {
        heading: format!("Figure 8: {program}"),
        paragraphs,
        charts: charts.filter(has_any).collect(),
        is_folded: true,
        ..Section::default()
    }
}

/// What Redis takes of both energies: the paper does not say which of them its plot has.
fn energies(report: &Report<'_>) -> Option<String> {
    let of = |metric| {
        let shown = [Design::Tvarak, Design::TxbObject, Design::TxbPage].map(|design| {
            let sides = [design, Design::Baseline].map(|design| (design, Change::Nothing));
            let ratio = report.results.ratio(PRESENTED[0], sides, metric)?;
            Some(format!("{:.2} on {}", ratio.mean, design.as_str()))
        });
        let shown: Option<Vec<String>> = shown.into_iter().collect();
        Some(shown?.join(", "))
    };
    Some(format!(
        "Of energy §4.2 says that it is similar to runtime, and not whether it is of cores and DRAM, too: which one is meant decides how \
         designs compare. By Table 3, that is of caches, controllers and NVM, {} takes {}; with cores and DRAM, which are reconstructed, {}. \
         The claims are judged by each, the plots are by Table 3.",
        PRESENTED[0].as_str(),
        of(Metric::Energy)?,
        of(Metric::EnergyWithCores)?
    ))
}

fn figure_9(report: &Report<'_>) -> Section {
    let panel = |title: &str, workloads: &[Workload]| {
        let title = (format!("Figure 9: runtime, {title}"), Metric::Runtime);
        let mut chart = over_workloads(report, title, (Figure::Fig9, Change::Nothing), workloads);
        chart.places = workloads
            .iter()
            .map(|workload| workload.as_str().into())
            .collect();
        chart
    };
    let is_other = |workload: &Workload| !PRESENTED.contains(workload);
    let others: Vec<Workload> = Figure::Fig9
        .workloads()
        .into_iter()
        .filter(is_other)
        .collect();
    let charts = [
        panel("those that are presented", &PRESENTED),
        panel("those that are said to be alike", &others),
    ];
    Section {
        heading: "Figure 9: what each part brings".into(),
        paragraphs: vec![
            "naive is the basic controller (§3.2), ev has DAX-CL-checksums, ev-cached caches redundancy besides, and with diffs in the LLC \
             it is tvarak."
                .into(),
        ],
        charts: charts.into_iter().filter(has_any).collect(),
        is_folded: true,
        ..Section::default()
    }
}

fn figure_10(report: &Report<'_>) -> Section {
    let of = |what: &str, change: fn(u64) -> Change, workload: Workload| {
        let shown = Figure::Fig10.designs();
        let series = Design::ALL.into_iter().map(|design| {
            let ratio = |ways: &u64| {
                let sides = [(design, change(*ways)), (Design::Baseline, Change::Nothing)];
                let ratio = report.results.ratio(workload, sides, Metric::Runtime)?;
                Some(ratio.mean).filter(|_| shown.contains(&design) && design != Design::Baseline)
            };
            Series {
                name: design.as_str().into(),
                values: WAYS.iter().map(ratio).collect(),
                ..Series::default()
            }
        });
        Chart {
            title: format!("{what}: {}", workload.as_str()),
            x_label: "ways of 16".into(),
            y_label: "runtime, baseline = 1".into(),
            places: WAYS.map(|ways| ways.to_string()).to_vec(),
            series: series.collect(),
            shape: Shape::Bars,
            is_logarithmic: false,
        }
    };
    let redundancy =
        PRESENTED.map(|workload| of("Figure 10(a), redundancy", redundancy_ways, workload));
    let diffs = PRESENTED.map(|workload| of("Figure 10(b), diffs", diff_ways, workload));
    let both = redundancy
        .into_iter()
        .zip(diffs)
        .flat_map(|(first, second)| [first, second]);
    Section {
        heading: "Figure 10: how many ways of the LLC".into(),
        paragraphs: vec!["Table 3 has two ways of redundancy and one of diffs; what they take is the application's no longer.".into()],
        charts: both.filter(has_any).collect(),
        is_folded: true,
        ..Section::default()
    }
}

/// A section with one plot, of everything with a change.
fn changed(report: &Report<'_>, figure: Figure, change: Change, heading: &str) -> Section {
    let workloads = figure.workloads();
    let title = (format!("§4.8: runtime {change}"), Metric::Runtime);
    let mut chart = over_workloads(report, title, (figure, change), &workloads);
    chart.places = workloads
        .iter()
        .map(|workload| workload.as_str().into())
        .collect();
    Section {
        heading: heading.into(),
        paragraphs: vec!["The baseline has the same change.".into()],
        charts: Some(chart).filter(has_any).into_iter().collect(),
        is_folded: true,
        ..Section::default()
    }
}

fn eight_dimms(report: &Report<'_>) -> Section {
    changed(
        report,
        Figure::Dimms,
        Change::Dimms(MORE_DIMMS),
        "Eight DIMMs of NVM",
    )
}

fn technology(report: &Report<'_>) -> Section {
    changed(
        report,
        Figure::Technology,
        Change::AsDram,
        "NVM as fast as DRAM",
    )
}
