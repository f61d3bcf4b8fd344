//! What AutoBahn's figures 11 to 15 show, here of our places: shards of key-value stores and how long their
//! commits take; small writes by threads to private files, how long they take, and where their time goes. Of the first two what the
//! paper's text says stands beside ours, with a verdict by the rule of the laboratory.

use forebay_harness::{Chart, Row, Section, Series, Shape, TextTable, digits};
use forebay_lab::elsewhere::{LATENCIES_US, Rows, application_claims, table};

use crate::context::Context;
use crate::page::draw::{PLACES, STORES, by_place, chart, latencies, shares};
use crate::place::Place;
use crate::results::Results;

const PATTERNS: [(&str, &str); 3] = [
    ("append", "at the end"),
    ("uniform", "anywhere"),
    ("zipf", "by Zipf's law"),
];
const UNITS: [(&str, &str, f64); 2] = [("256b", "256 B", 256.0), ("16k", "16 KiB", 16384.0)];

pub fn sections(results: &Results, rows: &[Row], context: &Context) -> Vec<Section> {
    let counts = context.pace.thread_counts();
    vec![
        said(results, rows, &counts),
        sharded(results, &counts),
        commits(results, &counts),
        speeds(results, &counts),
        appends(results, &counts),
        times(results, &counts),
    ]
}

/// What the text says of figures 11 and 12, ours and a verdict beside it; nothing where no store was measured.
fn said(results: &Results, rows: &[Row], counts: &[usize]) -> Section {
    let claims = application_claims(&Rows::new(rows));
    if claims.iter().all(|claim| claim.ours == "–") {
        return Section::default();
    }
    Section {
        heading: "What AutoBahn's text says of stores".into(),
        paragraphs: vec![
            "Its figures 11 and 12, with “forebay run” in AutoBahn's place, this disk in ext4's. A ratio holds if ours is within a \
             factor of 1.25 of it and at least half as far from 1, on the same side. The paper has 36 cores: what 32 and 64 databases \
             do to each other is not judged where there are fewer. It times the commit in the store; here an update is timed from the \
             client's side, with all that the store does besides."
                .into(),
        ],
        words: vec![
            ("Ratios".into(), table(&claims)),
            ("Mean latencies of updates, µs".into(), means(results, counts)),
        ],
        ..Section::default()
    }
}

/// The paper's mean latencies and ours, where there are as many databases.
fn means(results: &Results, counts: &[usize]) -> TextTable {
    // A client waits for each update before the next: so many databases, so many at once.
    let ours = |store: &str, databases: usize, place| {
        let rate = results.median(&format!("ycsb_{store}_u_shards{databases}"), place)?;
        Some(databases as f64 * 1e6 / rate)
    };
    let shown = |value: Option<f64>| value.map_or("–".into(), digits);
    let rows = LATENCIES_US
        .iter()
        .map(|([store, title], databases, paper)| {
            let places = [Place::Preload, Place::Disk, Place::Tmpfs];
            let is_measured = counts.contains(databases);
            let ours = places.map(|place| ours(store, *databases, place).filter(|_| is_measured));
            let values = paper
                .iter()
                .zip(ours)
                .flat_map(|(paper, ours)| [*paper, ours]);
            let name = format!("{title}, databases: {databases}");
            std::iter::once(name).chain(values.map(shown)).collect()
        });
    let columns = [
        "",
        "AutoBahn, paper",
        "forebay run, here",
        "ext4, paper",
        "disk, here",
        "tmpfs, paper",
        "tmpfs, here",
    ];
    TextTable {
        columns: columns.map(str::to_owned).into(),
        rows: rows.collect(),
    }
}

/// Figure 11.
fn sharded(results: &Results, counts: &[usize]) -> Section {
    let charts = STORES.map(|(store, title)| {
        let names = names(counts, |count| format!("ycsb_{store}_a_shards{count}"));
        let empty = by_count(title, "databases", "operations/s", counts);
        by_place(empty, &names, |name, place| results.median(name, place))
    });
    Section::new(
        "Several databases at once",
        "YCSB's workload A, half reads and half updates, over databases with a client each: servers of their own for \
         Redis, threads of one process for the others. The paper's figure 11.",
        charts,
    )
}

/// Figure 12.
fn commits(results: &Results, counts: &[usize]) -> Section {
    let ends = ends(counts);
    let cases = STORES.iter().flat_map(|(store, title)| {
        ends.iter().map(move |count| {
            let databases = match count {
                1 => "database",
                _ => "databases",
            };
            let name = format!("ycsb_{store}_u_shards{count}");
            (name, format!("Updates of {title}, {count} {databases}"))
        })
    });
    distributions(
        results,
        "How long a commit takes",
        "Nothing but updates, each durable before it returns, from the client's side. The paper's figure 12.",
        cases.collect(),
    )
}

