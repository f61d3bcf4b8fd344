//! `forebay-lab tvarak run`: workloads on designs.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay_command::{Failure, output, progress};
use forebay_tvarak::measure::{NoOutcome, Outcome, Scope, measure, steps};
use forebay_tvarak::name::Workload;
use forebay_tvarak::row::{Row, text};
use forebay_tvarak::{Design, Parameters};
use indicatif::ProgressBar;
use serde_json::json;

use crate::measuring;
use crate::tvarak::arguments::TvarakRun;

/// By how much caches and work are smaller with `--quick`.
pub const QUICK_DIVISOR: u64 = 32;

struct Run<'o> {
    options: &'o TvarakRun,
    parameters: Parameters,
    divisor: u64,
    is_called_off: &'o AtomicBool,
    bar: ProgressBar,
}

/// Simulates workloads.
pub fn run(options: &TvarakRun, workloads: Vec<Workload>) -> Result<(), Failure> {
    let is_called_off = progress::called_off_flag()?;
    let divisor = if options.quick { QUICK_DIVISOR } else { 1 };
    let parameters = parameters(options)?
        .scaled_down(divisor)
        .map_err(|error| Failure::Arguments(error.to_string()))?;
    let designs = designs(options);
    let of_all = workloads
        .iter()
        .map(|workload| steps(&parameters, *workload))
        .sum::<u64>();
    let run = Run {
        options,
        divisor,
        is_called_off: &is_called_off,
        bar: measuring::bar(of_all as usize * designs.len()),
        parameters,
    };
    let mut rows = Vec::new();
    for workload in workloads {
        rows.extend(run.workload(workload, &designs)?);
    }
    run.bar.finish_and_clear();
    match options.json {
        true => output::json(&json!(rows)),
        false => output::text_of_ours(&text(&rows)),
    }
    let is_wrong = |row: &&Row| {
        [row.wrong_bytes, row.misfitting_pages].map(Option::unwrap_or_default) != [0, 0]
    };
    let failures: Vec<String> = rows
        .iter()
        .filter(is_wrong)
        .map(|row| format!("{} on {} left wrong memory", row.workload, row.design))
        .collect();
    measuring::none_failed(&failures)
}

/// The parameters that were asked for.
pub fn parameters(options: &TvarakRun) -> Result<Parameters, Failure> {
    let wrong = |error: String| Failure::Arguments(error);
    match (&options.parameters, &options.vary) {
        (Some(path), _) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| wrong(format!("{}: {error}", path.display())))?;
            Parameters::parse(&text).map_err(|error| wrong(format!("{}: {error}", path.display())))
        }
        (None, Some((name, factor))) => {
            Parameters::paper_with(name, *factor).map_err(|error| wrong(error.to_string()))
        }
        (None, None) => Ok(Parameters::paper()),
    }
}

/// Whether a design is wanted: each is where none is named, and the baseline always.
pub fn is_asked(options: &TvarakRun, design: Design) -> bool {
    options.designs.is_empty() || design == Design::Baseline || options.designs.contains(&design)
}

/// The baseline first, and what was asked for.
fn designs(options: &TvarakRun) -> Vec<Design> {
    let all = Design::ALL.into_iter();
    all.filter(|design| is_asked(options, *design)).collect()
}

impl Run<'_> {
    /// All designs under a workload.
    fn workload(&self, workload: Workload, designs: &[Design]) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        let mut baseline: Option<Outcome> = None;
        for &design in designs {
            let scope = Scope {
                workload,
                design,
                seed: self.options.seed.unwrap_or(1),
                is_checked: self.options.check,
            };
            let outcome = self.measure(&scope)?;
            let baseline = baseline.get_or_insert(outcome);
            let row = Row::new(&self.parameters, &scope, self.divisor, &outcome, baseline);
            rows.push(row);
        }
        Ok(rows)
    }

    fn measure(&self, scope: &Scope) -> Result<Outcome, Failure> {
        self.bar.set_message(format!(
            "{} on {}",
            scope.workload.as_str(),
            scope.design.as_str()
        ));
        let before = self.bar.position();
        let outcome = measure(&self.parameters, scope, &mut |steps| {
            self.bar.set_position(before + steps);
            !self.is_called_off.load(Ordering::SeqCst)
        });
        self.bar
            .set_position(before + steps(&self.parameters, scope.workload));
        outcome.map_err(|error| match error {
            NoOutcome::CalledOff => measuring::called_off(),
            NoOutcome::Lost(loss) => Failure::Failed(loss.to_string()),
        })
    }
}
