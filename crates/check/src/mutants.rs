//! Proves that the checker notices: each named fault of the core is switched on and searched for.

use crate::campaign::{self, Limits};
use crate::report::{self, Entry, progress_bar};
use forebay::mutants::{Mutant, set};
use std::path::Path;
use std::time::Duration;

/// Switches the named fault on, or all off.
pub fn select(name: Option<&str>) -> Result<(), String> {
    let mutant = name.map(|name| {
        let found = Mutant::ALL.into_iter().find(|mutant| mutant.name() == name);
        found.ok_or_else(|| format!("there is no mutant {name}"))
    });
    set(mutant.transpose()?);
    Ok(())
}

/// `forebay-check mutants`: true if every fault was noticed.
pub fn command(
    time: Duration,
    seed: u64,
    only: &[String],
    threads: usize,
    json: Option<&Path>,
) -> Result<bool, String> {
    campaign::hush_panics();
    let wanted = |mutant: &Mutant| only.is_empty() || only.contains(&mutant.name());
    let mutants: Vec<Mutant> = Mutant::ALL.into_iter().filter(wanted).collect();
    let mut caught = 0;
    for &mutant in &mutants {
        set(Some(mutant));
        let bar = progress_bar(u64::MAX, &mutant.name());
        let limits = Limits {
            images: u64::MAX,
            time,
            seed,
            threads,
        };
        let outcome = campaign::run(&limits, &bar);
        bar.finish_and_clear();
        set(None);
        match outcome.violations.first() {
            Some(violation) => {
                caught += 1;
                println!(
                    "mutant {}: caught (seed {}, after {} images)",
                    mutant.name(),
                    violation.scenario,
                    outcome.recovered
                );
            }
            None => println!(
                "mutant {}: SURVIVED {} images",
                mutant.name(),
                outcome.recovered
            ),
        }
    }
    println!("{caught} of {} mutants caught", mutants.len());
    if let Some(path) = json {
        report::write(
            path,
            &[
                Entry {
                    name: "mutants",
                    value: mutants.len() as u64,
                    unit: "mutants",
                },
                Entry {
                    name: "mutants_caught",
                    value: caught,
                    unit: "mutants",
                },
            ],
        )?;
    }
    Ok(caught == mutants.len() as u64)
}
