//! The grid as a page: the plots of the study's figures 5, 7, 8, 9 and 11, ours beside the kernel's.

use forebay_harness::{Chart, Page, Section, Series, Shape};
use forebay_lab::elsewhere::Claim;

use super::claims;
use super::fio::Outcome;
use super::points::{FITTING_BYTES, Figure, Point};
use super::size_name;
use super::stage::{self, Contender, DISK, Latency, NONE};

/// What one contender came to at one point.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The point.
    pub point: Point,
    /// Over which slow device.
    pub latency: Latency,
    /// The contender.
    pub contender: Contender,
    /// Medians over the rounds.
    pub outcome: Outcome,
    /// The rounds' IOPS, the lowest and the highest.
    pub iops_range: (f64, f64),
}

/// What the study shows of a figure, and its unit.
pub fn shown(result: &Measured) -> (f64, &'static str) {
    match result.point.figure {
        Figure::Lookup => (result.outcome.latency_us, "µs"),
        Figure::LargeReadsByThreads | Figure::LargeByWrites => {
            (result.outcome.bytes_per_s / 1e6, "MB/s")
        }
        _ => (result.outcome.iops, "IOPS"),
    }
}

/// The page; the JSON and the CSV come along.
pub fn page(
    results: &[Measured],
    said: &[Claim],
    is_quick: bool,
    [json, csv]: [String; 2],
) -> Page {
    let mut lead = vec![
        "Caches of fast memory before a slow disk, on the grid of Lee et al., An Empirical Study on \
         NVM-based Block I/O Caches (APSys 2018): what finding a block costs, and what threads, writes and \
         large working sets do to it. All contenders ran in one guest, in turn, point by point."
            .to_owned(),
        format!(
            "{} Requests bypass the page cache; where nothing else is said each thread has four on their \
             way. The kernel's caches and the fast device are in the guest's own memory. Forebay is a process \
             outside the guest, so each of its requests crosses a vhost-user queue, which the guest pays for: \
             the fast device shows what there is to reach, not what a disk outside can.",
            stage::description(DISK)
        ),
        "Every write to Forebay is durable when it is answered. The others promise nothing until fsync; \
         the figure with fsync asks the same of all."
            .to_owned(),
    ];
    if is_quick {
        lead.push(
            "A quick run: few points, once, 0.4 s each. It shows that all works, no more.".into(),
        );
    }
    let figures = [lookup, threads, writes, mixed, synced, by_set].map(|of| of(results));
    let sections = std::iter::once(claims::section(said)).chain(figures);
    let sections = sections.filter(|section| !section.is_empty());
    Page {
        title: "Block I/O caches on fast memory".into(),
        lead,
        sections: sections.collect(),
        attachments: vec![
            ("grid.json".into(), "application/json", json),
            ("grid.csv".into(), "text/csv", csv),
        ],
    }
}

/// The results of a figure over one slow device.
fn of(results: &[Measured], figure: Figure, latency: Latency) -> Vec<&Measured> {
    let belongs = |result: &&Measured| result.point.figure == figure && result.latency == latency;
    results.iter().filter(belongs).collect()
}

/// What occurs, in the order in which it does, once.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut list = Vec::new();
    for value in values {
        if !list.contains(&value) {
            list.push(value);
        }
    }
    list
}

/// A series for each contender over the places of a figure.
fn by_contender(results: &[&Measured], title: &str, x_label: &str, y_label: &str) -> Option<Chart> {
    let places = distinct(results.iter().map(|result| result.point.place.clone()));
    let contenders = distinct(results.iter().map(|result| result.contender));
    let series = |contender: &Contender| Series {
        name: contender.name().into(),
        values: places
            .iter()
            .map(|place| {
                let found = results
                    .iter()
                    .find(|result| result.contender == *contender && result.point.place == *place);
                found.map(|result| shown(result).0)
            })
            .collect(),
        ..Series::default()
    };
    let series: Vec<Series> = contenders.iter().map(series).collect();
    (!series.is_empty()).then(|| Chart {
        title: title.into(),
        x_label: x_label.into(),
        y_label: y_label.into(),
        places,
        series,
        shape: Shape::Lines,
        is_logarithmic: false,
    })
}

fn lookup(results: &[Measured]) -> Section {
    let results = of(results, Figure::Lookup, DISK);
    let caches = distinct(results.iter().map(|result| result.contender));
    let caches = caches.into_iter().filter(|contender| contender.is_cache());
    let charts = caches.map(|cache| lookup_of(&results, cache));
    Section::new(
        "Finding data (figure 5)",
        "Response time of synchronous random reads of one thread, as a multiple of the fast device's alone. \
         Everything is cached. Lower is better.",
        charts,
    )
}

