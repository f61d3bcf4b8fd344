//! The run as one page: what is asked for, how fast each engine is, what that costs, what kills and lost pools came to.

use forebay_harness::{Chart, Page, Row, Section, Series};

use crate::cluster::headline;
use crate::cluster::kind::{KINDS, Kind};
use crate::cluster::paper;
use crate::cluster::results::Results;
use crate::cluster::tally::Tally;
use crate::judged;
use crate::machine;
use crate::page::all_numbers;

/// What there is to say of a run besides its numbers.
#[derive(Debug)]
pub struct Told<'a> {
    pub rounds: usize,
    pub seconds: u64,
    pub is_quick: bool,
    /// What there is to say of the disk where it is not the machine's own.
    pub disk: Option<String>,
    /// What was left out, or failed.
    pub complaints: &'a [String],
}

pub fn page(results: &Results, tally: &Tally, rows: &[Row], told: &Told<'_>) -> Page {
    let mut sections = vec![
        asked(rows),
        speeds(results),
        latencies(results),
        costs(results),
        kills(tally),
        lost_pools(tally),
        Section {
            is_folded: true,
            ..all_numbers(rows)
        },
    ];
    sections.retain(|section| !section.is_empty());
    if !told.complaints.is_empty() {
        sections.push(Section {
            heading: "What was left out, or failed".into(),
            paragraphs: told.complaints.to_vec(),
            ..Section::default()
        });
    }
    let mut lead = vec![
        "Distributed engines, unchanged, with Forebay under each member. Nodes are namespaces of one machine; its processors, \
         and its disk where it is the machine's own, are shared by all of them. Ratios between kinds of bricks are the result, not the numbers."
            .to_owned(),
        format!(
            "In each round, {} here, an engine has a fresh cluster on each kind of brick, another one first; every case has {} s after a \
             warm-up, and every key that was acknowledged is read back. Numbers are medians of the rounds, whiskers their least and \
             most.",
            told.rounds, told.seconds
        ),
        machine::told(),
    ];
    let disk = told.disk.as_ref();
    lead.extend(disk.map(|disk| format!("Each node has a disk of its own. {disk}")));
    if told.is_quick {
        lead.push("A quick run: it shows that everything works, and measures little.".to_owned());
    }
    Page {
        title: "Engines of many machines, on Forebay".into(),
        lead,
        sections,
        ..Page::default()
    }
}

fn asked(rows: &[Row]) -> Section {
    Section {
        heading: "What is asked for".into(),
        tables: vec![(
            "The numbers that have a bar".into(),
            judged::table(headline::BARS, rows),
        )],
        ..Section::default()
    }
}

fn speeds(results: &Results) -> Section {
    let units = ["puts/s", "steps/s", "records/s", "MiB/s"];
    let charts = units.map(|unit| {
        let names = results.names_of(unit);
        chart("Acknowledged", unit, &names, |name, kind| {
            (results.median(name, kind), results.range(name, kind))
        })
    });
    Section::new(
        "How many are acknowledged",
        "Each client waits for one answer before it asks again. tmpfs is what a sync costs when it costs nothing: it survives \
         nothing, and no brick can be faster.",
        charts,
    )
}

fn latencies(results: &Results) -> Section {
    let all = results.names_of("ns");
    let charts = [("_p50", "Half are faster"), ("_p99", "99 % are faster")].map(|(end, title)| {
        let names: Vec<&str> = all
            .iter()
            .copied()
            .filter(|name| name.ends_with(end))
            .collect();
        let micros = |value: f64| value / 1000.0;
        chart(title, "µs", &names, |name, kind| {
            let range = results.range(name, kind);
            (
                results.median(name, kind).map(micros),
                range.map(|(least, most)| (micros(least), micros(most))),
            )
        })
    });
    Section::new(
        "How long an acknowledgement takes",
        "From the request to the answer, as its client sees it.",
        charts,
    )
}

