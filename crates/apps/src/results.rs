//! All measurements of a run: the median of the rounds for each number and place, and how places compare.

use std::collections::BTreeMap;

use forebay_harness::{Row, median};

use crate::outcome::{Curve, Outcome};
use crate::place::Place;
use crate::rounds::Rounds;

/// Which places are compared in `report.json`: the better one is hoped to be first.
const COMPARISONS: [(Place, Place); 11] = [
    (Place::Preload, Place::Tmpfs),
    (Place::Mount, Place::Tmpfs),
    (Place::Preload, Place::Disk),
    (Place::Mount, Place::Disk),
    (Place::Tmpfs, Place::Disk),
    (Place::Preload, Place::DiskUnsynced),
    (Place::Mount, Place::DiskUnsynced),
    (Place::Mount, Place::Passthrough),
    (Place::MountSsd, Place::Disk),
    (Place::PreloadSsd, Place::Disk),
    (Place::SlowDiskMountSsd, Place::SlowDisk),
];

/// One number in every place.
#[derive(Debug)]
struct Metric {
    name: String,
    unit: String,
    values: BTreeMap<Place, Rounds>,
}

#[derive(Debug, Default)]
pub struct Results {
    metrics: Vec<Metric>,
    curves: BTreeMap<(String, Place), Vec<Curve>>,
}

impl Results {
    pub fn add(&mut self, place: Place, round: usize, outcome: Outcome) {
        for row in outcome.rows {
            let Some(value) = row.value else { continue };
            let known = self.metrics.iter().position(|known| known.name == row.name);
            let index = known.unwrap_or_else(|| {
                self.metrics.push(Metric {
                    name: row.name,
                    unit: row.unit,
                    values: BTreeMap::new(),
                });
                self.metrics.len() - 1
            });
            let values = self.metrics[index].values.entry(place).or_default();
            values.insert(round, value);
        }
        for curve in outcome.curves {
            let key = (curve.name.clone(), place);
            self.curves.entry(key).or_default().push(curve);
        }
    }

    fn values(&self, name: &str, place: Place) -> Option<&Rounds> {
        let found = self.metrics.iter().find(|metric| metric.name == name);
        found?.values.get(&place)
    }

    /// The median of the rounds.
    pub fn median(&self, name: &str, place: Place) -> Option<f64> {
        self.values(name, place)?.median()
    }

    /// The median of the rounds' ratios between places.
    pub fn ratio(&self, name: &str, place: Place, base: Place) -> Option<f64> {
        self.values(name, place)?.ratio_to(self.values(name, base)?)
    }

    /// The latencies of `name` in a place: each point the median of the rounds.
    pub fn curve(&self, name: &str, place: Place) -> Option<Curve> {
        let curves = self.curves.get(&(name.to_owned(), place))?;
        let medians = |points: fn(&Curve) -> &[f64]| -> Option<Vec<f64>> {
            let of_round = |round: &Curve, index| points(round).get(index).copied();
            let all = |index| {
                let rounds = curves.iter();
                median(rounds.filter_map(|round| of_round(round, index)).collect())
            };
            (0..points(curves.first()?).len()).map(all).collect()
        };
        Some(Curve {
            name: name.to_owned(),
            latencies_ns: medians(|curve| &curve.latencies_ns)?,
            shares: medians(|curve| &curve.shares)?,
        })
    }

    /// The median of the rounds' ratios between two numbers of the same place.
    pub fn ratio_between(&self, name: &str, base: &str, place: Place) -> Option<f64> {
        self.values(name, place)?
            .ratio_to(self.values(base, place)?)
    }

    /// The rows of the report: each number in each place, and of rates the comparisons with what they were in single rounds.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for Metric { name, unit, values } in &self.metrics {
            for place in values.keys() {
                let row = format!("{name}_{}", place.name());
                rows.push(Row::new(row, self.median(name, *place), &**unit));
            }
            // Of rates alone more is better.
            for (place, base) in COMPARISONS.into_iter().filter(|_| unit.ends_with("/s")) {
                if let Some((rounds, base_rounds)) = values.get(&place).zip(values.get(&base)) {
                    let row = format!("{name}_{}_vs_{}", place.name(), base.name());
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

    fn value(rows: &[Row], name: &str) -> Option<f64> {
        rows.iter().find(|row| row.name == name)?.value
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let mut results = Results::default();
        // The second round had the machine for itself.
        for (round, tmpfs, preload) in [(0, 100.0, 90.0), (1, 1000.0, 950.0), (2, 110.0, 88.0)] {
            results.add(
                Place::Tmpfs,
                round,
                Outcome::rate("set", tmpfs, "requests/s"),
            );
            results.add(
                Place::Preload,
                round,
                Outcome::rate("set", preload, "requests/s"),
            );
        }
        results.add(Place::Tmpfs, 0, Outcome::rate("set_p50", 7.0, "ns"));
        let rows = results.rows();
        assert_eq!(value(&rows, "set_tmpfs"), Some(110.0));
        assert_eq!(value(&rows, "set_preload_vs_tmpfs"), Some(0.9));
        assert_eq!(value(&rows, "set_mount_vs_tmpfs"), None);
        assert_eq!(value(&rows, "set_p50_tmpfs"), Some(7.0));
        assert_eq!(value(&rows, "set_preload_vs_tmpfs_max"), Some(0.95));
        assert_eq!(rows.len(), 6, "{rows:?}");
    }

    #[test]
    fn numbers_over_an_ssd_pool_are_named_by_it_and_compared_with_the_ssd() {
        let mut results = Results::default();
        for (place, rate) in [
            (Place::Disk, 2000.0),
            (Place::MountSsd, 3000.0),
            (Place::PreloadSsd, 5000.0),
            (Place::SlowDisk, 100.0),
            (Place::SlowDiskMountSsd, 2500.0),
        ] {
            let outcome = Outcome::rate("sqlite_wal", rate, "transactions/s");
            results.add(place, 0, outcome);
        }
        let rows = results.rows();
        for (name, expected) in [
            ("sqlite_wal_mount_ssd", 3000.0),
            ("sqlite_wal_mount_ssd_vs_disk", 1.5),
            ("sqlite_wal_preload_ssd_vs_disk", 2.5),
            ("sqlite_wal_ssd_pool_slow_disk", 2500.0),
            ("sqlite_wal_ssd_pool_slow_disk_vs_slow_disk", 25.0),
        ] {
            assert_eq!(value(&rows, name), Some(expected), "{name}: {rows:?}");
        }
        assert_eq!(rows.len(), 8, "{rows:?}");
    }

    #[test]
    fn numbers_of_one_place_are_compared_round_by_round() {
        let mut results = Results::default();
        for (round, one, two) in [(0, 10.0, 19.0), (1, 5.0, 10.0)] {
            results.add(Place::Preload, round, Outcome::rate("one", one, "writes/s"));
            results.add(Place::Preload, round, Outcome::rate("two", two, "writes/s"));
        }
        let scaling = results.ratio_between("two", "one", Place::Preload);
        assert_eq!(scaling, Some(1.95));
        assert_eq!(results.ratio_between("two", "one", Place::Mount), None);
    }
}
