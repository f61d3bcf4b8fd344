//! Proves that the checker notices: each named fault of the core and of the engines is switched on
//! and searched for.

use crate::campaign::{self, Limits};
use crate::search::{check_sound, search, write_counts};
use crate::subject::Subject;
use std::path::Path;

/// A fault.
#[derive(Clone, Copy)]
enum Fault {
    /// Of Forebay's core.
    Core(forebay::mutants::Mutant),
    /// Of an engine of the lab.
    Lab(forebay_lab::mutants::Mutant),
}

impl Fault {
    fn all() -> impl Iterator<Item = Fault> {
        let core = forebay::mutants::Mutant::ALL.map(Fault::Core);
        let lab = forebay_lab::mutants::Mutant::ALL.map(Fault::Lab);
        core.into_iter().chain(lab)
    }

    fn name(self) -> String {
        match self {
            Fault::Core(mutant) => mutant.name(),
            Fault::Lab(mutant) => mutant.name(),
        }
    }

    fn subject(self) -> Subject {
        match self {
            Fault::Core(_) => Subject::Pool,
            Fault::Lab(mutant) => Subject::engine(mutant.engine(), false),
        }
    }
}

/// Switches one fault on, or all off.
fn set(fault: Option<Fault>) {
    let (core, lab) = match fault {
        Some(Fault::Core(mutant)) => (Some(mutant), None),
        Some(Fault::Lab(mutant)) => (None, Some(mutant)),
        None => (None, None),
    };
    forebay::mutants::set(core);
    forebay_lab::mutants::set(lab);
}

/// Switches the named fault on and returns whose it is, or all off and returns `subject`.
pub fn select(name: Option<&str>, subject: Subject) -> Result<Subject, String> {
    let Some(name) = name else {
        set(None);
        return Ok(subject);
    };
    let found = Fault::all().find(|fault| fault.name() == name);
    let fault = found.ok_or_else(|| format!("there is no mutant {name}"))?;
    set(Some(fault));
    Ok(fault.subject())
}

/// `forebay-check mutants`: true if every fault was noticed.
pub fn command(limits: &Limits, only: &[String], json: Option<&Path>) -> Result<bool, String> {
    campaign::hush_panics();
    let wanted = |fault: &Fault| only.is_empty() || only.contains(&fault.name());
    let faults: Vec<Fault> = Fault::all().filter(wanted).collect();
    let mut caught = 0;
    let mut sound = None;
    for &fault in &faults {
        let limits = Limits {
            subject: fault.subject(),
            ..limits.clone()
        };
        if sound != Some(limits.subject) {
            check_sound(&limits)?;
            sound = Some(limits.subject);
        }
        set(Some(fault));
        caught += usize::from(search(&limits, &fault.name()));
        set(None);
    }
    println!("{caught} of {} mutants caught", faults.len());
    write_counts(json, ("mutants", "mutants"), (faults.len(), caught))?;
    Ok(caught == faults.len())
}
