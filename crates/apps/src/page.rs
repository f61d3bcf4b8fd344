//! The run as one page: programs beside each other, the workloads of each store, small writes by threads,
//! how long they took, and what was left out.

use forebay_report::{Chart, Page, Row, Section, Series, Shape, Table};

use crate::context::Context;
use crate::headline;
use crate::outcome::PERCENTS;
use crate::place::Place;
use crate::results::Results;

/// Those that are in most charts come first, which gives each the same colour there.
const PLACES: [Place; 6] = [
    Place::Disk,
    Place::Tmpfs,
    Place::Mount,
    Place::Preload,
    Place::DiskUnsynced,
    Place::Passthrough,
];

/// Each program's own number.
const PROGRAMS: [(&str, &str); 8] = [
    ("redis_set", "Redis SET"),
    ("redis_set_50_clients", "… 50 clients"),
    ("rocksdb_fillrandom", "RocksDB"),
    ("sqlite_delete", "SQLite DELETE"),
    ("sqlite_wal", "SQLite WAL"),
    ("wiredtiger_put", "WiredTiger"),
    ("postgres_pgbench", "PostgreSQL"),
    ("mariadb_sysbench", "MariaDB"),
];

const STORES: [(&str, &str); 3] = [
    ("redis", "Redis"),
    ("rocksdb", "RocksDB"),
    ("wiredtiger", "WiredTiger"),
];

const PATTERNS: [(&str, &str); 3] = [
    ("append", "at the end"),
    ("uniform", "anywhere"),
    ("zipf", "by Zipf's law"),
];
const UNITS: [(&str, &str); 2] = [("256b", "256 B"), ("16k", "16 KiB")];

/// The page.
pub fn page(results: &Results, rows: &[Row], complaints: &[String], context: &Context) -> Page {
    let pace = &context.pace;
    let mut lead = vec![
        format!(
            "Each number is the median of all rounds, {} here; in each round, each place had its turn, with \
             fresh directories and a fresh pool in memory. Every write was durable before it was acknowledged: \
             appendfsync always, sync=1, synchronous=FULL, or fdatasync after each write.",
            pace.rounds
        ),
        "tmpfs is what a sync costs when it costs nothing; it survives nothing.".to_owned(),
    ];
    if pace.is_quick {
        lead.push("A quick run: it shows that everything works, and measures little.".to_owned());
    }
    let mut sections = vec![asked(rows), programs(results)];
    sections.extend(workloads(results));
    sections.extend([small_writes(results, context), latencies(results)]);
    sections.extend([streams(results), all(rows)]);
    sections.retain(|section| !(section.charts.is_empty() && section.tables.is_empty()));
    if !complaints.is_empty() {
        sections.push(Section {
            heading: "What was left out, or failed".into(),
            paragraphs: complaints.to_vec(),
            charts: Vec::new(),
            tables: Vec::new(),
        });
    }
    Page {
        title: "Programs that sync, on files that Forebay buffers".into(),
        lead,
        sections,
        attachments: Vec::new(),
    }
}

fn section(heading: &str, paragraph: &str, charts: Vec<Option<Chart>>) -> Section {
    Section {
        heading: heading.into(),
        paragraphs: vec![paragraph.into()],
        charts: charts.into_iter().flatten().collect(),
        tables: Vec::new(),
    }
}

/// A series for each place where there is any number; no chart of none.
fn by_place(
    mut chart: Chart,
    names: &[String],
    value: impl Fn(&str, Place) -> Option<f64>,
) -> Option<Chart> {
    for place in PLACES {
        let values: Vec<Option<f64>> = names.iter().map(|name| value(name, place)).collect();
        if values.iter().any(Option::is_some) {
            chart.series.push(Series {
                name: place.title().into(),
                values,
            });
        }
    }
    (!chart.series.is_empty()).then_some(chart)
}

fn chart(title: &str, x_label: &str, y_label: &str, places: Vec<String>) -> Chart {
    Chart {
        title: title.into(),
        x_label: x_label.into(),
        y_label: y_label.into(),
        places,
        series: Vec::new(),
        shape: Shape::Bars,
        is_logarithmic: true,
    }
}

