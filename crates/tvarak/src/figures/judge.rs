//! The paper's claims beside what was measured: which of our numbers a claim is of.
//!
//! How workloads of one kind compare with each other is judged at the paper's size alone.

use crate::change::Change;
use crate::claims::{CLAIMS, Claim, Metric, Side};
use crate::design::Design;
use crate::figures::lines::{self, Lines};
use crate::figures::plan::{DIFF_WAYS, Figure, REDUNDANCY_WAYS, WAYS};
use crate::figures::results::{Results, Side as Measurable, Spread};
use crate::figures::verdict::{Found, Number, Verdict, weigh};
use crate::name::Workload;
use crate::parameters::Parameters;

/// A claim and what became of it.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The claim.
    pub claim: &'static Claim,
    /// What became of it.
    pub verdict: Verdict,
    /// Our numbers.
    pub ours: Vec<Number>,
    /// By how much the worst of ours is away from what would hold; nought where it holds.
    pub off_by: f64,
    /// What was not measured; empty where all was.
    pub why_not: String,
}

impl Judgement {
    /// Of an order that does not hold.
    pub fn is_order_violation(&self) -> bool {
        self.verdict == Verdict::NotHeld && self.claim.value.is_order()
    }

    /// Our numbers in words, each once.
    pub fn numbers(&self) -> String {
        let numbers = self.ours.iter().map(|number| match number.value {
            large if large >= 10.0 => format!("{} {large:.1}", number.what),
            small => format!("{} {small:.3}", number.what),
        });
        numbers.collect::<Vec<_>>().join(", ")
    }

    /// The smallest and the largest of ours.
    pub fn range(&self) -> Option<(f64, f64)> {
        let numbers = || self.ours.iter().map(|number| number.value);
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
        let found = match claim.metric {
            Metric::LinesRead | Metric::LinesBesides | Metric::LinesWritten => self.lines(claim),
            Metric::Area => self.area(),
            _ if !self.has_numbers && !claim.value.is_order() => {
                missing("caches and work are smaller than the paper's: only orders are judged")
            }
            _ => match claim.workload.split_once(" over ") {
                Some(pair) => self.pairs(claim, pair),
                None => self.workloads(claim),
            },
        };
        let (verdict, off_by) = weigh(claim, &found);
        Judgement {
            claim,
            verdict,
            ours: found.ours,
            off_by,
            why_not: found.missing.join("; "),
        }
    }

    fn is_asked(&self, workload: &Workload) -> bool {
        self.workloads.is_none_or(|some| some.contains(workload))
    }

    /// A number for each workload, and for each change that the claim is of.
    fn workloads(&self, claim: &Claim) -> Found {
        let mut found = Found::default();
        let over = measurable(claim.over);
        let workloads = workloads_of(claim).into_iter();
        for workload in workloads.filter(|workload| self.is_asked(workload)) {
            for of in measurable(claim.design) {
                let what = match claim.design {
                    Side::MoreRedundancyWays | Side::MoreDiffWays => {
                        format!("{} {}", workload.as_str(), of.1)
                    }
                    _ => workload.as_str().to_owned(),
                };
                match self.ratio(workload, [of, over[0]], claim.metric) {
                    Ok(Spread { mean, rms, .. }) => found.ours.push(Number {
                        what,
                        value: mean,
                        rms,
                    }),
                    Err(why_not) => found.missing.push(why_not),
                }
            }
        }
        match found.ours.is_empty() && found.missing.is_empty() {
            true => missing("none of its workloads was run"),
            false => found,
        }
    }

