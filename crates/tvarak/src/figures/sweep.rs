//! Every parameter that the paper does not give, halved and doubled: what depends on it.

use crate::change::{Change, Vary};
use crate::design::Design;
use crate::figures::cell::Cell;
use crate::figures::judge::{Judge, Judgement};
use crate::figures::plan::{PRESENTED, seeds_of};
use crate::figures::results::Results;
use crate::figures::verdict::Verdict;
use crate::name::Workload;
use crate::parameters::Parameters;

/// The designs that are swept.
pub const DESIGNS: [Design; 4] = [
    Design::Baseline,
    Design::Tvarak,
    Design::TxbObject,
    Design::TxbPage,
];
/// By half and by twice.
pub const FACTORS: [[u64; 2]; 2] = [[1, 2], [2, 1]];
/// What only designs have that are in no claim.
const OF_NO_CLAIM: [&str; 6] = [
    "adaptive.better_by",
    "adaptive.round_accesses",
    "adaptive.shadowed_sets",
    "adaptive.trial_rounds",
    "passes.period_us",
    "programs.work_divisor",
];
/// What only energy with cores and DRAM depends on, which is claimed of Redis.
const OF_CORES_ENERGY: [&str; 4] = [
    "cores.instruction_pj",
    "cores.static_mw",
    "dram.read_pj",
    "dram.write_pj",
];

/// The parameters that are swept: those that something judged depends on.
pub fn parameters() -> Vec<String> {
    let all = Parameters::reconstructed().into_iter();
    all.filter(|name| !OF_NO_CLAIM.contains(&name.as_str()))
        .collect()
}

/// Whether a workload on a design notices a parameter.
pub fn is_noticed(name: &str, workload: Workload, design: Design) -> bool {
    let section = name.split('.').next().unwrap_or_default();
    let own = workload.as_str();
    match section {
        _ if OF_CORES_ENERGY.contains(&name) => own.starts_with("redis"),
        "fio" | "redis" | "nstore" => own.starts_with(section),
        "trees" | "ctree" | "btree" | "rbtree" => own.contains("tree"),
        "programs" | "heap" => matches!(workload, Workload::Program(_)),
        "txb" => design.is_in_software(),
        "controller" => design.has_controller(),
        _ => true,
    }
}

/// The cells of one variation; those that do not notice it are those without.
fn cell(workload: Workload, design: Design, vary: Option<&Vary>) -> Cell {
    let vary = vary.filter(|vary| is_noticed(&vary.name, workload, design));
    Cell {
        workload,
        design,
        change: Change::Nothing,
        vary: vary.cloned(),
        seed: *seeds_of(workload, 1).start(),
    }
}

/// Every variation.
pub fn variations() -> Vec<Vary> {
    let each = |name: String| {
        FACTORS.map(|factor| Vary {
            name: name.clone(),
            factor,
        })
    };
    parameters().into_iter().flat_map(each).collect()
}

/// All cells, each once: those without a variation first.
pub fn cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    let variations = variations();
    for vary in std::iter::once(None).chain(variations.iter().map(Some)) {
        for workload in PRESENTED {
            for design in DESIGNS {
                let cell = cell(workload, design, vary);
                if !cells.contains(&cell) {
                    cells.push(cell);
                }
            }
        }
    }
    cells
}

/// Results as they would be with a variation everywhere, or with none: cells that do not notice it are those without.
pub fn varied(results: &Results, vary: Option<&Vary>) -> Results {
    let mut varied = Results::new(1);
    for workload in PRESENTED {
        for design in DESIGNS {
            if let Some(measured) = results.get(&cell(workload, design, vary)) {
                varied.put(&cell(workload, design, None), *measured);
            }
        }
    }
    varied
}

/// The claims whose verdict a variation changes, as it is with it.
pub fn changed(results: &Results, parameters: &Parameters, vary: &Vary) -> Vec<Judgement> {
    let judged = |results: &Results| {
        let judge = Judge {
            results,
            workloads: Some(&PRESENTED),
            has_numbers: true,
            parameters,
        };
        judge.all()
    };
    let is_known = |judgement: &Judgement| judgement.verdict != Verdict::NotMeasured;
    let before = judged(&varied(results, None));
    let after = judged(&varied(results, Some(vary)));
    let both = before.into_iter().zip(after);
    both.filter(|(before, after)| {
        is_known(before) && is_known(after) && before.verdict != after.verdict
    })
    .map(|(_, after)| after)
    .collect()
}
