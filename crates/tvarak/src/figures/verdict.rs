//! What became of a claim: our numbers weighed against what it says.
//!
//! A number holds where the overhead, the ratio less one, is within a third of the paper's or within two percentage points,
//! whichever is more. The largest of several (`UpTo`) is compared with the largest of ours; of a range each workload has to lie
//! within it, widened as a number is. The same is within two points. More and less ask for a difference larger than a thousandth and than
//! what seeds differ by: what is nearer says neither one nor the other. A claim of several workloads
//! holds where it does for each, and does not where one is known for which it does not, whatever is missing of the others.

use crate::claims::{Claim, Metric, Value};

/// Two percentage points.
const POINTS: f64 = 0.02;
/// Numbers that differ by less are not told apart, even if each run is the same as the one before.
const APART: f64 = 0.001;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Held,
    /// It does not.
    NotHeld,
    /// It says which of two is more, and they are too near each other to tell.
    Indistinguishable,
    /// Nobody can say.
    NotMeasured,
}

impl Verdict {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::NotHeld => "not held",
            Verdict::Indistinguishable => "indistinguishable",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// One of our numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// What it is of.
    pub what: String,
    /// The number, over several seeds their mean.
    pub value: f64,
    /// The root mean square of what each seed is away from it.
    pub rms: f64,
}

/// Our numbers for a claim, and those that there are not.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Those that there are.
    pub ours: Vec<Number>,
    /// Why there are no others, a reason each.
    pub missing: Vec<String>,
}

/// What becomes of a claim by these numbers, and by how much the worst is away from what would hold; nought where none is.
pub fn weigh(claim: &Claim, found: &Found) -> (Verdict, f64) {
    let off_by = off_by(claim, found);
    let verdict = match off_by {
        _ if found.ours.is_empty() => Verdict::NotMeasured,
        off_by if off_by > 0.0 => Verdict::NotHeld,
        _ if !found.missing.is_empty() => Verdict::NotMeasured,
        _ if found.ours.iter().any(|number| is_near(claim, number)) => Verdict::Indistinguishable,
        _ => Verdict::Held,
    };
    (verdict, off_by)
}

/// What a difference has to exceed to be one.
fn noise(number: &Number) -> f64 {
    number.rms.max(APART)
}

/// Whether a number does not say which of two is more.
fn is_near(claim: &Claim, number: &Number) -> bool {
    matches!(claim.value, Value::More | Value::Less) && (number.value - 1.0).abs() <= noise(number)
}

fn off_by(claim: &Claim, found: &Found) -> f64 {
    let is_ratio = !matches!(
        claim.metric,
        Metric::LinesRead | Metric::LinesBesides | Metric::LinesWritten | Metric::Area
    );
    let slack = |paper: f64| match is_ratio {
        true => ((paper - 1.0).abs() / 3.0).max(POINTS),
        // A count is exact, and an area is given with one digit.
        false => paper.fract().min(0.0005),
    };
    let beyond =
        |number: f64, [least, most]: [f64; 2]| (least - number).max(number - most).max(0.0);
    let around = |paper: f64| [paper - slack(paper), paper + slack(paper)];
    let numbers = || found.ours.iter().map(|number| number.value);
    let worst = |range: [f64; 2]| {
        numbers()
            .map(|number| beyond(number, range))
            .fold(0.0, f64::max)
    };
    // The other way round by more than chance.
    let reversed = |sign: f64| {
        let each = found.ours.iter().map(|number| {
            let other_way = sign * (1.0 - number.value);
            if other_way > noise(number) {
                other_way
            } else {
                0.0
            }
        });
        each.fold(0.0, f64::max)
    };
    match claim.value {
        Value::Exactly(paper) => worst(around(paper)),
        Value::UpTo(paper) if is_ratio => {
            let [least, most] = around(paper);
            // What is missing may be the largest.
            let least = match found.missing.is_empty() {
                true => least,
                false => f64::NEG_INFINITY,
            };
            let largest = numbers().reduce(f64::max);
            largest.map_or(0.0, |largest| beyond(largest, [least, most]))
        }
        Value::UpTo(paper) => worst([f64::NEG_INFINITY, paper]),
        Value::Between(least, most) => worst([around(least)[0], around(most)[1]]),
        Value::MoreThan(paper) => worst([around(paper)[0], f64::INFINITY]),
        Value::AtLeast(paper) => worst([paper, f64::INFINITY]),
        Value::Same => worst([1.0 - POINTS, 1.0 + POINTS]),
        Value::More => reversed(1.0),
        Value::Less => reversed(-1.0),
    }
}
