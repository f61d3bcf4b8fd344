//! All measurements of a run: of each number the median of the rounds, how far they spread, and how contenders
//! compare. A ratio is the median of the ratios within the rounds: what slows a whole round down slows both sides.

use std::time::Duration;

use forebay_harness::{Row, median};

use crate::tpcc::contender::{CONTENDERS, Contender};
use crate::tpcc::counters::Counters;
use crate::tpcc::drive::Done;
use crate::tpcc::medium::Medium;

/// One contender under so many users.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub contender: Contender,
    pub medium: Option<Medium>,
    pub users: u32,
    pub round: usize,
    pub done: Done,
    pub elapsed: Duration,
    pub counted: Counters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Committed transactions a minute.
    Rate,
    /// Of how many transactions the other numbers are.
    Committed,
    Lines,
    Fences,
    DiskBlocks,
    FileSystemBlocks,
    WriteHits,
}

pub const METRICS: [Metric; 7] = [
    Metric::Rate,
    Metric::Committed,
    Metric::Lines,
    Metric::Fences,
    Metric::DiskBlocks,
    Metric::FileSystemBlocks,
    Metric::WriteHits,
];

impl Metric {
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Rate => "per_minute",
            Metric::Committed => "committed",
            Metric::Lines => "lines",
            Metric::Fences => "fences",
            Metric::DiskBlocks => "disk_blocks",
            Metric::FileSystemBlocks => "ext4_blocks",
            Metric::WriteHits => "write_hits",
        }
    }

    pub const fn unit(self) -> &'static str {
        match self {
            Metric::Rate => "transactions/min",
            Metric::Committed => "transactions",
            Metric::Lines => "lines/transaction",
            Metric::Fences => "fences/transaction",
            Metric::DiskBlocks | Metric::FileSystemBlocks => "blocks/transaction",
            Metric::WriteHits => "share",
        }
    }
}

impl Measured {
    /// None where it has no such number, or nothing was done to divide by.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        let committed = self.done.committed();
        let each = |count: u64| ratio(count as f64, committed as f64);
        let cache = self.counted.cache;
        match metric {
            Metric::Rate => ratio(committed as f64 * 60.0, self.elapsed.as_secs_f64()),
            Metric::Committed => Some(committed as f64),
            Metric::Lines => each(cache?.lines),
            Metric::Fences => each(cache?.fences),
            Metric::DiskBlocks => each(self.counted.disk_blocks),
            Metric::FileSystemBlocks => each(self.counted.file_system_blocks),
            Metric::WriteHits => {
                let hits = cache?.written.saturating_sub(cache?.missed);
                ratio(hits as f64, cache?.written as f64)
            }
        }
    }
}

/// The better one is hoped to be first.
const COMPARISONS: [(Contender, Contender); 8] = [
    (Contender::Tinca, Contender::Classic),
    (Contender::TincaWithoutJournal, Contender::Classic),
    (Contender::Forebay, Contender::Classic),
    (Contender::Forebay, Contender::Tinca),
    (Contender::ForebayLate, Contender::Tinca),
    (Contender::TincaCleaner, Contender::ClassicCleaner),
    (Contender::ForebayLate, Contender::ClassicCleaner),
    (Contender::ForebayLate, Contender::TincaCleaner),
];

/// Rounds from which on rates are judged.
const JUDGED_ROUNDS: usize = 3;

#[derive(Debug, Default)]
pub struct Results(Vec<Measured>);

impl Results {
    pub fn add(&mut self, measured: Measured) {
        self.0.push(measured);
    }

    pub fn all(&self) -> &[Measured] {
        &self.0
    }

    /// Those of a medium.
    pub fn of(&self, medium: Medium) -> Results {
        let all = self.0.iter();
        let of_it = all.filter(|measured| measured.medium == Some(medium));
        Results(of_it.copied().collect())
    }

