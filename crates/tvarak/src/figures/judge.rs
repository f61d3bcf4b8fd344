//! The paper's claims beside what was measured.
//!
//! A number holds where the overhead, the ratio less one, is within a third of the paper's or within two percentage points,
//! whichever is more. The largest of several (`UpTo`) is compared with the largest of ours; of a range each workload has to lie
//! within it, widened as a number is. The same is within two points, more and less are strict. A claim of several workloads
//! holds where it does for each. How workloads of one kind compare with each other is judged at the paper's size alone.

use crate::change::Change;
use crate::claims::{CLAIMS, Claim, Metric, Side, Value};
use crate::design::Design;
use crate::figures::lines::{self, Lines};
use crate::figures::plan::{DIFF_WAYS, Figure, REDUNDANCY_WAYS, WAYS};
use crate::figures::results::{Results, Side as Measurable};
use crate::name::Workload;
use crate::parameters::Parameters;

/// Two percentage points.
const POINTS: f64 = 0.02;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Held,
    /// It does not.
    NotHeld,
    /// Nobody can say.
    NotMeasured,
}

impl Verdict {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::NotHeld => "not held",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// A claim and what became of it.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The claim.
    pub claim: &'static Claim,
    /// What became of it.
    pub verdict: Verdict,
    /// Our numbers, each with what it is of.
    pub ours: Vec<(String, f64)>,
    /// By how much the worst of ours is away from what would hold; nought where it holds.
    pub off_by: f64,
    /// Why nobody can say; empty where somebody can.
    pub why_not: String,
}

impl Judgement {
    /// Of an order that does not hold.
    pub fn is_order_violation(&self) -> bool {
        self.verdict == Verdict::NotHeld && self.claim.value.is_order()
    }

    /// Our numbers in words, each once.
    pub fn numbers(&self) -> String {
        let numbers = self.ours.iter().map(|(what, number)| match *number {
            large if large >= 10.0 => format!("{what} {large:.1}"),
            small => format!("{what} {small:.3}"),
        });
        numbers.collect::<Vec<_>>().join(", ")
    }

    /// The smallest and the largest of ours.
    pub fn range(&self) -> Option<(f64, f64)> {
        let numbers = || self.ours.iter().map(|(_, number)| *number);
        Some((numbers().reduce(f64::min)?, numbers().reduce(f64::max)?))
    }
}

/// What claims are judged by.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    /// What was measured.
    pub results: &'a Results,
    /// Only these workloads; all, where a figure has them, without.
    pub workloads: Option<&'a [Workload]>,
    /// Whether numbers are judged, or orders alone.
    pub has_numbers: bool,
    /// The machine, of which some claims are.
    pub parameters: &'a Parameters,
}

impl Judge<'_> {
    /// Judges every claim.
    pub fn all(&self) -> Vec<Judgement> {
        CLAIMS.iter().map(|claim| self.claim(claim)).collect()
    }

    /// Judges one.
    pub fn claim(&self, claim: &'static Claim) -> Judgement {
        let numbers = match claim.metric {
            Metric::LinesRead | Metric::LinesBesides => self.lines(claim),
            Metric::Area => Ok(self.area()),
            _ if !self.has_numbers && !claim.value.is_order() => {
                Err("caches and work are smaller than the paper's: only orders are judged".into())
            }
            _ => match claim.workload.split_once(" over ") {
                Some(pair) => self.pairs(claim, pair),
                None => self.workloads(claim),
            },
        };
        let (ours, why_not) = match numbers {
            Ok(ours) => (ours, String::new()),
            Err(why_not) => (Vec::new(), why_not),
        };
        let off_by = off_by(claim, &ours);
        let verdict = match off_by {
            _ if ours.is_empty() => Verdict::NotMeasured,
            0.0 => Verdict::Held,
            _ => Verdict::NotHeld,
        };
        Judgement {
            claim,
            verdict,
            ours,
            off_by,
            why_not,
        }
    }

    /// A number for each workload, and for each change that the claim is of.
    fn workloads(&self, claim: &Claim) -> Result<Vec<(String, f64)>, String> {
        let workloads = workloads_of(claim)
            .into_iter()
            .filter(|workload| self.workloads.is_none_or(|some| some.contains(workload)));
        let mut ours = Vec::new();
        for workload in workloads {
            for of in measurable(claim.design) {
                let over = measurable(claim.over);
                let ratio = self.ratio(workload, [of, over[0]], claim.metric)?;
                let what = match claim.design {
                    Side::MoreRedundancyWays | Side::MoreDiffWays => {
                        format!("{} {}", workload.as_str(), of.1)
                    }
                    _ => workload.as_str().to_owned(),
                };
                ours.push((what, ratio));
            }
        }
        match ours.is_empty() {
            true => Err("none of its workloads was run".into()),
            false => Ok(ours),
        }
    }

    /// What workloads have more of than others.
    fn pairs(
        &self,
        claim: &Claim,
        (first, second): (&str, &str),
    ) -> Result<Vec<(String, f64)>, String> {
        if !self.has_numbers {
            return Err("caches and work are smaller than the paper's, and at such sizes workloads of a kind \
                 differ as their threads meet in banks"
                .into());
        }
        let sides = [measurable(claim.design)[0], measurable(claim.over)[0]];
        let of = |workload: Workload| {
            let name = workload.as_str();
            if self.workloads.is_some_and(|some| !some.contains(&workload)) {
                return Err(format!("{name} was not run"));
            }
            let ratio = self.ratio(workload, sides, claim.metric)?;
            Ok((format!("{name} {ratio:.3}"), ratio))
        };
        let mut ours = Vec::new();
        for one in Workload::named(first)? {
            let others = Workload::named(second)?.into_iter();
            for other in others.filter(|other| *other != one) {
                let ((one, one_ratio), (other, other_ratio)) = (of(one)?, of(other)?);
                ours.push((
                    format!("{one}, {other}: their ratio"),
                    one_ratio / other_ratio,
                ));
            }
        }
        Ok(ours)
    }

    fn ratio(
        &self,
        workload: Workload,
        sides: [Measurable; 2],
        metric: Metric,
    ) -> Result<f64, String> {
        let ratio = self.results.ratio(workload, sides, metric);
        ratio.map(|spread| spread.mean).ok_or_else(|| {
            let [of, over] = sides.map(|(design, change)| match change {
                Change::Nothing => design.as_str().to_owned(),
                change => format!("{} {change}", design.as_str()),
            });
            format!("{} was not run on {of} and {over}", workload.as_str())
        })
    }

    fn lines(&self, claim: &Claim) -> Result<Vec<(String, f64)>, String> {
        let design = measurable(claim.design)[0].0;
        let counted = lines::count(self.parameters, design).map_err(|loss| loss.to_string())?;
        let Lines {
            read,
            read_to_write,
        } = counted;
        Ok(vec![match claim.metric {
            Metric::LinesRead => ("lines read".into(), read as f64),
            _ => ("lines read besides".into(), read_to_write as f64),
        }])
    }

    fn area(&self) -> Vec<(String, f64)> {
        let own = self.parameters.controller.cache_bytes.value as f64;
        let bank = self.parameters.llc.bank_bytes.value as f64;
        vec![("a controller's cache over its bank".into(), own / bank)]
    }
}

