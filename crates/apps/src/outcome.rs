//! What one measurement gave: rates and other numbers, and distributions of latencies. Programs that run
//! under `forebay run` hand theirs over as a line of JSON.

use forebay_report::Row;
use serde_json::{Value, json};

use crate::Result;

/// The shares of all operations, in percent, whose latency a curve gives.
pub const PERCENTS: [f64; 13] = [
    1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 100.0,
];

/// How long operations took.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Of what.
    pub name: String,
    /// The latency that this share of operations did not pass, one for each of [`PERCENTS`].
    pub latencies_ns: Vec<f64>,
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
        let latencies_ns = PERCENTS.iter().map(|percent| at(*percent)).collect();
        Some(Curve { name, latencies_ns })
    }

    /// The latency that this share of operations did not pass.
    pub fn at(&self, percent: f64) -> Option<f64> {
        let place = PERCENTS.iter().position(|known| *known == percent)?;
        self.latencies_ns.get(place).copied()
    }
}

/// What one measurement gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Numbers. Those whose unit is per second are rates, and more is better.
    pub rows: Vec<Row>,
    /// Latencies.
    pub curves: Vec<Curve>,
}

impl Outcome {
    /// A single rate.
    pub fn rate(name: &str, per_second: f64, unit: &str) -> Outcome {
        Outcome {
            rows: vec![Row::new(name, per_second, unit)],
            curves: Vec::new(),
        }
    }

    /// Both together.
    pub fn and(mut self, other: Outcome) -> Outcome {
        self.rows.extend(other.rows);
        self.curves.extend(other.curves);
        self
    }

    /// A line for [`Outcome::from_json`].
    pub fn to_json(&self) -> String {
        let row = |row: &Row| json!([row.name, row.value, row.unit]);
        let curve = |curve: &Curve| json!([curve.name, curve.latencies_ns]);
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        let curves: Vec<Value> = self.curves.iter().map(curve).collect();
        json!({"rows": rows, "curves": curves}).to_string()
    }

    /// What another process measured: the last line that it printed.
    ///
    /// Errors: the line is none of [`Outcome::to_json`].
    pub fn from_json(printed: &str) -> Result<Outcome> {
        let line = printed.lines().last().unwrap_or_default();
        let value: Value = serde_json::from_str(line)
            .map_err(|error| format!("no measurement but {line:?}: {error}"))?;
        let list = |name: &str| value[name].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let row = |row: Value| Row::new(text(&row[0]), row[1].as_f64(), text(&row[2]));
        let curve = |curve: Value| Curve {
            name: text(&curve[0]),
            latencies_ns: curve[1]
                .as_array()
                .map(|points| points.iter().filter_map(Value::as_f64).collect())
                .unwrap_or_default(),
        };
        Ok(Outcome {
            rows: list("rows").into_iter().map(row).collect(),
            curves: list("curves").into_iter().map(curve).collect(),
        })
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
        assert_eq!(Curve::of("none".into(), &mut []), None);
    }

    #[test]
    fn a_measurement_survives_the_way_between_processes() {
        let mut outcome = Outcome::rate("writes", 12.5, "writes/s");
        outcome.curves = vec![Curve {
            name: "writes".into(),
            latencies_ns: vec![1.0, 2.0],
        }];
        let printed = format!("what a library says\n{}\n", outcome.to_json());
        assert_eq!(Outcome::from_json(&printed).expect("one"), outcome);
        assert!(Outcome::from_json("no").is_err());
    }
}