    /// The numbers of users that were measured, each once, in order.
    pub fn users(&self) -> Vec<u32> {
        let mut users: Vec<u32> = self.0.iter().map(|measured| measured.users).collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// Whether there are rounds enough to tell rates from the machine's moods.
    pub fn can_judge_rates(&self) -> bool {
        self.0
            .iter()
            .any(|measured| measured.round + 1 >= JUDGED_ROUNDS)
    }

    fn values(&self, metric: Metric, users: u32, contender: Contender) -> Vec<f64> {
        let wanted = |one: &&Measured| (one.users, one.contender) == (users, contender);
        let found = self.0.iter().filter(wanted);
        found.filter_map(|one| one.value(metric)).collect()
    }

    pub fn median(&self, metric: Metric, users: u32, contender: Contender) -> Option<f64> {
        median(self.values(metric, users, contender))
    }

    /// The least and the most of the rounds.
    pub fn range(&self, metric: Metric, users: u32, contender: Contender) -> Option<(f64, f64)> {
        let values = self.values(metric, users, contender).into_iter();
        values.fold(None, |range, value| match range {
            None => Some((value, value)),
            Some((least, most)) => Some((value.min(least), value.max(most))),
        })
    }

    /// Of one contender over another.
    pub fn ratio(
        &self,
        metric: Metric,
        users: u32,
        (contender, base): (Contender, Contender),
    ) -> Option<f64> {
        self.ratio_to(self, metric, users, (contender, base))
    }

    /// Of one contender over another, or itself, as `other` has it.
    pub fn ratio_to(
        &self,
        other: &Results,
        metric: Metric,
        users: u32,
        (contender, base): (Contender, Contender),
    ) -> Option<f64> {
        let of = |results: &Results, wanted: Contender, round: usize| {
            let mut all = results.0.iter();
            all.find(|one| (one.users, one.contender, one.round) == (users, wanted, round))?
                .value(metric)
        };
        let rounds = self.0.iter().map(|one| one.round).max()? + 1;
        let ratios = (0..rounds)
            .filter_map(|round| ratio(of(self, contender, round)?, of(other, base, round)?));
        median(ratios.collect())
    }

    /// The rows of the report, whose names begin with `run`: each number, its least and its most, and the comparisons.
    pub fn rows(&self, run: &str) -> Vec<Row> {
        let mut rows = Vec::new();
        for metric in METRICS {
            for users in self.users() {
                let name = format!("{run}_{}_{users}users", metric.name());
                for contender in CONTENDERS {
                    let Some((least, most)) = self.range(metric, users, contender) else {
                        continue;
                    };
                    let name = format!("{name}_{}", contender.name());
                    let median = self.median(metric, users, contender);
                    rows.push(Row::new(name.clone(), median, metric.unit()));
                    rows.push(Row::new(format!("{name}_min"), least, metric.unit()));
                    rows.push(Row::new(format!("{name}_max"), most, metric.unit()));
                }
                // How much was measured compares nothing.
                let is_compared = metric != Metric::Committed;
                for (contender, base) in COMPARISONS.into_iter().filter(|_| is_compared) {
                    if let Some(ratio) = self.ratio(metric, users, (contender, base)) {
                        let name = format!("{name}_{}_vs_{}", contender.name(), base.name());
                        rows.push(Row::new(name, ratio, "x"));
                    }
                }
            }
        }
        rows
    }
}

fn ratio(value: f64, base: f64) -> Option<f64> {
    (base > 0.0).then(|| value / base)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::tpcc::counters::Cache;

    /// A second in which 100 transactions were committed, `factor` blocks each.
    pub fn measured(contender: Contender, users: u32, round: usize, factor: u64) -> Measured {
        Measured {
            contender,
            medium: None,
            users,
            round,
            done: Done::of_payments(100),
            elapsed: Duration::from_secs(1),
            counted: Counters {
                file_system_blocks: 1000,
                disk_blocks: 100 * factor,
                cache: (contender != Contender::Bare).then_some(Cache {
                    lines: 6400 * factor,
                    fences: 200,
                    written: 1000,
                    missed: 100,
                }),
            },
        }
    }

    #[test]
    fn numbers_are_of_a_transaction_and_ratios_of_a_round() {
        let mut results = Results::default();
        // The second round wrote ten times as much, of both.
        for (round, factor) in [(0, 1), (1, 10), (2, 2)] {
            results.add(measured(Contender::Classic, 5, round, 4 * factor));
            results.add(measured(Contender::Tinca, 5, round, factor));
        }
        results.add(measured(Contender::Bare, 5, 0, 3));
        let of = |metric, contender| results.median(metric, 5, contender);
        assert_eq!(of(Metric::Rate, Contender::Tinca), Some(6000.0));
        assert_eq!(of(Metric::DiskBlocks, Contender::Classic), Some(8.0));
        assert_eq!(of(Metric::WriteHits, Contender::Tinca), Some(0.9));
        assert_eq!(of(Metric::Lines, Contender::Bare), None);
        let lines = results.range(Metric::Lines, 5, Contender::Tinca);
        assert_eq!(lines, Some((64.0, 640.0)));
        let pair = (Contender::Tinca, Contender::Classic);
        assert_eq!(results.ratio(Metric::DiskBlocks, 5, pair), Some(0.25));
        assert_eq!(results.ratio(Metric::DiskBlocks, 20, pair), None);
        let rows = results.rows("tpcc");
        let value = |name: &str| rows.iter().find(|row| row.name == name)?.value;
        assert_eq!(
            value("tpcc_disk_blocks_5users_tinca_vs_classic"),
            Some(0.25)
        );
        assert_eq!(value("tpcc_disk_blocks_5users_classic_max"), Some(40.0));
        assert_eq!(value("tpcc_lines_5users_bare"), None);
    }
}
