//! What the paper's text says in numbers, and which of ours stand beside them.
//!
//! Its machine has 36 cores and two SSDs; absolute speeds say nothing here, and its cells of 32 and 64 threads are
//! beside ours with the most threads. Ratios of its designs are compared.

use serde::Serialize;

use super::row::FilesRow;
use super::scope::{FilesScope, Pattern};
use super::stand::Contender;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// AutoBahn's speed over the other's.
    Speed,
    /// The other's mean latency over AutoBahn's.
    Latency,
}

/// A number of the paper's text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reported {
    /// Where it is.
    pub source: &'static str,
    /// What it is.
    pub what: &'static str,
    /// AutoBahn over the other.
    pub ratio: f64,
    other: Contender,
    pattern: Pattern,
    unit_bytes: usize,
    threads: usize,
    of: Of,
}

const fn number(
    (source, what): (&'static str, &'static str),
    ratio: f64,
    other: Contender,
    (pattern, unit_bytes, threads): (Pattern, usize, usize),
    of: Of,
) -> Reported {
    Reported {
        source,
        what,
        ratio,
        other,
        pattern,
        unit_bytes,
        threads,
        of,
    }
}

const K16: usize = 16 << 10;

/// All of them.
pub const REPORTED: [Reported; 9] = [
    number(
        (
            "§6.2.1, Figure 13",
            "appends of 16 KiB, 4 threads: 6.7 over 0.48 GiB/s",
        ),
        13.9,
        Contender::Synced,
        (Pattern::Append, K16, 4),
        Of::Speed,
    ),
    number(
        ("§6.2.1, Figure 13", "the same, over 4.9 GiB/s unsynced"),
        1.36,
        Contender::Unsynced,
        (Pattern::Append, K16, 4),
        Of::Speed,
    ),
    number(
        (
            "§6.2.1, Figure 13",
            "skewed writes of 16 KiB, 4 threads: 42.65 over 13.35 GiB/s unsynced",
        ),
        3.19,
        Contender::Unsynced,
        (Pattern::Zipf, K16, 4),
        Of::Speed,
    ),
    number(
        (
            "§6.2.2, Figure 14",
            "mean latency of appends, 1 thread: 126.21 over 4.56 µs",
        ),
        27.7,
        Contender::Synced,
        (Pattern::Append, K16, 1),
        Of::Latency,
    ),
    number(
        ("§6.2.2, Figure 14", "the same, 11.36 µs unsynced over 4.56"),
        2.49,
        Contender::Unsynced,
        (Pattern::Append, K16, 1),
        Of::Latency,
    ),
    number(
        (
            "§6.2.2, Figure 14",
            "mean latency of appends, 32 threads: 253.07 over 100.15 µs",
        ),
        2.53,
        Contender::Synced,
        (Pattern::Append, K16, 32),
        Of::Latency,
    ),
    number(
        (
            "§6.2.2, Figure 14",
            "speed of appends, 32 threads: 6.73 over 1.91 GiB/s",
        ),
        3.52,
        Contender::Synced,
        (Pattern::Append, K16, 32),
        Of::Speed,
    ),
    number(
        ("§6.2.2, Figure 14", "the same, over 5.96 GiB/s unsynced"),
        1.12,
        Contender::Unsynced,
        (Pattern::Append, K16, 32),
        Of::Speed,
    ),
    number(
        (
            "§6.2.3, Figure 15",
            "appends of 256 B, 64 threads: 5.67 over 3.51 GiB/s unsynced",
        ),
        1.6,
        Contender::Unsynced,
        (Pattern::Append, 256, 64),
        Of::Speed,
    ),
];

/// A number of the paper's with ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Where it is in the paper, and what.
    pub what: String,
    /// The paper's.
    pub paper: f64,
    /// With how many threads ours were measured.
    pub threads: usize,
    /// The same of the engine made from the paper.
    pub autobahn: Option<f64>,
    /// The same of our own buffer.
    pub forebay: Option<f64>,
}

impl Reported {
    /// What rows say of it; the most threads that were measured where the paper has more.
    #[must_use]
    pub fn beside(&self, scope: &FilesScope, rows: &[FilesRow]) -> Compared {
        let most = scope.threads.iter().copied().max().unwrap_or(1);
        let threads = self.threads.min(most);
        let find = |contender: Contender| {
            rows.iter().find(|row| {
                row.contender == contender
                    && row.pattern == self.pattern.as_str()
                    && row.unit_bytes == self.unit_bytes
                    && row.threads == threads
            })
        };
        let ratio = |contender: Contender| {
            let (ours, other) = (find(contender)?, find(self.other)?);
            Some(match self.of {
                Of::Speed => ours.writes_s / other.writes_s,
                Of::Latency => other.mean_ns / ours.mean_ns,
            })
        };
        Compared {
            what: format!("{}: {}", self.source, self.what),
            paper: self.ratio,
            threads,
            autobahn: ratio(Contender::AutoBahn),
            forebay: ratio(Contender::Forebay),
        }
    }
}
