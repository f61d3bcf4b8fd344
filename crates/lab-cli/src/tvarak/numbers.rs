//! What was measured of the figures, for programs: one flat JSON object with the claims and the sweep, and CSV.

use std::fmt::Write as _;

use forebay_harness::rows::commit_hash;
use forebay_tvarak::Design;
use forebay_tvarak::change::{Change, Vary};
use forebay_tvarak::claims::{CLAIMS, Metric, Side, Value as Said};
use forebay_tvarak::figures::adaptive::{Gain, SLOWER_MOST, gains};
use forebay_tvarak::figures::cell::{Cell, VERSION, digest_of};
use forebay_tvarak::figures::judge::{Judge, Judgement, workloads_of};
use forebay_tvarak::figures::measured::Measured;
use forebay_tvarak::figures::plan::{self, Figure};
use forebay_tvarak::figures::results::{Results, Spread};
use forebay_tvarak::figures::verdict::Verdict;
use forebay_tvarak::figures::{reasons, sweep};
use forebay_tvarak::name::Workload;
use serde_json::{Map, Value, json};

use crate::tvarak::costs::estimate_ms;
use crate::tvarak::store::{Common, Store};

/// What the figures show, and what it is called.
pub const METRICS: [(Metric, &str); 4] = [
    (Metric::Runtime, "runtime"),
    (Metric::Energy, "energy"),
    (Metric::NvmAccesses, "nvm"),
    (Metric::CacheAccesses, "cache"),
];
/// The seeds of a whole run at full size, and the processors that `full_hours` is of.
const FULL_SEEDS: u64 = 3;
const PROCESSORS: f64 = 2.0;

/// A variation of the sweep and what it changes.
#[derive(Debug)]
pub struct Swept {
    /// The variation.
    pub vary: Vary,
    /// With it everywhere.
    pub results: Results,
    /// Claims whose verdict is another, as it is with it.
    pub changed: Vec<Judgement>,
}

/// All that was measured so far at a scale.
#[derive(Debug)]
pub struct Report<'a> {
    /// What all cells have in common.
    pub common: Common<'a>,
    /// Runs of each cell that chance has a part in.
    pub seeds: u64,
    /// The figures' cells that were measured, of those that there are.
    pub cells: Vec<(Cell, Measured)>,
    /// How many there are.
    pub cells_total: usize,
    /// The figures.
    pub results: Results,
    /// The claims.
    pub judgements: Vec<Judgement>,
    /// Ways divided at run time beside fixed ones.
    pub gains: Vec<Gain>,
    /// The sweep: those variations of which anything was measured.
    pub swept: Vec<Swept>,
    /// Hours that all figures take at full size, on two processors.
    pub full_hours: f64,
    /// What failed, a line each.
    pub failures: Vec<String>,
}

