//! Proves that the checker notices: each named fault of the core and of the engines is switched on
//! and searched for.

use crate::campaign::{self, Limits};
use crate::files;
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
    /// Of the durable file buffer.
    Files(forebay_files::mutants::Mutant),
}

impl Fault {
    fn all() -> impl Iterator<Item = Fault> {
        let core = forebay::mutants::Mutant::ALL.map(Fault::Core);
        let lab = forebay_lab::mutants::Mutant::ALL.map(Fault::Lab);
        let files = forebay_files::mutants::Mutant::ALL.map(Fault::Files);
        core.into_iter().chain(lab).chain(files)
    }

    fn name(self) -> String {
        match self {
            Fault::Core(mutant) => mutant.name(),
            Fault::Lab(mutant) => mutant.name(),
            Fault::Files(mutant) => mutant.name(),
        }
    }

    /// What shows it; none if that is the file buffer.
    fn subject(self) -> Option<Subject> {
        match self {
            Fault::Core(_) => Some(Subject::Pool),
            Fault::Lab(mutant) => Some(Subject::engine(mutant.engine(), false)),
            Fault::Files(_) => None,
        }
    }
}

/// Switches one fault on, or all off.
fn set(fault: Option<Fault>) {
    let (core, lab, files) = match fault {
        Some(Fault::Core(mutant)) => (Some(mutant), None, None),
        Some(Fault::Lab(mutant)) => (None, Some(mutant), None),
        Some(Fault::Files(mutant)) => (None, None, Some(mutant)),
        None => (None, None, None),
    };
    forebay::mutants::set(core);
    forebay_lab::mutants::set(lab);
    forebay_files::mutants::set(files);
}

/// Switches the named fault on and returns whose it is (`subject` for the file buffer's), or all off
/// and returns `subject`.
pub fn select(name: Option<&str>, subject: Subject) -> Result<Subject, String> {
    let Some(name) = name else {
        set(None);
        return Ok(subject);
    };
    let found = Fault::all().find(|fault| fault.name() == name);
    let fault = found.ok_or_else(|| format!("there is no mutant {name}"))?;
    set(Some(fault));
    Ok(fault.subject().unwrap_or(subject))
}

/// `forebay-check mutants`: true if every fault was noticed.
pub fn command(limits: &Limits, only: &[String], json: Option<&Path>) -> Result<bool, String> {
    campaign::hush_panics();
    let wanted = |fault: &Fault| only.is_empty() || only.contains(&fault.name());
    let faults: Vec<Fault> = Fault::all().filter(wanted).collect();
    let mut caught = 0;
    let mut sound = None;
    for &fault in &faults {
        if sound != Some(fault.subject()) {
            match fault.subject() {
                Some(subject) => check_sound(&of(limits, subject))?,
                None => files::check_sound(limits)?,
            }
            sound = Some(fault.subject());
        }
        set(Some(fault));
        let is_caught = match fault.subject() {
            Some(subject) => search(&of(limits, subject), &fault.name()),
            None => files::search(limits, &fault.name())?,
        };
        set(None);
        caught += usize::from(is_caught);
    }
    println!("{caught} of {} mutants caught", faults.len());
    write_counts(json, ("mutants", "mutants"), (faults.len(), caught))?;
    Ok(caught == faults.len())
}

fn of(limits: &Limits, subject: Subject) -> Limits {
    Limits {
        subject,
        ..limits.clone()
    }
}