fn costs(results: &Results) -> Section {
    let charts = [
        ("lines/MiB", "Cache lines flushed or sent to memory"),
        ("blocks/MiB", "Blocks of 4 KiB written to the disks"),
        (
            "lines/step",
            "Cache lines flushed or sent to memory, a step of a client",
        ),
        (
            "blocks/step",
            "Blocks of 4 KiB written to the disks, a step of a client",
        ),
    ]
    .map(|(unit, title)| {
        chart(title, unit, &results.names_of(unit), |name, kind| {
            (results.median(name, kind), results.range(name, kind))
        })
    });
    let mut section = Section::new(
        "What it costs the memory and the disks",
        "By all nodes together, for a MiB that clients wrote: copies, logs and metadata of engine and file system are in it. What \
         Tinca's Figures 10 and 11 count. Classic and Tinca are below data=journal; the paper's Tinca takes the journal's place, \
         and is to be compared with the one below an ext4 without. A ratio holds if it is within a factor of 1.25, and at least half as far \
         from 1 on the same side; rates of fewer than three rounds are not judged.",
        charts,
    );
    if let Some(table) = paper::table(results) {
        let caption = "What the text of Tinca's paper has, and ours";
        section.tables.push((caption.into(), table));
    }
    section
}

fn kills(tally: &Tally) -> Section {
    let table = tally.kill_table();
    let mut section = Section::new(
        "Nodes killed in mid-load, pools kept",
        "All processes and mounts of a node die together: its engine, its daemon, its file systems. It comes back as its start script \
         would bring it back, and everything acknowledged has to be there, whichever member is asked. In every second round of an \
         engine with a quorum all members that are up die, and one of them has to bring what was acknowledged to one that had been \
         down; of HDFS all data nodes die. The page cache of the machine survives: this is no power cut.",
        [],
    );
    if !table.rows.is_empty() {
        section.tables.push(("Kills".into(), table));
    }
    section
}

fn lost_pools(tally: &Tally) -> Section {
    let table = tally.lost_table();
    let mut section = Section::new(
        "A node dies and its pool with it",
        "What a power cut does to a pool in /dev/shm. Where there is a quorum, the others that know of the last puts are down, too, \
         when the member comes back. By the guide it is removed, wiped and added anew; the control starts it on its old data, as a \
         script would that knows --accept-stale.",
        [],
    );
    if !table.rows.is_empty() {
        section.words.push(("Lost pools".into(), table));
    }
    section
}

type Range = Option<(f64, f64)>;

/// A bar for each kind; no chart where there is no number.
fn chart(
    title: &str,
    unit: &str,
    names: &[&str],
    value: impl Fn(&str, Kind) -> (Option<f64>, Range),
) -> Option<Chart> {
    let series = KINDS.map(|kind| {
        let (values, ranges) = names.iter().map(|name| value(name, kind)).unzip();
        Series {
            name: kind.title().into(),
            values,
            ranges,
            ..Series::default()
        }
    });
    let mut values = series.iter().flat_map(|series| &series.values);
    values.any(Option::is_some).then(|| Chart {
        title: title.into(),
        x_label: "case".into(),
        y_label: unit.into(),
        places: names.iter().map(|name| (*name).to_owned()).collect(),
        series: series.into(),
        ..Chart::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::results::Number;

    #[test]
    fn what_was_measured_is_shown_and_what_failed_is_said() {
        let mut results = Results::default();
        for (kind, value) in [(Kind::Disk, 300.0), (Kind::Mount, 600.0)] {
            results.add(
                kind,
                0,
                Number {
                    name: "etcd_1client".into(),
                    value,
                    unit: "puts/s",
                    is_compared: true,
                },
            );
        }
        let complaints = ["skipped nats: no nats-server here".to_owned()];
        let told = Told {
            rounds: 1,
            seconds: 2,
            is_quick: true,
            disk: Some("The disk is delayed.".into()),
            complaints: &complaints,
        };
        let html = page(&results, &Tally::default(), &results.rows(), &told).to_html();
        for wanted in [
            "etcd_1client",
            "Forebay mount",
            "no nats-server",
            "not judged",
            "The disk is delayed.",
        ] {
            assert!(html.contains(wanted), "{wanted} in {html}");
        }
        assert!(!html.contains("Lost pools"));
    }
}