impl Report<'_> {
    /// Takes what a store has.
    pub fn collect<'a>(
        store: &Store,
        common: Common<'a>,
        seeds: u64,
        failures: Vec<String>,
    ) -> Report<'a> {
        let mut results = Results::new(seeds);
        let all = plan::cells(&Figure::ALL, seeds);
        let cells_total = all.len();
        let kept = |cell: Cell| Some((store.get(common, &cell)?.measured, cell));
        let mut cells = Vec::new();
        for (measured, cell) in all.into_iter().filter_map(kept) {
            results.put(&cell, measured);
            cells.push((cell, measured));
        }
        let judge = Judge {
            results: &results,
            workloads: None,
            has_numbers: common.scale_divisor == 1,
            parameters: common.parameters,
        };
        let judgements = judge.all();
        let full = Common {
            scale_divisor: 1,
            ..common
        };
        let full_ms = |cell: &Cell| estimate_ms(store, full, cell);
        let full_ms: u64 = plan::cells(&Figure::ALL, FULL_SEEDS)
            .iter()
            .map(full_ms)
            .sum();
        Report {
            common,
            seeds,
            cells,
            cells_total,
            judgements,
            gains: gains(&results),
            swept: swept(store, common),
            results,
            full_hours: full_ms as f64 / 3.6e6 / PROCESSORS,
            failures,
        }
    }

    /// How many claims became this.
    pub fn count(&self, verdict: Verdict) -> usize {
        let became = |judgement: &&Judgement| judgement.verdict == verdict;
        self.judgements.iter().filter(became).count()
    }

    /// Orders that do not hold.
    pub fn order_violations(&self) -> usize {
        let violations = self.judgements.iter();
        violations
            .filter(|judgement| judgement.is_order_violation())
            .count()
    }

    /// Why a claim does not hold, as far as is known.
    pub fn why(&self, judgement: &Judgement) -> String {
        let known = reasons::of(judgement.claim.id).unwrap_or_default();
        let id = judgement.claim.id;
        let holds_with: Vec<String> = self
            .swept
            .iter()
            .filter(|swept| {
                let mut changed = swept.changed.iter();
                changed.any(|now| now.claim.id == id && now.verdict == Verdict::Held)
            })
            .map(|swept| swept.vary.to_string())
            .collect();
        let holds_with = match holds_with.is_empty() {
            true => String::new(),
            false => format!("By the sweep it holds with {}.", holds_with.join("; with ")),
        };
        let ablation = match reasons::ablation(id) {
            Some(what) => format!("One parameter changed, before DIMMs queued exactly: {what}."),
            None => String::new(),
        };
        let parts = [known, holds_with.as_str(), ablation.as_str()];
        let said = parts.into_iter().filter(|part| !part.is_empty());
        said.collect::<Vec<&str>>().join(" ")
    }

    /// A ratio to the baseline.
    pub fn over_baseline(
        &self,
        workload: Workload,
        design: Design,
        metric: Metric,
    ) -> Option<Spread> {
        let sides = [design, Design::Baseline].map(|design| (design, Change::Nothing));
        self.results.ratio(workload, sides, metric)
    }

    /// Everything as one object: flat numbers, then lists of the claims and of the sweep.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| {
            object.insert(name.to_owned(), value);
        };
        self.put_ratios(&mut put);
        put("order_violations", self.order_violations().into());
        put(
            "order_indistinguishable",
            self.count(Verdict::Indistinguishable).into(),
        );
        put("claims_total", CLAIMS.len().into());
        put("claims_held", self.count(Verdict::Held).into());
        put("claims_not_held", self.count(Verdict::NotHeld).into());
        put(
            "claims_not_measured",
            self.count(Verdict::NotMeasured).into(),
        );
        self.put_gains(&mut put);
        put("full_hours", json!(self.full_hours));
        put("cells_measured", self.cells.len().into());
        put("cells_total", self.cells_total.into());
        put("scale_divisor", self.common.scale_divisor.into());
        put("seeds", self.seeds.into());
        put(
            "parameters_digest",
            digest_of(self.common.parameters).into(),
        );
        put("simulator_version", VERSION.into());
        put("commit_hash", commit_hash().into());
        put(
            "claims",
            self.judgements
                .iter()
                .map(|judgement| self.claim_to_json(judgement))
                .collect(),
        );
        put("sweep", self.swept.iter().map(swept_to_json).collect());
        put("failures", json!(self.failures));
        object.into()
    }

    /// What each workload took on each design, over the baseline's.
    fn put_ratios(&self, put: &mut dyn FnMut(&str, Value)) {
        let others = Design::ALL
            .into_iter()
            .filter(|design| *design != Design::Baseline);
        let metrics = METRICS
            .into_iter()
            .chain([(Metric::EnergyWithCores, "energy_with_cores")]);
        for (metric, name) in metrics {
            for design in others.clone() {
                for workload in Workload::all() {
                    let Some(spread) = self.over_baseline(workload, design, metric) else {
                        continue;
                    };
                    let (workload_name, design_name) = (workload.as_str(), design.as_str());
                    let key = format!("{workload_name}_{design_name}_{name}_vs_baseline");
                    let key = key.replace('-', "_");
                    put(&key, json!(spread.mean));
                    put(&format!("{key}_rms"), json!(spread.rms));
                    match said(workload, design, metric) {
                        Some((least, most)) if least == most => {
                            put(&format!("{key}_paper"), json!(most))
                        }
                        Some((least, most)) => {
                            put(&format!("{key}_paper_least"), json!(least));
                            put(&format!("{key}_paper_most"), json!(most));
                        }
                        None => {}
                    }
                }
            }
        }
    }

    /// What ways divided at run time come to, beside Table 3's and the best fixed ones.
    fn put_gains(&self, put: &mut dyn FnMut(&str, Value)) {
        for gain in &self.gains {
            let name = gain.workload.as_str().replace('-', "_");
            put(
                &format!("adaptive_{name}_vs_static"),
                json!(gain.over_fixed),
            );
            if let Some((what, best)) = &gain.best {
                put(
                    &format!("adaptive_{name}_best_static_vs_static"),
                    json!(best),
                );
                put(&format!("adaptive_{name}_best_static"), json!(what));
            }
            if let Some(won_back) = gain.won_back() {
                put(
                    &format!("adaptive_{name}_gain_vs_best_static"),
                    json!(won_back),
                );
            }
            put(&format!("adaptive_{name}_holds"), gain.is_good().into());
        }
        let slower = |gain: &&Gain| gain.over_fixed > 1.0 + SLOWER_MOST;
        put(
            "adaptive_slower",
            self.gains.iter().filter(slower).count().into(),
        );
        put(
            "adaptive_holds",
            (!self.gains.is_empty() && self.gains.iter().all(Gain::is_good)).into(),
        );
    }

    fn claim_to_json(&self, judgement: &Judgement) -> Value {
        let claim = judgement.claim;
        json!({
            "claim": claim.id,
            "section": claim.section,
            "workload": claim.workload,
            "metric": claim.metric,
            "design": claim.design,
            "over": claim.over,
            "paper": claim.value.to_string(),
            "verdict": judgement.verdict.as_str(),
            "ours_least": judgement.range().map(|(least, _)| least),
            "ours_most": judgement.range().map(|(_, most)| most),
            "ours": judgement.numbers(),
            "off_by": judgement.off_by,
            "note": reasons::note(claim).unwrap_or_default(),
            "why": match judgement.verdict {
                Verdict::Held => String::new(),
                Verdict::NotHeld | Verdict::Indistinguishable => self.why(judgement),
                Verdict::NotMeasured => judgement.why_not.clone(),
            },
        })
    }

    /// For a terminal: what became of the claims, and those that do not hold or of which nobody can tell.
    pub fn to_text(&self) -> String {
        let mut text = self.verdict();
        for judgement in &self.judgements {
            if !matches!(
                judgement.verdict,
                Verdict::NotHeld | Verdict::Indistinguishable
            ) {
                continue;
            }
            let claim = judgement.claim;
            let _ = write!(
                text,
                "\n  {}: {} (§{}): {:?} of {} over {}: {}; ours {}",
                judgement.verdict.as_str(),
                claim.id,
                claim.section,
                claim.metric,
                claim.design,
                claim.over,
                claim.value,
                judgement.numbers()
            );
        }
        text
    }

    /// One sentence.
    pub fn verdict(&self) -> String {
        format!(
            "Of the {} claims of the paper's text {} hold, {} do not, and {} were not measured. Of orders, {} are violated, and {} are of \
             two that cannot be told apart.",
            CLAIMS.len(),
            self.count(Verdict::Held),
            self.count(Verdict::NotHeld),
            self.count(Verdict::NotMeasured),
            self.order_violations(),
            self.count(Verdict::Indistinguishable)
        )
    }
}

