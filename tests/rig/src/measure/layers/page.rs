//! The layers as a page: a share for each layer, the requests of each device, the study's numbers beside them.

use forebay_harness::{Chart, Page, Section, Series, Shape, Table, TextTable, digits};
use forebay_lab::elsewhere::{Claim, TABLE_1};

use super::contender::Contender;
use super::measured::{Measured, at};
use super::points::Figure;
use super::probe::Layers;
use super::stage;
use crate::measure::claims;

/// A column of a table: its name, and how it is told from what was counted.
type Column = (&'static str, fn(&Layers) -> f64);

/// Where a request's time goes, in µs.
pub const TIMES: [Column; 4] = [
    ("user", |layers| layers.user_us),
    ("kernel above the cache", |layers| layers.above_us),
    ("cache", |layers| layers.cache_us),
    ("devices", |layers| layers.device_us),
];

/// What reaches devices for one request of the client, or one of its bytes.
pub const COUNTS: [Column; 6] = [
    ("requests, fast", |layers| layers.fast_requests),
    ("bytes, fast", |layers| layers.fast_bytes),
    ("requests, slow", |layers| layers.slow_requests),
    ("bytes, slow", |layers| layers.slow_bytes),
    ("requests, metadata", |layers| layers.meta_requests),
    ("merged", |layers| layers.merged),
];

const WHAT_IT_IS: &str = "Where a request's time goes, and how many requests reach each device for it: figures 1, 4, 6 and 10 and Table 1 of Lee et \
     al., An Empirical Study on NVM-based Block I/O Caches (APSys 2018), in one guest, contender by contender in turn.";
const WHAT_IS_COUNTED: &str = "fio's requests go past the page cache to a file on ext4 (data=ordered). User is what fio needs between two requests. Above the \
     cache is the file system and what waits for it; the cache is its driver, nothing where a device is alone; devices are what lies below, \
     each with its driver and queue, as the study has it. dm's statistics count above and below each cache; the time of requests \
     side by side, and of those that a cache makes in the background, is added up.";
const WHAT_TIMES_ARE: &str = "The guest has one processor, which runs fio, the kernel and the devices' imitations: where several threads run, a layer's time \
     has waits for the processor in it. Counts and ratios are what to look at; times are not those of the devices imitated.";
const OF_OURS: &str = "Forebay is outside the guest: its pool in memory, its queue and its process are all below the guest's kernel and so count as its \
     fast device. What reaches its slow device is told by its own counters.";

/// The page; the JSON and the CSV come along.
pub fn page(
    results: &[Measured],
    said: &[Claim],
    is_quick: bool,
    [json, csv]: [String; 2],
) -> Page {
    let mut lead = [WHAT_IT_IS, WHAT_IS_COUNTED, WHAT_TIMES_ARE, OF_OURS]
        .map(str::to_owned)
        .to_vec();
    lead.push(stage::description());
    if is_quick {
        lead.push("A quick run: once, 0.4 s each. It shows that all works, no more.".into());
    }
    let sections = [
        claims::section(said),
        devices(results),
        layers(results, Figure::Alone, "Devices alone (figure 4)"),
        layers(results, Figure::Lookup, "Looking up (figure 6)"),
        layers(
            results,
            Figure::Mixed,
            "Reads and writes of many threads (figure 10)",
        ),
        table_1(results),
    ];
    let sections = sections.into_iter().filter(|section| !section.is_empty());
    Page {
        title: "Where a request's time goes".into(),
        lead,
        sections: sections.collect(),
        attachments: vec![
            ("layers.json".into(), "application/json", json),
            ("layers.csv".into(), "text/csv", csv),
        ],
    }
}

fn of(results: &[Measured], figure: Figure) -> Vec<&Measured> {
    let belongs = |result: &&Measured| result.point.figure == figure;
    results.iter().filter(belongs).collect()
}

fn devices(results: &[Measured]) -> Section {
    let results = of(results, Figure::Devices);
    let chart = (!results.is_empty()).then(|| Chart {
        title: "Throughput of devices and caches".into(),
        x_label: "device".into(),
        y_label: "IOPS".into(),
        places: results
            .iter()
            .map(|one| one.contender.name().into())
            .collect(),
        series: vec![Series {
            name: "IOPS".into(),
            values: results.iter().map(|one| Some(one.layers.iops)).collect(),
            ranges: results.iter().map(|one| Some(one.iops_range)).collect(),
            ..Series::default()
        }],
        shape: Shape::Bars,
        is_logarithmic: true,
    });
    let mut section = Section::new(
        "Devices and caches (figure 1)",
        "4 KiB, random, half of them writes, 16 threads with four on their way each, each in its own part of the file. An imitated \
         device gives back what it was told; what is compared is what a cache makes of two. The axis is logarithmic.",
        [chart],
    );
    if !results.is_empty() {
        section
            .tables
            .push(table("Requests for one of the client's", &results, &COUNTS));
    }
    section
}

/// A chart of shares and two tables for each point.
fn layers(results: &[Measured], figure: Figure, heading: &str) -> Section {
    let results = of(results, figure);
    let mut section = Section::new(
        heading,
        "Shares of a request's time, in percent; the times themselves, and what reaches the devices, are in the tables.",
        [],
    );
    for point in figure.points() {
        let of_point: Vec<&Measured> = results
            .iter()
            .copied()
            .filter(|result| result.point == point)
            .collect();
        if of_point.is_empty() {
            continue;
        }
        section.charts.push(shares(point.place, &of_point));
        let caption = format!("{}: µs a request", point.place);
        section.tables.push(table(&caption, &of_point, &TIMES));
        let caption = format!("{}: for one of the client's", point.place);
        section.tables.push(table(&caption, &of_point, &COUNTS));
    }
    section
}

fn shares(title: &str, results: &[&Measured]) -> Chart {
    let series = TIMES.map(|(name, number)| Series {
        name: name.into(),
        values: results
            .iter()
            .map(|one| Some(100.0 * number(&one.layers) / one.layers.whole_us()))
            .collect(),
        ..Series::default()
    });
    Chart {
        title: title.into(),
        x_label: "device".into(),
        y_label: "share of a request's time, %".into(),
        places: results
            .iter()
            .map(|one| one.contender.name().into())
            .collect(),
        series: series.into(),
        shape: Shape::Bars,
        is_logarithmic: false,
    }
}

fn table(caption: &str, results: &[&Measured], columns: &[Column]) -> (String, Table) {
    let names = columns.iter().map(|(name, _)| (*name).to_owned());
    let row = |result: &&Measured| {
        let numbers = columns
            .iter()
            .map(|(_, number)| Some(number(&result.layers)));
        (result.contender.name().to_owned(), numbers.collect())
    };
    let table = Table {
        columns: std::iter::once("device".to_owned()).chain(names).collect(),
        rows: results.iter().map(row).collect(),
        ..Table::default()
    };
    (caption.into(), table)
}

/// The study's Table 1, its numbers before ours.
fn table_1(results: &[Measured]) -> Section {
    let rows = TABLE_1.iter().filter_map(|(key, name, paper)| {
        let mut contenders = Contender::ALL.into_iter();
        let contender = contenders.find(|contender| contender.key() == *key)?;
        let layers = at(results, Figure::Mixed, "threads8", contender)?;
        let ours = [layers.device_us, layers.kernel_us(), layers.user_us];
        let pairs = paper.iter().zip(ours);
        let cells =
            pairs.map(|(paper, ours_us)| format!("{} / {}", digits(*paper), digits(ours_us / 1e3)));
        Some(std::iter::once((*name).to_owned()).chain(cells).collect())
    });
    let table = TextTable {
        columns: ["", "device", "kernel", "user"].map(str::to_owned).into(),
        rows: rows.collect(),
    };
    let is_measured = !table.rows.is_empty();
    Section {
        heading: "Table 1".into(),
        paragraphs: vec!["The numbers of figure 10, in ms: the study's / here.".into()],
        words: if is_measured {
            vec![("Table 1, in ms".into(), table)]
        } else {
            Vec::new()
        },
        ..Section::default()
    }
}