fn programs(results: &Results) -> Section {
    let measured = || {
        PROGRAMS
            .iter()
            .filter(|(name, _)| results.metric(name).is_some())
    };
    let names: Vec<String> = measured().map(|(name, _)| (*name).into()).collect();
    let titles: Vec<String> = measured().map(|(_, title)| (*title).into()).collect();
    let median = |name: &str, place| results.metric(name)?.median(place);
    let ratio = |name: &str, place| results.metric(name)?.ratio(place, Place::Tmpfs);
    let share = chart(
        "Speed as a multiple of tmpfs",
        "program",
        "× tmpfs",
        titles.clone(),
    );
    let rate = chart("Speed", "program", "operations/s", titles);
    section(
        "Programs",
        "redis-benchmark SET by one client and by fifty; db_bench fillrandom; SQLite with a transaction \
         for each row; WiredTiger with a transaction for each put; pgbench and sysbench (writes only) with \
         four clients.",
        vec![
            by_place(share, &names, ratio),
            by_place(rate, &names, median),
        ],
    )
}

fn workloads(results: &Results) -> Vec<Section> {
    let median = |name: &str, place| results.metric(name)?.median(place);
    let charts = STORES.map(|(store, title)| {
        let names: Vec<String> = "abcdef"
            .chars()
            .map(|letter| format!("ycsb_{store}_{letter}"))
            .collect();
        let letters = "ABCDEF".chars().map(String::from).collect();
        let empty = chart(title, "workload", "operations/s", letters);
        by_place(empty, &names, median)
    });
    vec![section(
        "Key-value stores under YCSB",
        "A: half updates. B: 5 % updates. C: reads. D: 5 % inserts, the latest read. E: scans, 5 % inserts. \
         F: half read and written back. Records of 1 KiB, two clients; every read was checked.",
        charts.to_vec(),
    )]
}

fn small_writes(results: &Results, context: &Context) -> Section {
    let counts = context.pace.thread_counts();
    let median = |name: &str, place| results.metric(name)?.median(place);
    let mut charts = Vec::new();
    for (unit, unit_title) in UNITS {
        for (pattern, pattern_title) in PATTERNS {
            let names: Vec<String> = counts
                .iter()
                .map(|count| format!("{pattern}_{unit}_threads{count}"))
                .collect();
            let mut empty = chart(
                &format!("Writes of {unit_title} {pattern_title}"),
                "threads, each with its own file",
                "writes/s",
                counts.iter().map(usize::to_string).collect(),
            );
            empty.shape = Shape::Lines;
            charts.push(by_place(empty, &names, median));
        }
    }
    section(
        "Small writes",
        "Each write durable before the next, but for the line that never syncs.",
        charts,
    )
}

fn latencies(results: &Results) -> Section {
    let charts = UNITS.map(|(unit, title)| {
        let name = format!("append_{unit}_threads1");
        let mut chart = chart(
            &format!("Latency of appends of {title}, one thread"),
            "share of writes that took no longer, in %",
            "µs",
            PERCENTS.iter().map(f64::to_string).collect(),
        );
        chart.shape = Shape::Lines;
        for place in PLACES {
            if let Some(latencies_ns) = results.curve(&name, place) {
                let micros = latencies_ns
                    .iter()
                    .map(|latency_ns| Some(latency_ns / 1000.0));
                chart.series.push(Series {
                    name: place.title().into(),
                    values: micros.collect(),
                });
            }
        }
        (!chart.series.is_empty()).then_some(chart)
    });
    section(
        "How long an append takes",
        "From a write's begin to the return of its sync.",
        charts.to_vec(),
    )
}

fn streams(results: &Results) -> Section {
    let median = |name: &str, place| results.metric(name)?.median(place);
    let bar = |name: &str, title: &str, unit: &str| {
        let empty = chart(title, "", unit, vec![String::new()]);
        by_place(empty, &[name.to_owned()], median)
    };
    section(
        "Much at once",
        "Writes of 4 KiB that nobody syncs, and appends far past a pool of 64 MiB: the disk takes these \
         without a sync but the last, Forebay makes each of them durable.",
        vec![
            bar("buffered_4k", "Writes of 4 KiB without a sync", "writes/s"),
            bar("append_past_pool", "Appends past the pool", "MiB/s"),
        ],
    )
}

fn asked(rows: &[Row]) -> Section {
    let table = Table {
        columns: vec!["name".into(), "measured".into(), "asked for".into()],
        rows: headline::judged(rows),
    };
    Section {
        heading: "What is asked for".into(),
        paragraphs: Vec::new(),
        charts: Vec::new(),
        tables: vec![("The numbers that have a bar".into(), table)],
    }
}

fn all(rows: &[Row]) -> Section {
    let row = |row: &Row| (format!("{} ({})", row.name, row.unit), vec![row.value]);
    let table = Table {
        columns: vec!["name".into(), "value".into()],
        rows: rows.iter().map(row).collect(),
    };
    Section {
        heading: "All numbers".into(),
        paragraphs: Vec::new(),
        charts: Vec::new(),
        tables: vec![("As in report.json".into(), table)],
    }
}
