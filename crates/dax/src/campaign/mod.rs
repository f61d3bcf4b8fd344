//! Random trials over models of a region's files, in each of which one file does one thing wrong below good fences.
//!
//! Programs store and make durable, passes, syncs, repairs and seals go on, processes are killed, power fails, caches
//! forget. Whatever is read in the end is what was promised, or named.

mod ground;
mod judge;
mod kinds;
mod place;
#[cfg(test)]
pub mod tests;
mod told;
mod trial;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kinds::{Combination, combination, round};
use told::Outcome;

/// What came of a kind in an area, in trials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// `KIND_AREA`.
    pub name: String,
    /// The fault was put there.
    pub injected: u64,
    /// The medium held, or loads got, something else than they should.
    pub struck: u64,
    /// Something was said of it, or it was put right.
    pub found: u64,
    /// In the end nothing was named, and everything right.
    pub repaired: u64,
    /// Nothing was found and nothing missed: the bytes were written anew before anything read them.
    pub overwritten: u64,
    /// A page was damaged between a store to it and its pass, and is vouched for as it is.
    pub in_window: u64,
}

impl Counted {
    fn note(&mut self, outcome: &Outcome) {
        self.injected += 1;
        self.struck += u64::from(outcome.is_struck);
        self.found += u64::from(outcome.is_found);
        self.repaired += u64::from(outcome.is_repaired);
        self.in_window += u64::from(outcome.is_in_window);
        let is_unseen = outcome.is_struck && !outcome.is_found && !outcome.is_in_window;
        self.overwritten += u64::from(is_unseen);
    }
}

/// What came of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Each kind in each area.
    pub counted: Vec<Counted>,
    /// By number of the trial: what must not be.
    pub violations: Vec<(u64, String)>,
}

/// Runs trials from the number `first` on, by so many threads; `progress` is called after each, and ends the campaign by
/// `false`.
///
/// # Panics
/// A thread cannot be started.
pub fn run(
    first: u64,
    trials: u64,
    threads: usize,
    progress: &(dyn Fn() -> bool + Sync),
) -> Report {
    allow_small_regions();
    let next = AtomicU64::new(first);
    let counted: Mutex<Vec<(Combination, Counted)>> = Mutex::default();
    let violations = Mutex::new(Vec::new());
    for what in round() {
        let mut counted = counted.lock().expect("nobody panicked");
        if !counted.iter().any(|(one, _)| *one == what) {
            let name = format!("{}_{}", what.0.name(), what.1.name());
            let nothing = Counted {
                name,
                ..Counted::default()
            };
            counted.push((what, nothing));
        }
    }
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= first + trials {
                return;
            }
            let outcome = outcome(number, false);
            if let Some(wrong) = &outcome.wrong {
                let mut violations = violations.lock().expect("nobody panicked");
                violations.push((number, wrong.clone()));
            }
            let mut counted = counted.lock().expect("nobody panicked");
            let of = counted.iter_mut().find(|(what, _)| *what == outcome.what);
            of.expect("every combination is counted").1.note(&outcome);
            drop(counted);
            if !progress() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut violations = violations.into_inner().expect("nobody panicked");
    violations.sort();
    let counted = counted.into_inner().expect("nobody panicked");
    Report {
        counted: counted.into_iter().map(|(_, counted)| counted).collect(),
        violations,
    }
}

/// Runs one trial again: what happened, in words, and what must not be.
#[must_use]
pub fn replay(number: u64) -> (Vec<String>, Option<String>) {
    allow_small_regions();
    let outcome = outcome(number, true);
    (outcome.story.unwrap_or_default(), outcome.wrong)
}

fn outcome(number: u64, tells: bool) -> Outcome {
    let ran = catch_unwind(AssertUnwindSafe(|| trial::run(number, tells)));
    ran.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|&said| said.to_owned()));
        let mut outcome = Outcome::new(combination(number), tells);
        outcome.is_wrong(|| format!("it panicked: {said:?}"));
        outcome
    })
}

fn allow_small_regions() {
    #[cfg(feature = "campaign")]
    crate::format::ALLOWS_SMALL_UNITS.store(true, Ordering::Relaxed);
}