/// A cache's response times over the fast device's: a series for each working set.
fn lookup_of(results: &[&Measured], cache: Contender) -> Option<Chart> {
    let places = distinct(results.iter().map(|result| result.point.place.clone()));
    let spans = distinct(results.iter().map(|result| result.point.job.span_bytes));
    let at = |contender: Contender, place: &str, span: u64| {
        let found = results.iter().find(|result| {
            result.contender == contender
                && result.point.place == place
                && result.point.job.span_bytes == span
        });
        found.map(|result| result.outcome.latency_us)
    };
    let ratio = |place: &String, span: u64| {
        Some(at(cache, place, span)? / at(Contender::RawFast, place, span)?)
    };
    let series: Vec<Series> = spans
        .iter()
        .map(|span| Series {
            name: format!("working set {}", size_name(*span)),
            values: places.iter().map(|place| ratio(place, *span)).collect(),
            ..Series::default()
        })
        .collect();
    let is_measured = series
        .iter()
        .any(|series| series.values.iter().any(Option::is_some));
    is_measured.then(|| Chart {
        title: format!("Lookup: {}", cache.name()),
        x_label: "block size".into(),
        y_label: "response time ÷ fast device's".into(),
        places,
        series,
        shape: Shape::Bars,
        is_logarithmic: false,
    })
}

fn threads(results: &[Measured]) -> Section {
    let small = of(results, Figure::ReadsByThreads, DISK);
    let large = of(results, Figure::LargeReadsByThreads, DISK);
    Section::new(
        "Concurrency (figure 7)",
        format!(
            "Reads of a working set of {} that is all cached, by number of threads. Higher is better. The \
             guest has one processor: more threads mean more requests at a time, not more computing.",
            size_name(FITTING_BYTES)
        ),
        [
            by_contender(&small, "4 KiB random reads by threads", "threads", "IOPS"),
            by_contender(
                &large,
                "4 MiB sequential reads by threads",
                "threads",
                "MB/s",
            ),
        ],
    )
}

fn writes(results: &[Measured]) -> Section {
    let small = of(results, Figure::SmallByWrites, DISK);
    let large = of(results, Figure::LargeByWrites, DISK);
    Section::new(
        "Share of writes (figure 8)",
        "One thread, everything cached, by the share of writes. Higher is better.",
        [
            by_contender(
                &small,
                "4 KiB random requests by writes",
                "share of writes",
                "IOPS",
            ),
            by_contender(
                &large,
                "4 MiB sequential requests by writes",
                "share of writes",
                "MB/s",
            ),
        ],
    )
}

fn mixed(results: &[Measured]) -> Section {
    let results = of(results, Figure::MixByThreads, DISK);
    Section::new(
        "Reads and writes of many threads (figure 9)",
        "Half reads, half writes, 4 KiB, random, everything cached. Higher is better.",
        [by_contender(
            &results,
            "4 KiB random, half writes, by threads",
            "threads",
            "IOPS",
        )],
    )
}

fn synced(results: &[Measured]) -> Section {
    let results = of(results, Figure::SyncedWrites, DISK);
    Section::new(
        "Writes that are safe (not in the study)",
        "4 KiB random writes, each followed by fsync: now all promise the same. Higher is better.",
        [by_contender(
            &results,
            "4 KiB random writes with fsync by threads",
            "threads",
            "IOPS",
        )],
    )
}

fn by_set(results: &[Measured]) -> Section {
    let chart = |latency: Latency, title: &str| {
        let results = of(results, Figure::BySet, latency);
        let mut chart = by_contender(&results, title, "working set", "IOPS")?;
        chart.is_logarithmic = true;
        Some(chart)
    };
    Section::new(
        "Working sets past the cache's end (figure 11)",
        format!(
            "4 KiB random reads of 16 threads; the fast device has {}. Each working set was read through once \
             before it was measured. Higher is better; the axis is logarithmic. dm-writecache keeps only what is \
             written, so reads show the slow device through it; bcache keeps few of the blocks it reads here.",
            size_name(stage::FAST_BYTES)
        ),
        [
            chart(DISK, "By working set, slow device of 20 ms"),
            chart(NONE, "By working set, slow device without latency"),
        ],
    )
}
