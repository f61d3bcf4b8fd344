//! What dividing the LLC's ways at run time wins back, of what the division of Table 3 costs beside the best fixed one.
//!
//! `cargo run --release -p forebay-tvarak --example adapt -- nstore-balanced 8 nvm.banks=1/2`: caches and work divided by 8, with half of
//! NVM's banks. Fixed divisions are those of Figure 10, those of its ways of redundancy without diffs, and none of either.

use forebay_tvarak::figures::plan::{DIFF_WAYS, REDUNDANCY_WAYS, WAYS};
use forebay_tvarak::measure::{Scope, measure};
use forebay_tvarak::name::Workload;
use forebay_tvarak::{Design, Parameters};

fn cycles(parameters: &Parameters, workload: Workload, design: Design) -> u64 {
    let scope = Scope {
        workload,
        design,
        seed: 1,
        is_checked: false,
    };
    let outcome = measure(parameters, &scope, &mut |_| true);
    outcome.expect("no bugs are planted").cycles
}

fn varied(text: Option<&String>) -> Parameters {
    let Some((name, ratio)) = text.and_then(|text| text.split_once('=')) else {
        return Parameters::paper();
    };
    let (times, over) = ratio.split_once('/').expect("a ratio");
    let number = |text: &str| text.parse().expect("a number");
    Parameters::paper_with(name, [number(times), number(over)]).expect("a parameter")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let factor = arguments[1].parse().expect("a factor");
    let parameters = varied(arguments.get(2))
        .scaled_down(factor)
        .expect("a factor");
    for workload in Workload::named(&arguments[0]).expect("a workload") {
        let name = workload.as_str();
        let baseline = cycles(&parameters, workload, Design::Baseline);
        let ratio = |cycles: u64| cycles as f64 / baseline as f64;
        let mut best = (u64::MAX, String::new());
        let mut consider = |cycles: u64, what: String| {
            println!("{name} {what}: {:.4}", ratio(cycles));
            best = best.clone().min((cycles, what));
        };
        let of = |redundancy, diffs, design| {
            let mut fixed = parameters.clone();
            fixed.controller.redundancy_ways.value = redundancy;
            fixed.controller.diff_ways.value = diffs;
            cycles(&fixed, workload, design)
        };
        for ways in WAYS {
            let what = format!("{ways} ways and diffs");
            consider(of(ways, DIFF_WAYS, Design::Tvarak), what);
            let without = of(ways, DIFF_WAYS, Design::Cached);
            consider(without, format!("{ways} ways"));
        }
        for ways in WAYS.into_iter().filter(|ways| *ways != DIFF_WAYS) {
            let what = format!("{REDUNDANCY_WAYS} ways and {ways} of diffs");
            consider(of(REDUNDANCY_WAYS, ways, Design::Tvarak), what);
        }
        consider(
            cycles(&parameters, workload, Design::LineSums),
            "no ways".into(),
        );
        let fixed = cycles(&parameters, workload, Design::Tvarak);
        let adaptive = cycles(&parameters, workload, Design::Adaptive);
        let gain = (fixed as f64 - adaptive as f64) / (fixed as f64 - best.0 as f64);
        println!(
            "{name} fixed {:.4}, best {:.4} ({}), adaptive {:.4}: adaptive_{name}_gain_vs_best_static {gain:.2}",
            ratio(fixed),
            ratio(best.0),
            best.1,
            ratio(adaptive),
        );
    }
}