/// What the paper's text says of a ratio to the baseline, the least and the most.
pub fn said(workload: Workload, design: Design, metric: Metric) -> Option<(f64, f64)> {
    let base = Side::Of(Design::Baseline);
    let mut of = CLAIMS.iter().filter(|claim| {
        (claim.design, claim.over, claim.metric) == (Side::Of(design), base, metric)
            && workloads_of(claim).contains(&workload)
    });
    of.find_map(|claim| match claim.value {
        Said::Exactly(value) | Said::UpTo(value) | Said::MoreThan(value) => Some((value, value)),
        Said::Between(least, most) => Some((least, most)),
        Said::Same => Some((1.0, 1.0)),
        Said::AtLeast(_) | Said::More | Said::Less => None,
    })
}

/// The sweep is of the parameters that are built in.
fn swept(store: &Store, common: Common<'_>) -> Vec<Swept> {
    let mut results = Results::new(1);
    let mut measured = Vec::new();
    for cell in sweep::cells() {
        if let Some(kept) = store.get(common, &cell) {
            results.put(&cell, kept.measured);
            measured.extend(cell.vary);
        }
    }
    let is_measured = |vary: &Vary| measured.contains(vary);
    sweep::variations()
        .into_iter()
        .filter(is_measured)
        .map(|vary| Swept {
            changed: sweep::changed(&results, common.parameters, &vary),
            results: sweep::varied(&results, Some(&vary)),
            vary,
        })
        .collect()
}

fn swept_to_json(swept: &Swept) -> Value {
    let changed = swept.changed.iter().map(|judgement| {
        json!({
            "claim": judgement.claim.id,
            "verdict": judgement.verdict.as_str(),
            "ours": judgement.numbers(),
        })
    });
    let [times, over] = swept.vary.factor;
    json!({
        "parameter": swept.vary.name,
        "factor": times as f64 / over as f64,
        "changed": changed.collect::<Vec<_>>(),
    })
}

/// A line for each cell that was measured.
pub fn to_csv(report: &Report<'_>) -> String {
    let mut csv = String::from("workload,design,change,seed,scale_divisor");
    let fields = |measured: &Measured| match json!(measured) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    for name in fields(&Measured::default()).keys() {
        let _ = write!(csv, ",{name}");
    }
    csv += "\r\n";
    for (cell, measured) in &report.cells {
        let _ = write!(
            csv,
            "{},{},{},{},{}",
            cell.workload.as_str(),
            cell.design.as_str(),
            cell.change,
            cell.seed,
            report.common.scale_divisor
        );
        for value in fields(measured).values() {
            let _ = write!(csv, ",{value}");
        }
        csv += "\r\n";
    }
    csv
}
