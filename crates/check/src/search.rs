//! Campaigns that have to find something: a protocol that loses data, or a fault switched on.

use crate::campaign::{self, Limits};
use crate::report::{self, Entry, progress_bar};
use crate::subject::Subject;
use forebay_lab::engines::EngineName;
use std::path::Path;

/// The papers' protocols that lose data as printed; `docs/papers.md` says which and how.
const PRINTED_LOSES: [EngineName; 3] =
    [EngineName::Classic, EngineName::Tinca, EngineName::Spindle];

/// Runs one campaign and says whether it noticed the fault called `name`.
pub fn search(limits: &Limits, name: &str) -> bool {
    let bar = progress_bar(u64::MAX, name);
    let outcome = campaign::run(limits, &bar);
    bar.finish_and_clear();
    let images = outcome.recovered;
    match outcome.violations.first() {
        Some(violation) => {
            let seed = &violation.scenario;
            println!("mutant {name}: caught (seed {seed}, after {images} images)");
            true
        }
        None => {
            println!("mutant {name}: SURVIVED {images} images");
            false
        }
    }
}

/// Writes how many faults of a kind there are and were noticed.
pub fn write_counts(
    path: Option<&Path>,
    (kind, unit): (&str, &'static str),
    (all, caught): (usize, usize),
) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let entry = |name, value: usize| Entry {
        name,
        value: value as u64,
        unit,
    };
    let rows = [
        entry(kind.to_string(), all),
        entry(format!("{kind}_caught"), caught),
    ];
    report::write(path, &rows)
}

/// Images in which a sound engine shows that what is noticed afterwards is the fault.
const SOUND_IMAGES: u64 = 1_000;

/// The error says what is wrong with an engine that has no fault switched on.
pub fn check_sound(limits: &Limits) -> Result<(), String> {
    let limits = Limits {
        images: SOUND_IMAGES,
        ..limits.clone()
    };
    let outcome = campaign::run(&limits, &indicatif::ProgressBar::hidden());
    match outcome.violations.first() {
        Some(violation) => Err(format!(
            "violated without any fault: {}; replay with: forebay-check replay{} {}",
            violation.text,
            limits.subject.flags(),
            violation.scenario
        )),
        None => Ok(()),
    }
}

/// `forebay-check printed`: true if every one of them was seen losing data.
pub fn printed_command(
    limits: &Limits,
    only: &[String],
    json: Option<&Path>,
) -> Result<bool, String> {
    campaign::hush_panics();
    let wanted = |name: &EngineName| only.is_empty() || only.iter().any(|n| n == name.as_str());
    let names: Vec<EngineName> = PRINTED_LOSES.into_iter().filter(wanted).collect();
    let mut caught = 0;
    for &name in &names {
        let of = |subject| Limits {
            subject,
            ..limits.clone()
        };
        check_sound(&of(Subject::engine(name, false)))?;
        let limits = of(Subject::engine(name, true));
        caught += usize::from(search(&limits, &format!("{name} as printed")));
    }
    println!("{caught} of {} printed protocols caught", names.len());
    write_counts(
        json,
        ("printed_protocols", "protocols"),
        (names.len(), caught),
    )?;
    Ok(caught == names.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Maker;
    use crate::toy::Fault;
    use std::time::Duration;

    fn run_toy(fault: Fault, images: u64) -> campaign::Outcome {
        let limits = Limits {
            subject: Subject::Engine {
                maker: Maker::Toy(fault),
                as_printed: false,
            },
            images,
            time: Duration::from_secs(600),
            seed: 1,
            threads: 1,
        };
        campaign::run(&limits, &indicatif::ProgressBar::hidden())
    }

    #[test]
    fn a_sound_engine_passes_and_its_campaign_can_be_repeated() {
        let outcome = run_toy(Fault::None, 3_000);
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
        assert!(outcome.distinct >= 3_000);
        assert_eq!(outcome.recovered, run_toy(Fault::None, 3_000).recovered);
    }

    #[test]
    fn each_fault_of_an_engine_is_noticed() {
        for fault in [
            Fault::CommitsUnordered,
            Fault::ForgetsBeforeSync,
            Fault::ReadsTheBacking,
            Fault::UpdatesWithZeroes,
            Fault::BelievesTheKilled,
        ] {
            let outcome = run_toy(fault, 20_000);
            assert_eq!(outcome.violations.len(), 1, "{fault:?}");
        }
    }
}
