//! What one measurement gave: rates and other numbers, and distributions of latencies. Programs that run
//! under `forebay run` hand theirs over as a line of JSON.

use forebay_harness::{Result, Row};
use serde::{Deserialize, Serialize};

/// The shares of all operations, in percent, whose latency a curve gives.
pub const PERCENTS: [f64; 13] = [
    1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 100.0,
];

/// The latencies whose shares a curve gives: so many to each power of ten, from 100 ns on.
pub const LATENCIES_PER_DECADE: usize = 10;
/// Up to 10 s.
const LATENCY_COUNT: usize = 8 * LATENCIES_PER_DECADE + 1;

/// The latency of a point of [`Curve::shares`].
pub fn latency_ns(point: usize) -> f64 {
    10_f64.powf(2.0 + point as f64 / LATENCIES_PER_DECADE as f64)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub name: String,
    /// The latency that this share of operations did not pass, one for each of [`PERCENTS`].
    pub latencies_ns: Vec<f64>,
    /// The share of all operations, in percent, that took no longer than each [`latency_ns`].
    pub shares: Vec<f64>,
}

impl Curve {
    /// The curve of the latencies, which it sorts. None of none.
    pub fn of(name: String, latencies_ns: &mut [u32]) -> Option<Curve> {
        latencies_ns.sort_unstable();
        let last = latencies_ns.len().checked_sub(1)?;
        let at = |percent: f64| {
            // Less what the division may be off, which would be a place too far.
            let place = (percent * latencies_ns.len() as f64 / 100.0 - 1e-6).ceil() as usize;
            f64::from(latencies_ns[place.saturating_sub(1).min(last)])
        };
        let share = |point| {
            let limit_ns = latency_ns(point);
            let within = latencies_ns.partition_point(|one| f64::from(*one) <= limit_ns);
            within as f64 * 100.0 / latencies_ns.len() as f64
        };
        Some(Curve {
            name,
            shares: (0..LATENCY_COUNT).map(share).collect(),
            latencies_ns: PERCENTS.iter().map(|percent| at(*percent)).collect(),
        })
    }

    /// The latency that this share of operations did not pass.
    pub fn at(&self, percent: f64) -> Option<f64> {
        let place = PERCENTS.iter().position(|known| *known == percent)?;
        self.latencies_ns.get(place).copied()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Numbers. Those whose unit is per second are rates, and more is better.
    pub rows: Vec<Row>,
    pub curves: Vec<Curve>,
}

impl Outcome {
    pub fn rate(name: &str, per_second: f64, unit: &str) -> Outcome {
        Outcome {
            rows: vec![Row::new(name, per_second, unit)],
            curves: Vec::new(),
        }
    }

    pub fn and(mut self, other: Outcome) -> Outcome {
        self.rows.extend(other.rows);
        self.curves.extend(other.curves);
        self
    }

    /// The same under other names; the `_p99` and the like that follow a name stay at its end.
    pub fn renamed(mut self, new: impl Fn(&str) -> String) -> Outcome {
        for row in &mut self.rows {
            let curve = self.curves.iter().map(|curve| curve.name.as_str());
            let suffix = curve
                .filter_map(|name| row.name.strip_prefix(name))
                .find(|suffix| suffix.starts_with('_'));
            let suffix = suffix.unwrap_or_default().to_owned();
            let name = &row.name[..row.name.len() - suffix.len()];
            row.name = new(name) + &suffix;
        }
        for curve in &mut self.curves {
            curve.name = new(&curve.name);
        }
        self
    }

    /// What another process measured: the last line that it printed.
    ///
    /// Errors: the line is none that [`crate::Task`] prints.
    pub fn from_json(printed: &str) -> Result<Outcome> {
        let line = printed.lines().last().unwrap_or_default();
        serde_json::from_str(line)
            .map_err(|error| format!("no measurement but {line:?}: {error}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_gives_the_latency_that_a_share_did_not_pass() {
        let mut latencies: Vec<u32> = (1..=1000).rev().collect();
        let curve = Curve::of("all".into(), &mut latencies).expect("some");
        assert_eq!(curve.at(1.0), Some(10.0));
        assert_eq!(curve.at(50.0), Some(500.0));
        assert_eq!(curve.at(99.9), Some(999.0));
        assert_eq!(curve.at(100.0), Some(1000.0));
        // Up to 100 ns, 1 µs and 10 s.
        let at = [0, LATENCIES_PER_DECADE, LATENCY_COUNT - 1];
        assert_eq!(at.map(|point| curve.shares[point]), [10.0, 100.0, 100.0]);
        assert_eq!(latency_ns(LATENCY_COUNT - 1), 1e10);
        assert_eq!(Curve::of("none".into(), &mut []), None);
    }

    #[test]
    fn a_new_name_keeps_what_follows_the_old_one() {
        let mut outcome = Outcome::rate("puts", 12.5, "puts/s");
        outcome.rows.push(Row::new("puts_p99", 7.0, "ns"));
        outcome.curves.extend(Curve::of("puts".into(), &mut [7]));
        let outcome = outcome.renamed(|name| format!("{name}_shards2"));
        let names = outcome.rows.iter().map(|row| row.name.as_str());
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["puts_shards2", "puts_shards2_p99"]
        );
        assert_eq!(outcome.curves[0].name, "puts_shards2");
    }

    #[test]
    fn a_measurement_survives_the_way_between_processes() {
        let mut outcome = Outcome::rate("writes", 12.5, "writes/s");
        outcome.curves = vec![Curve {
            name: "writes".into(),
            latencies_ns: vec![1.0, 2.0],
            shares: vec![0.0, 100.0],
        }];
        let printed = format!(
            "what a library says\n{}\n",
            serde_json::to_string(&outcome).expect("JSON")
        );
        assert_eq!(Outcome::from_json(&printed).expect("one"), outcome);
        assert!(Outcome::from_json("no").is_err());
    }
}
