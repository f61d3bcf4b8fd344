//! The run as one page: programs beside each other, the workloads of each store, what the paper's figures show,
//! and what was left out.

mod draw;
mod paper;
mod slow_disk;

use forebay_harness::{Page, Row, Section, Table};

use crate::context::Context;
use crate::delayed::Delay;
use crate::headline;
use crate::judged;
use crate::machine;
use crate::page::draw::{PLACES, STORES, by_place, chart};
use crate::place::Place;
use crate::results::Results;

const PROGRAMS: [(&str, &str); 11] = [
    ("redis_set", "Redis SET"),
    ("redis_set_50_clients", "… 50 clients"),
    ("rocksdb_fillrandom", "RocksDB"),
    ("sqlite_delete", "SQLite DELETE"),
    ("sqlite_wal", "SQLite WAL"),
    ("wiredtiger_put", "WiredTiger"),
    ("postgres_pgbench", "PostgreSQL"),
    ("mariadb_sysbench", "MariaDB"),
    ("git_commit", "git commit"),
    ("maildir", "a maildir"),
    ("rsync_fsync", "rsync --fsync"),
];

pub fn page(results: &Results, rows: &[Row], complaints: &[String], context: &Context) -> Page {
    let pace = &context.pace;
    let mut lead = vec![
        format!(
            "Each number is the median of all rounds, {} here; in each round, each place had its turn, with \
             fresh directories and a fresh pool, in memory unless it says SSD. Every write was durable before it was acknowledged: \
             appendfsync always, sync=1, synchronous=FULL, or fdatasync after each write.",
            pace.rounds
        ),
        "Mount is “forebay mount”, preload is “forebay run”, both over the same disk as the others; an SSD pool is a \
         file on that disk too. tmpfs is what a sync costs when it costs nothing; it survives nothing."
            .to_owned(),
    ];
    lead.push(machine::told());
    lead.extend(context.disk_delay.map(Delay::told));
    if pace.is_quick {
        lead.push("A quick run: it shows that everything works, and measures little.".to_owned());
    }
    let mut sections = vec![asked(rows), programs(results), slow_disk::section(results)];
    sections.extend(workloads(results));
    sections.push(streams(results));
    sections.extend(paper::sections(results, rows, context));
    sections.push(all_numbers(rows));
    sections.retain(|section| !section.is_empty());
    if !complaints.is_empty() {
        sections.push(Section {
            heading: "What was left out, or failed".into(),
            paragraphs: complaints.to_vec(),
            ..Section::default()
        });
    }
    Page {
        title: "Programs that sync, on files that Forebay buffers".into(),
        lead,
        sections,
        ..Page::default()
    }
}

fn programs(results: &Results) -> Section {
    let is_measured = |(name, _): &(&str, &str)| {
        PLACES
            .iter()
            .any(|place| results.median(name, *place).is_some())
    };
    let measured = PROGRAMS.into_iter().filter(is_measured);
    let (names, titles): (Vec<String>, Vec<String>) = measured
        .map(|(name, title)| (name.to_owned(), title.to_owned()))
        .unzip();
    let median = |name: &str, place| results.median(name, place);
    let ratio = |name: &str, place| results.ratio(name, place, Place::Tmpfs);
    let share = chart(
        "Speed as a multiple of tmpfs",
        "program",
        "× tmpfs",
        titles.clone(),
    );
    let rate = chart("Speed", "program", "operations/s", titles);
    Section::new(
        "Programs",
        "redis-benchmark SET by one client and by fifty; db_bench fillrandom; SQLite with a transaction \
         for each row; WiredTiger with a transaction for each put; pgbench and sysbench (writes only) with \
         four clients; git commit with core.fsync=all; mail delivered to a maildir; rsync --fsync of files of 8 KiB.",
        vec![
            by_place(share, &names, ratio),
            by_place(rate, &names, median),
        ],
    )
}

fn workloads(results: &Results) -> Vec<Section> {
    let median = |name: &str, place| results.median(name, place);
    let charts = STORES.map(|(store, title)| {
        let names: Vec<String> = "abcdef"
            .chars()
            .map(|letter| format!("ycsb_{store}_{letter}"))
            .collect();
        let letters = "ABCDEF".chars().map(String::from).collect();
        let empty = chart(title, "workload", "operations/s", letters);
        by_place(empty, &names, median)
    });
    vec![Section::new(
        "Key-value stores under YCSB",
        "A: half updates. B: 5 % updates. C: reads. D: 5 % inserts, the latest read. E: scans, 5 % inserts. \
         F: half read and written back. Records of 1 KiB, two clients; every read was checked.",
        charts,
    )]
}

fn streams(results: &Results) -> Section {
    let median = |name: &str, place| results.median(name, place);
    let bar = |name: &str, title: &str, piece: &str, unit: &str| {
        let empty = chart(title, "pieces", unit, vec![piece.into()]);
        by_place(empty, &[name.to_owned()], median)
    };
    Section::new(
        "Much at once",
        "Writes of 4 KiB without a sync, and appends far past a pool of 64 MiB: the disk takes these \
         without a sync but the last, Forebay makes each of them durable.",
        vec![
            bar("buffered_4k", "Writes without a sync", "4 KiB", "writes/s"),
            bar(
                "append_past_pool",
                "Appends past the pool",
                "64 KiB",
                "MiB/s",
            ),
        ],
    )
}

fn asked(rows: &[Row]) -> Section {
    let caption = "The numbers that have a bar".into();
    Section {
        heading: "What is asked for".into(),
        tables: vec![(caption, judged::table(headline::BARS, rows))],
        ..Section::default()
    }
}

/// Every number of a report.
pub(crate) fn all_numbers(rows: &[Row]) -> Section {
    let row = |row: &Row| (format!("{} ({})", row.name, row.unit), vec![row.value]);
    let table = Table {
        columns: vec!["name".into(), "value".into()],
        rows: rows.iter().map(row).collect(),
        ..Table::default()
    };
    Section {
        heading: "All numbers".into(),
        tables: vec![("As in report.json".into(), table)],
        ..Section::default()
    }
}