/// Figure 13, and of 256 bytes the lower half of figure 15.
fn speeds(results: &Results, counts: &[usize]) -> Section {
    let mut charts = Vec::new();
    for (unit, unit_title, bytes) in UNITS {
        for (pattern, pattern_title) in PATTERNS {
            let title = format!("Writes of {unit_title} {pattern_title}");
            let names = names(counts, |count| format!("{pattern}_{unit}_threads{count}"));
            let mebibytes =
                |name: &str, place| Some(results.median(name, place)? * bytes / f64::from(1 << 20));
            let empty = by_count(&title, "threads", "MiB/s", counts);
            charts.push(by_place(empty, &names, mebibytes));
        }
    }
    Section::new(
        "Small writes",
        "By threads that have a file each; each write durable before the next, but where it says “unsynced”. “Memory \
         alone” is the same bytes copied past the processor's cache and a fence, without any file: the floor. The \
         paper's figures 13 and 15.",
        charts,
    )
}

fn appends(results: &Results, counts: &[usize]) -> Section {
    let ends = ends(counts);
    let cases = UNITS.iter().rev().flat_map(|(unit, title, _)| {
        ends.iter().map(move |count| {
            let threads = if *count == 1 { "thread" } else { "threads" };
            let name = format!("append_{unit}_threads{count}");
            (name, format!("Appends of {title}, {count} {threads}"))
        })
    });
    distributions(
        results,
        "How long an append takes",
        "From a write's begin to the return of its sync. The paper's figure 14.",
        cases.collect(),
    )
}

/// The upper half of figure 15; which instructions take the time no counter says here.
fn times(results: &Results, counts: &[usize]) -> Section {
    let charts = ends(counts).into_iter().map(|count| {
        let has_any = |place: &Place| {
            let name = format!("append_256b_threads{count}_user");
            results.median(&name, *place).is_some()
        };
        let places: Vec<Place> = PLACES.into_iter().filter(has_any).collect();
        let threads = if count == 1 { "thread" } else { "threads" };
        let mut chart = chart(
            &format!("Processors' time of an append of 256 B, {count} {threads}"),
            "place",
            "ns",
            places.iter().map(|place| place.title().into()).collect(),
        );
        let parts = [
            ("user", "program"),
            ("kernel", "kernel"),
            ("server", "the mount's daemon"),
        ];
        let series = parts.map(|(part, title)| {
            let name = format!("append_256b_threads{count}_{part}");
            let values = places.iter().map(|place| results.median(&name, *place));
            Series {
                name: title.into(),
                values: values.collect(),
                ..Series::default()
            }
        });
        chart.series = series.into();
        (!chart.places.is_empty()).then_some(chart)
    });
    Section::new(
        "Where an append's time goes",
        "What all processors together spent for a write: in the program and the libraries in it, in the kernel for \
         the program, and, program and kernel together, in the daemon behind a mount. Write-back that happens \
         meanwhile is part of it, and so is the writer's own reading of the clock.",
        charts,
    )
}

/// The fewest and the most.
fn ends(counts: &[usize]) -> Vec<usize> {
    let ends = [counts.first(), counts.last()];
    let mut ends: Vec<usize> = ends.into_iter().flatten().copied().collect();
    ends.dedup();
    ends
}

fn names(counts: &[usize], name: impl Fn(usize) -> String) -> Vec<String> {
    counts.iter().map(|count| name(*count)).collect()
}

fn by_count(title: &str, x_label: &str, y_label: &str, counts: &[usize]) -> Chart {
    let places = counts.iter().map(usize::to_string).collect();
    Chart {
        shape: Shape::Lines,
        ..chart(title, x_label, y_label, places)
    }
}

/// A chart for each name with its title, and a table with what charts do not show: the slowest.
fn distributions(
    results: &Results,
    heading: &str,
    paragraph: &str,
    cases: Vec<(String, String)>,
) -> Section {
    let charts = cases
        .iter()
        .map(|(name, title)| shares(results, name, title));
    let mut section = Section::new(heading, paragraph, charts);
    let table = latencies(results, &cases);
    if !table.rows.is_empty() {
        section.tables.push((heading.into(), table));
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn the_papers_latencies_stand_beside_ours_with_a_verdict() {
        let mut results = Results::default();
        for (place, rate) in [
            (Place::Preload, 100_000.0),
            (Place::Disk, 4_000.0),
            (Place::Tmpfs, 125_000.0),
        ] {
            let outcome = Outcome::rate("ycsb_wiredtiger_u_shards1", rate, "operations/s");
            results.add(place, 0, outcome);
        }
        let rows = results.rows();
        let section = said(&results, &rows, &[1, 2]);
        let [(_, ratios), (_, means)] = &section.words[..] else {
            panic!("two tables");
        };
        let ratio = ratios
            .rows
            .iter()
            .find(|row| row[1] == "WiredTiger, 1 database: latency, ext4 ÷ AutoBahn");
        let ratio = ratio.expect("said");
        assert_eq!(ratio[2..], ["31.1", "25.0", "holds"]);
        assert_eq!(
            means.rows[0],
            [
                "WiredTiger, databases: 1",
                "1.23",
                "10.0",
                "38.2",
                "250",
                "1.31",
                "8.00"
            ]
        );
        assert_eq!(means.rows[1][2], "–", "32 databases were not measured");
        assert!(said(&Results::default(), &[], &[1]).is_empty());
    }
}
