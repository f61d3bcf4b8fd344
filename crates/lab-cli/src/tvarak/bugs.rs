//! `forebay-lab tvarak bugs`: bugs of the firmware, cuts of power and dead DIMMs, at random.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay_command::{Failure, output, progress};
use forebay_harness::rows::commit_hash;
use forebay_harness::write_file;
use forebay_tvarak::Design;
use forebay_tvarak::campaign::bugs::{BugReport, campaign};
use forebay_tvarak::campaign::{dimm, power};
use forebay_tvarak::nvm::fault::FaultKind;
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};

use crate::measuring;
use crate::tvarak::arguments::TvarakBugs;

/// Of each kind with `--quick`.
const QUICK_BUGS: u64 = 200;

struct Run<'o> {
    options: &'o TvarakBugs,
    bugs: u64,
    is_called_off: &'o AtomicBool,
    bar: ProgressBar,
    failures: Vec<String>,
    report: Map<String, Value>,
}

/// Runs the campaigns.
pub fn run(options: &TvarakBugs) -> Result<(), Failure> {
    let is_called_off = progress::called_off_flag()?;
    let bugs = if options.quick {
        QUICK_BUGS
    } else {
        options.bugs
    };
    let kinds = match options.kinds.as_slice() {
        [] => FaultKind::ALL.to_vec(),
        kinds => kinds.to_vec(),
    };
    let mut run = Run {
        options,
        bugs,
        is_called_off: &is_called_off,
        bar: measuring::bar((kinds.len() + 3) * bugs as usize),
        failures: Vec::new(),
        report: Map::new(),
    };
    run.report
        .insert("design".into(), options.design.as_str().into());
    let mut wrong_bytes = 0;
    for kind in kinds {
        wrong_bytes += run.bugs_of(kind)?.wrong_bytes;
    }
    run.report.insert("wrong_bytes".into(), wrong_bytes.into());
    run.violations("powercut", power::trial)?;
    run.violations("repair_powercut", power::repair_trial)?;
    run.violations("dimm_death", dimm::trial)?;
    run.bar.finish_and_clear();
    if let Some(out) = &options.out {
        run.report
            .insert("commit_hash".into(), commit_hash().into());
        let json = json!(run.report).to_string() + "\n";
        write_file(&out.join("tvarak-bugs.json"), json.as_bytes())?;
    }
    output::object(&json!(run.report), options.json);
    measuring::none_failed(&run.failures)
}

impl Run<'_> {
    fn goes_on(&self) -> Result<(), Failure> {
        match self.is_called_off.load(Ordering::SeqCst) {
            true => Err(measuring::called_off()),
            false => Ok(()),
        }
    }

    fn bugs_of(&mut self, kind: FaultKind) -> Result<BugReport, Failure> {
        self.bar.set_message(kind.as_str());
        let before = self.bar.position();
        let trials = (self.options.seed, self.bugs);
        let found = campaign(self.options.design, kind, trials, &mut |so_far| {
            self.bar.set_position(before + so_far);
            self.goes_on().is_ok()
        });
        self.goes_on()?;
        for (name, value) in [
            ("injected", found.injected - found.masked),
            ("masked", found.masked),
            ("detected", found.detected),
            ("detected_by_controllers", found.detected_by_controllers),
            ("repaired", found.repaired),
        ] {
            let name = format!("bugs_{}_{name}", kind.as_str());
            self.report.insert(name, value.into());
        }
        if !found.is_clean() {
            self.failures
                .push(format!("{}: {}", kind.as_str(), json!(found)));
        }
        Ok(found)
    }

    fn violations(
        &mut self,
        name: &str,
        trial: fn(Design, u64) -> Vec<String>,
    ) -> Result<(), Failure> {
        self.bar.set_message(name.to_owned());
        let mut violations = 0_u64;
        for seed in 0..self.bugs {
            let found = trial(self.options.design, self.options.seed + seed);
            if let Some(first) = found.first() {
                violations += 1;
                let seed = self.options.seed + seed;
                self.failures
                    .push(format!("{name}, --seed {seed}: {first}"));
            }
            self.bar.inc(1);
            self.goes_on()?;
        }
        self.report
            .insert(format!("{name}_trials"), self.bugs.into());
        self.report
            .insert(format!("{name}_violations"), violations.into());
        Ok(())
    }
}
