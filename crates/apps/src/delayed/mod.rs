//! A disk of a stated latency, where the machine's own answers a sync too soon for a comparison with it to be judged. It lies in
//! memory and is **not** the machine's: whatever is measured on it says so.
//!
//! The model is an SSD with a volatile cache on a bus without forced unit access, as Linux uses those of SATA: writes are in the
//! cache at memory's speed, which is faster than any such bus; a flush takes as long as was asked for, alone, or as long as the
//! rest of the cache takes at [`DRAIN_BYTES_PER_S`]; one with nothing to flush takes nothing. Reads come at memory's speed. All
//! that is left out favours the disk over what is in front of it.

mod backlog;
mod mounted;
mod served;

use std::fmt;
use std::time::Duration;

use clap::Args;
use forebay_harness::Row;

pub use backlog::DRAIN_BYTES_PER_S;
pub use mounted::DelayedDisk;
pub use served::DelayedFile;

/// The row that a report has where its disk is a delayed one.
pub const DELAY: &str = "disk_delay";
/// Stands with every number in whose name the disk is.
const NOTE: &str = "the disk is a delayed one in memory, not the machine's: disk_delay";

/// What a flush takes at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay(pub Duration);

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delayed, {} µs a flush", self.0.as_micros())
    }
}

impl Delay {
    /// The model in words, for pages.
    pub fn told(self) -> String {
        format!(
            "The disk is not this machine's own: {self}. It is in memory, and made to wait as an SSD with a volatile cache does on a bus \
             without forced unit access (SATA): a flush with something to flush takes at least {} µs, alone, or as long as what has not been \
             written from its cache yet takes at {} MB/s; reads and writes take no longer than memory does.",
            self.0.as_micros(),
            DRAIN_BYTES_PER_S / 1_000_000
        )
    }
}

/// How the disk is chosen.
#[derive(Args, Clone, Copy, Debug)]
pub struct DelayOption {
    /// Measure on a disk in memory whose every flush takes so many microseconds at least, as an SSD's does, and not on the
    /// machine's own; the report says so
    #[arg(long, value_name = "MICROSECONDS", conflicts_with = "disk", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    disk_delay_us: Option<u64>,
}

impl DelayOption {
    pub fn delay(self) -> Option<Delay> {
        self.disk_delay_us.map(Duration::from_micros).map(Delay)
    }
}

/// Rows that no one takes for those of the machine's own disk.
pub fn declared(delay: Option<Delay>, rows: Vec<Row>) -> Vec<Row> {
    let Some(delay) = delay else { return rows };
    let of_disk = |row: Row| match row.name.split('_').any(|word| word == "disk") {
        true => row.with_note(Some(NOTE)),
        false => row,
    };
    let mut rows: Vec<Row> = rows.into_iter().map(of_disk).collect();
    rows.push(Row::new(DELAY, delay.0.as_nanos() as f64, "ns").with_note(Some(NOTE)));
    rows
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::options::BenchOptions;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        _bench: BenchOptions,
        #[command(flatten)]
        delay: DelayOption,
    }

    #[test]
    fn a_delayed_disk_is_asked_for_by_its_flush_and_is_no_other() {
        let line = |words: &[&str]| Line::try_parse_from([&["line"], words].concat());
        let delay = |words: &[&str]| line(words).map(|line| line.delay.delay());
        assert_eq!(delay(&[]).expect("none"), None);
        let found = delay(&["--disk-delay-us", "500"]).expect("one");
        let found = found.expect("one");
        assert_eq!(found.to_string(), "delayed, 500 µs a flush");
        assert!(found.told().contains("not this machine's own"));
        assert!(delay(&["--disk-delay-us", "0"]).is_err());
        assert!(delay(&["--disk-delay-us", "500", "--disk", "/srv"]).is_err());
    }

    #[test]
    fn every_number_of_the_disk_says_that_it_is_delayed() {
        let rows = ["a_mount_vs_disk", "a_disk", "disk_fsync_4k_disk", "a_tmpfs"];
        let rows = rows.map(|name| Row::new(name, 1.0, "x")).to_vec();
        assert_eq!(declared(None, rows.clone()), rows);
        let delay = Delay(Duration::from_micros(500));
        let noted = declared(Some(delay), rows);
        let notes: Vec<bool> = noted.iter().map(|row| row.note.is_some()).collect();
        assert_eq!(notes, [true, true, true, false, true]);
        let last = noted.last().expect("some");
        assert_eq!((last.name.as_str(), last.value), (DELAY, Some(500_000.0)));
    }
}
