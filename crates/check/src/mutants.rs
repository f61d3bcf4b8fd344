//! Proves that the checker notices: each named fault of the core is switched on and searched for.

use crate::campaign::{self, Limits};
use crate::search::{search, write_counts};
use crate::subject::Subject;
use forebay::mutants::{Mutant, set};
use std::path::Path;

/// Switches the named fault on, or all off; returns what to crash, `subject` if there is none.
pub fn select(name: Option<&str>, subject: Subject) -> Result<Subject, String> {
    let mutant = name.map(|name| {
        let found = Mutant::ALL.into_iter().find(|mutant| mutant.name() == name);
        found.ok_or_else(|| format!("there is no mutant {name}"))
    });
    set(mutant.transpose()?);
    Ok(subject)
}

/// `forebay-check mutants`: true if every fault was noticed.
pub fn command(limits: &Limits, only: &[String], json: Option<&Path>) -> Result<bool, String> {
    campaign::hush_panics();
    let wanted = |mutant: &Mutant| only.is_empty() || only.contains(&mutant.name());
    let mutants: Vec<Mutant> = Mutant::ALL.into_iter().filter(wanted).collect();
    let mut caught = 0;
    for &mutant in &mutants {
        set(Some(mutant));
        caught += usize::from(search(limits, &mutant.name()));
        set(None);
    }
    println!("{caught} of {} mutants caught", mutants.len());
    write_counts(json, ("mutants", "mutants"), (mutants.len(), caught))?;
    Ok(caught == mutants.len())
}