    /// What workloads have more of than others.
    fn pairs(&self, claim: &Claim, (first, second): (&str, &str)) -> Found {
        if !self.has_numbers {
            return missing(
                "caches and work are smaller than the paper's, and at such sizes workloads differ as their threads meet in DIMMs",
            );
        }
        let sides = [measurable(claim.design)[0], measurable(claim.over)[0]];
        let side = |name| {
            let shown = shown(name).into_iter();
            shown.filter(|workload| self.is_asked(workload))
        };
        let mut found = Found::default();
        for one in side(first) {
            for other in side(second).filter(|other| *other != one) {
                let ratios = [one, other].map(|workload| self.ratio(workload, sides, claim.metric));
                match ratios {
                    [Ok(ratio), Ok(other_ratio)] => {
                        found.ours.push(pair([(one, ratio), (other, other_ratio)]));
                    }
                    ratios => {
                        let why_nots = ratios.into_iter().filter_map(Result::err);
                        found.missing.extend(why_nots);
                    }
                }
            }
        }
        found.missing.sort();
        found.missing.dedup();
        match found.ours.is_empty() && found.missing.is_empty() {
            true => missing("its workloads were not run"),
            false => found,
        }
    }

    fn ratio(
        &self,
        workload: Workload,
        sides: [Measurable; 2],
        metric: Metric,
    ) -> Result<Spread, String> {
        self.results.ratio(workload, sides, metric).ok_or_else(|| {
            let [of, over] = sides.map(|(design, change)| match change {
                Change::Nothing => design.as_str().to_owned(),
                change => format!("{} {change}", design.as_str()),
            });
            format!("{} was not run on {of} and {over}", workload.as_str())
        })
    }

    fn lines(&self, claim: &Claim) -> Found {
        let design = measurable(claim.design)[0].0;
        let Lines {
            read,
            read_to_write,
            written,
        } = match lines::count(self.parameters, design) {
            Ok(lines) => lines,
            Err(loss) => return missing(&loss.to_string()),
        };
        match claim.metric {
            Metric::LinesRead => exactly("lines read", read as f64),
            Metric::LinesWritten => exactly("lines written", written as f64),
            _ => exactly("lines read besides", read_to_write as f64),
        }
    }

    fn area(&self) -> Found {
        let own = self.parameters.controller.cache_bytes.value as f64;
        let bank = self.parameters.llc.bank_bytes.value as f64;
        exactly("a controller's cache over its bank", own / bank)
    }
}

fn missing(why_not: &str) -> Found {
    Found {
        ours: Vec::new(),
        missing: vec![why_not.into()],
    }
}

fn exactly(what: &str, value: f64) -> Found {
    Found {
        ours: vec![Number {
            what: what.into(),
            value,
            rms: 0.0,
        }],
        missing: Vec::new(),
    }
}

/// How often one workload's ratio is another's, with what seeds of both differ by.
fn pair([one, other]: [(Workload, Spread); 2]) -> Number {
    let relative = |spread: Spread| spread.rms / spread.mean;
    let value = one.1.mean / other.1.mean;
    let [(first, ratio), (second, other_ratio)] =
        [one, other].map(|(workload, spread)| (workload.as_str(), spread.mean));
    Number {
        what: format!("{first} {ratio:.3}, {second} {other_ratio:.3}: their ratio"),
        value,
        rms: value * relative(one.1).hypot(relative(other.1)),
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
    let reads = |workload: &Workload| workload.as_str().ends_with("-read");
    match claim.workload {
        "all" => {
            let shown = Figure::Fig8.workloads().into_iter();
            shown.filter(|workload| !reads(workload)).collect()
        }
        "presented" => Figure::Dimms.workloads(),
        name => named(name),
    }
}

/// Workloads of one name, or of which the name is the beginning.
fn named(name: &str) -> Vec<Workload> {
    let prefix = format!("{name}-");
    let is_of = |workload: &Workload| workload.as_str().starts_with(&prefix);
    Workload::named(name).unwrap_or_else(|_| Workload::all().into_iter().filter(is_of).collect())
}

/// Workloads that are compared with others, of those that Figure 8 shows.
fn shown(name: &str) -> Vec<Workload> {
    let meant = named(name);
    let is_meant = |workload: &Workload| match name {
        "applications" => matches!(workload, Workload::Program(_)),
        _ => meant.contains(workload),
    };
    let shown = Figure::Fig8.workloads().into_iter();
    shown.filter(is_meant).collect()
}
