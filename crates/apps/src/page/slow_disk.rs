//! A slow disk behind a pool on an SSD: that disk alone, the pool in front of it, and the SSD alone, in one plot.

use forebay_harness::{Section, digits};

use crate::page::draw::{by_places, chart};
use crate::place::Place;
use crate::results::Results;
use crate::slow_disk::REQUEST_DELAY;

/// What it would be without the pool, what it is, what it could be.
const PLACES: [(Place, &str); 3] = [
    (Place::SlowDisk, "slow disk"),
    (Place::SlowDiskMountSsd, "with SSD pool"),
    (Place::Disk, "SSD"),
];

const PROGRAMS: [(&str, &str); 3] = [
    ("postgres_pgbench", "PostgreSQL, pgbench"),
    ("sqlite_wal", "SQLite, WAL"),
    ("sqlite_delete", "SQLite, DELETE"),
];

/// Empty where nothing was measured on the slow disk.
pub fn section(results: &Results) -> Section {
    let slow = |name: &str, place| match place {
        // The SSD alone is in other plots as well.
        Place::Disk => {
            results.median(name, Place::SlowDisk)?;
            results.median(name, place)
        }
        _ => results.median(name, place),
    };
    let measured = PROGRAMS
        .into_iter()
        .filter(|(name, _)| results.median(name, Place::SlowDisk).is_some());
    let (names, titles): (Vec<String>, Vec<String>) = measured
        .map(|(name, title)| (name.to_owned(), title.to_owned()))
        .unzip();
    let empty = chart(
        "Transactions, every one durable",
        "program",
        "transactions/s",
        titles,
    );
    let plot = by_places(&PLACES, empty, &names, slow);
    Section::new(
        "A slow disk behind a pool on an SSD",
        words(results),
        [plot],
    )
}

/// What the disks are, by what they take for a sync.
fn words(results: &Results) -> String {
    let sync = |(place, title): &(Place, &str)| {
        let latency_ns = results.median("sync_4k_p50", *place)?;
        Some(format!("{title} {} µs", digits(latency_ns / 1000.0)))
    };
    let syncs: Vec<String> = PLACES.iter().filter_map(sync).collect();
    let syncs = match syncs.is_empty() {
        true => "not measured; sync-4k does".into(),
        false => syncs.join(", "),
    };
    format!(
        "The slow disk takes {} ms for every request, as a seek of an HDD does, and has an ext4; the pool is a file on the SSD, in front of \
         the slow disk by “forebay mount”, and has room for all that is written. Half of all writes of 4 KiB with their fdatasync took \
         no longer than: {syncs}.",
        REQUEST_DELAY.as_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn a_slow_disk_its_pool_and_the_ssd_are_one_plot_with_what_a_sync_takes() {
        let mut results = Results::default();
        for (place, rate) in [
            (Place::SlowDisk, 100.0),
            (Place::SlowDiskMountSsd, 900.0),
            (Place::Disk, 1000.0),
        ] {
            let outcome = Outcome::rate("sqlite_wal", rate, "transactions/s");
            results.add(place, 0, outcome);
            let latency_ns = 1e9 / rate;
            results.add(place, 0, Outcome::rate("sync_4k_p50", latency_ns, "ns"));
        }
        // What was measured on the SSD alone has no place in it.
        let alone = Outcome::rate("sqlite_delete", 1.0, "transactions/s");
        results.add(Place::Disk, 0, alone);
        let section = section(&results);
        let [plot] = &section.charts[..] else {
            panic!("one plot");
        };
        assert_eq!(plot.places, ["SQLite, WAL"]);
        let values = plot.series.iter().map(|series| series.values[0]);
        let expected = [Some(100.0), Some(900.0), Some(1000.0)];
        assert_eq!(values.collect::<Vec<_>>(), expected);
        let said = &section.paragraphs[0];
        assert!(said.contains("slow disk 10\u{202f}000 µs"), "{said}");
        assert!(super::section(&Results::default()).is_empty());
    }
}