/// The designs and changes that a side of a claim means; none is of the LLC.
fn measurable(side: Side) -> Vec<Measurable> {
    let more = |than: u64, change: fn(u64) -> Change| {
        let ways = WAYS.into_iter().filter(move |ways| *ways > than);
        ways.map(|ways| (Design::Tvarak, change(ways))).collect()
    };
    match side {
        Side::Of(design) => vec![(design, Change::Nothing)],
        Side::With(design, change) => vec![(design, change)],
        Side::MoreRedundancyWays => more(REDUNDANCY_WAYS, Change::RedundancyWays),
        Side::MoreDiffWays => more(DIFF_WAYS, Change::DiffWays),
        Side::Llc => Vec::new(),
    }
}

/// The workloads that a claim is of. `all` are those that write: of the others §4.5 says that software costs them nothing.
pub fn workloads_of(claim: &Claim) -> Vec<Workload> {
    let shown = Figure::Fig8.workloads();
    if claim.workload == "all" {
        let reads = |workload: &Workload| workload.as_str().ends_with("-read");
        return shown
            .into_iter()
            .filter(|workload| !reads(workload))
            .collect();
    }
    let prefix = format!("{}-", claim.workload);
    let is_of = |workload: &Workload| workload.as_str().starts_with(&prefix);
    Workload::named(claim.workload)
        .unwrap_or_else(|_| Workload::all().into_iter().filter(is_of).collect())
}

/// By how much the worst of our numbers is away from what would hold.
fn off_by(claim: &Claim, ours: &[(String, f64)]) -> f64 {
    let is_ratio = !matches!(
        claim.metric,
        Metric::LinesRead | Metric::LinesBesides | Metric::Area
    );
    let slack = |paper: f64| match is_ratio {
        true => ((paper - 1.0).abs() / 3.0).max(POINTS),
        // A count is exact, and an area is given with one digit.
        false => paper.fract().min(0.0005),
    };
    let beyond =
        |number: f64, [least, most]: [f64; 2]| (least - number).max(number - most).max(0.0);
    let around = |paper: f64| [paper - slack(paper), paper + slack(paper)];
    let numbers = || ours.iter().map(|(_, number)| *number);
    let worst = |range: [f64; 2]| {
        numbers()
            .map(|number| beyond(number, range))
            .fold(0.0, f64::max)
    };
    let most = numbers().reduce(f64::max);
    // The smallest difference that is one.
    let strictly = f64::EPSILON;
    match claim.value {
        Value::Exactly(paper) => worst(around(paper)),
        Value::UpTo(paper) if is_ratio => most.map_or(0.0, |most| beyond(most, around(paper))),
        Value::UpTo(paper) => worst([f64::NEG_INFINITY, paper]),
        Value::Between(least, most) => worst([around(least)[0], around(most)[1]]),
        Value::MoreThan(paper) => worst([around(paper)[0], f64::INFINITY]),
        Value::Same => worst([1.0 - POINTS, 1.0 + POINTS]),
        Value::More => worst([1.0 + strictly, f64::INFINITY]),
        Value::Less => worst([f64::NEG_INFINITY, 1.0 - strictly]),
    }
}
