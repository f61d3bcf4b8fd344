//! What the paper's text says in numbers, and which of ours stand beside them.
//!
//! Its machine has 36 cores and two SSDs; absolute speeds say nothing here. Ratios of its designs are compared, and judged by the
//! rule that all figures have, for its own design as an engine. What more threads do than there are processors is not judged:
//! cells of 32 and 64 threads are then beside ours with the most threads.

use serde::Serialize;

use super::row::FilesRow;
use super::scope::{FilesScope, Pattern};
use super::stand::Contender;
use crate::figures::Setting;
use crate::paper::{is_as_uneven, is_near};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// AutoBahn's speed over the other's.
    Speed,
    /// The other's mean latency over AutoBahn's.
    Latency,
    /// The same of the latency that 99.9 % of all writes have at most.
    Latency999,
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
pub const REPORTED: [Reported; 11] = [
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
            "99.9 % of appends, 1 thread: 30 µs unsynced over 20",
        ),
        1.5,
        Contender::Unsynced,
        (Pattern::Append, K16, 1),
        Of::Latency999,
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
            "the same, 106.56 µs unsynced over 100.15",
        ),
        1.064,
        Contender::Unsynced,
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
    /// Whether the engine's is like the paper's; none where that was not judged.
    pub holds: Option<bool>,
    /// Why it cannot be judged on this machine; none where it can.
    pub not_judged: Option<String>,
}

impl Reported {
    /// What rows say of it; the most threads that were measured where the paper has more.
    #[must_use]
    pub fn beside(&self, scope: &FilesScope, setting: &Setting, rows: &[FilesRow]) -> Compared {
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
            let latency_999 = |row: &FilesRow| row.latency_ns(99.9).map(f64::from);
            Some(match self.of {
                Of::Speed => ours.writes_s / other.writes_s,
                Of::Latency => other.mean_ns / ours.mean_ns,
                Of::Latency999 => latency_999(other)? / latency_999(ours)?,
            })
        };
        let not_judged = self.obstacle(threads, setting);
        let autobahn = ratio(Contender::AutoBahn);
        let judged = autobahn.filter(|_| not_judged.is_none());
        Compared {
            what: format!("{}: {}", self.source, self.what),
            paper: self.ratio,
            threads,
            autobahn,
            forebay: ratio(Contender::Forebay),
            holds: judged.map(|ours| is_near(ours, self.ratio) && is_as_uneven(ours, self.ratio)),
            not_judged,
        }
    }

    /// Why a machine cannot show it.
    fn obstacle(&self, threads: usize, setting: &Setting) -> Option<String> {
        let cores = setting.machine.cores;
        if setting.is_loaded() {
            return Some("others used the processors meanwhile".into());
        }
        (threads < self.threads || cores < self.threads).then(|| {
            format!(
                "the paper's {} threads each have a processor of 36 cores; {threads} were measured here, on {cores}",
                self.threads
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_harness::{Machine, OthersWatch};

    fn row(contender: Contender, threads: usize, mean_ns: f64) -> FilesRow {
        FilesRow {
            contender,
            pattern: "append",
            unit_bytes: K16,
            threads,
            writes_s: 1e9 / mean_ns * threads as f64,
            writes_s_least: 0.0,
            writes_s_most: 0.0,
            mean_ns,
            latencies: vec![(99.9, mean_ns as u32)],
            lines_per_write: None,
            fences_per_write: None,
            all_lines_per_write: None,
            all_fences_per_write: None,
            user_ns: 0.0,
            kernel_ns: 0.0,
        }
    }

    fn compared(cores: usize, others: f64, unsynced_ns: f64) -> Vec<Compared> {
        let here = Setting::since(&OthersWatch::begin(), Machine::here());
        let setting = Setting {
            machine: Machine {
                cores,
                ..here.machine
            },
            others: Some(others),
            ..here
        };
        let scope = FilesScope {
            threads: vec![1, 2],
            ..FilesScope::quick()
        };
        let rows = [1, 2].map(|threads| {
            [
                row(Contender::AutoBahn, threads, 4_000.0),
                row(Contender::Unsynced, threads, unsynced_ns),
            ]
        });
        let rows = rows.concat();
        REPORTED
            .iter()
            .map(|one| one.beside(&scope, &setting, &rows))
            .collect()
    }

    #[test]
    fn one_thread_is_judged_anywhere_and_many_where_there_are_as_many_processors() {
        let find = |compared: &[Compared], what: &str| {
            let mut all = compared.iter();
            all.find(|one| one.what.ends_with(what))
                .expect("said")
                .clone()
        };
        let one_thread = "11.36 µs unsynced over 4.56";
        assert_eq!(
            find(&compared(2, 0.0, 9_600.0), one_thread).holds,
            Some(true)
        );
        assert_eq!(
            find(&compared(2, 0.0, 4_100.0), one_thread).holds,
            Some(false),
            "flat"
        );
        let loaded = find(&compared(2, 0.7, 9_600.0), one_thread);
        assert_eq!(loaded.holds, None);
        assert!(loaded.not_judged.is_some_and(|why| why.contains("others")));
        let many = find(
            &compared(64, 0.0, 4_256.0),
            "106.56 µs unsynced over 100.15",
        );
        assert_eq!((many.holds, many.threads), (None, 2));
        assert!(
            many.autobahn
                .is_some_and(|ratio| (ratio - 1.064).abs() < 1e-9)
        );
        assert!(
            many.not_judged
                .is_some_and(|why| why.contains("32 threads"))
        );
    }
}
