//! The numbers of all rounds: of each the median for each kind of brick, and how kinds compare.

use std::collections::BTreeMap;

use forebay_harness::Row;

use crate::cluster::kind::{KINDS, Kind};
use crate::rounds::Rounds;

/// The better one is hoped to be first.
const COMPARISONS: [(Kind, Kind); 8] = [
    (Kind::Mount, Kind::Disk),
    (Kind::Serve, Kind::Disk),
    (Kind::Tmpfs, Kind::Disk),
    (Kind::Mount, Kind::Tmpfs),
    (Kind::Serve, Kind::Tmpfs),
    (Kind::LabTinca, Kind::LabClassic),
    (Kind::LabTincaWithoutJournal, Kind::LabClassic),
    (Kind::ServeJournal, Kind::LabClassic),
];

/// One number on every kind.
#[derive(Debug)]
pub struct Metric {
    pub name: String,
    unit: String,
    /// Whether kinds are compared by it.
    is_compared: bool,
    by_kind: BTreeMap<Kind, Rounds>,
}

/// A number of one turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
    pub is_compared: bool,
}

#[derive(Debug, Default)]
pub struct Results(Vec<Metric>);

impl Results {
    pub fn add(&mut self, kind: Kind, round: usize, number: Number) {
        let known = self.0.iter().position(|known| known.name == number.name);
        let index = known.unwrap_or_else(|| {
            self.0.push(Metric {
                name: number.name,
                unit: number.unit.to_owned(),
                is_compared: number.is_compared,
                by_kind: BTreeMap::new(),
            });
            self.0.len() - 1
        });
        let rounds = self.0[index].by_kind.entry(kind).or_default();
        rounds.insert(round, number.value);
    }

    /// The names of all numbers with this unit, in the order in which they came.
    pub fn names_of(&self, unit: &str) -> Vec<&str> {
        let all = self.0.iter().filter(|metric| metric.unit == unit);
        all.map(|metric| metric.name.as_str()).collect()
    }

    fn rounds(&self, name: &str, kind: Kind) -> Option<&Rounds> {
        let found = self.0.iter().find(|metric| metric.name == name);
        found?.by_kind.get(&kind)
    }

    pub fn median(&self, name: &str, kind: Kind) -> Option<f64> {
        self.rounds(name, kind)?.median()
    }

    pub fn range(&self, name: &str, kind: Kind) -> Option<(f64, f64)> {
        self.rounds(name, kind)?.range()
    }

    pub fn ratio(&self, name: &str, (kind, base): (Kind, Kind)) -> Option<f64> {
        self.rounds(name, kind)?.ratio_to(self.rounds(name, base)?)
    }

    /// In how many rounds a number was taken, where it was taken least often.
    pub fn rounds_of(&self, name: &str) -> usize {
        let found = self.0.iter().find(|metric| metric.name == name);
        let counts = found.map(|metric| metric.by_kind.values().map(Rounds::count));
        counts.and_then(Iterator::min).unwrap_or(0)
    }

    /// The rows of the report.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for metric in &self.0 {
            let name = &metric.name;
            for kind in KINDS {
                let Some(rounds) = metric.by_kind.get(&kind) else {
                    continue;
                };
                let row = format!("{name}_{}", kind.name());
                rows.extend(rounds.rows(&row, &metric.unit));
            }
            let pairs = COMPARISONS.into_iter().filter(|_| metric.is_compared);
            for (kind, base) in pairs {
                let pair = metric.by_kind.get(&kind).zip(metric.by_kind.get(&base));
                if let Some((rounds, base_rounds)) = pair {
                    let row = format!("{name}_{}_vs_{}", kind.name(), base.name());
                    rows.extend(rounds.ratios_to(base_rounds).rows(&row, "x"));
                }
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn number(name: &str, value: f64, unit: &'static str) -> Number {
        Number {
            name: name.into(),
            value,
            unit,
            is_compared: unit == "puts/s",
        }
    }

    #[test]
    fn kinds_are_compared_round_by_round() {
        let mut results = Results::default();
        // The second round had the machine for itself.
        for (round, factor) in [(0, 1.0), (1, 10.0), (2, 1.1)] {
            let put = |value: f64| number("etcd_1client", value * factor, "puts/s");
            results.add(Kind::Disk, round, put(300.0));
            results.add(Kind::Mount, round, put(600.0 + round as f64));
        }
        results.add(Kind::Disk, 0, number("disk_fsync_4k", 430_000.0, "ns"));
        let rows = results.rows();
        let value = |name: &str| rows.iter().find(|row| row.name == name)?.value;
        assert_eq!(value("etcd_1client_disk"), Some(330.0));
        assert_eq!(value("etcd_1client_disk_max"), Some(3000.0));
        assert_eq!(value("etcd_1client_mount_vs_disk"), Some(601.0 / 300.0));
        assert_eq!(value("etcd_1client_serve_vs_disk"), None);
        assert_eq!(value("disk_fsync_4k_disk"), Some(430_000.0));
        assert_eq!(results.names_of("puts/s"), ["etcd_1client"]);
    }
}
