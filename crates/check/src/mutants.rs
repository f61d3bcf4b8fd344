//! Proves that the checker notices: each named fault of the cache, of the file buffer and of the engines is
//! switched on and searched for.

use crate::campaign::{self, Limits};
use crate::search::{Hunt, Search, check_sound, hunt, tell, write_counts};
use crate::subject::Subject;
use forebay_harness::Result;
use parking_lot::Mutex;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A fault.
#[derive(Clone, Copy)]
enum Fault {
    /// Of the pool.
    Pool(forebay::internals::mutants::Mutant),
    /// Of how the medium is mapped.
    Medium(forebay_pmem::mutants::Mutant),
    /// Of an engine of the lab.
    Lab(forebay_lab::mutants::Mutant),
    /// Of the durable file buffer.
    Files(forebay_files::mutants::Mutant),
}

impl Fault {
    fn all() -> impl Iterator<Item = Fault> {
        let pool = forebay::internals::mutants::Mutant::ALL.map(Fault::Pool);
        let medium = forebay_pmem::mutants::Mutant::ALL.map(Fault::Medium);
        let lab = forebay_lab::mutants::Mutant::ALL.map(Fault::Lab);
        let files = forebay_files::mutants::Mutant::ALL.map(Fault::Files);
        let own = pool.into_iter().chain(medium);
        own.chain(lab).chain(files)
    }

    fn name(self) -> String {
        match self {
            Fault::Pool(mutant) => mutant.name(),
            Fault::Medium(mutant) => mutant.name(),
            Fault::Lab(mutant) => mutant.name(),
            Fault::Files(mutant) => mutant.name(),
        }
    }

    /// What shows it.
    fn subject(self) -> Subject {
        match self {
            Fault::Pool(_) | Fault::Medium(_) => Subject::Pool,
            Fault::Lab(mutant) => Subject::engine(mutant.engine(), false),
            Fault::Files(_) => Subject::Files,
        }
    }

    fn named(name: &str) -> Result<Fault> {
        let found = Fault::all().find(|fault| fault.name() == name);
        found.ok_or_else(|| format!("there is no mutant {name}").into())
    }
}

/// Switches one fault on, or all off.
fn set(fault: Option<Fault>) {
    let is_on = fault.as_ref();
    forebay::internals::mutants::set(is_on.and_then(|fault| match fault {
        Fault::Pool(mutant) => Some(*mutant),
        _ => None,
    }));
    forebay_pmem::mutants::set(is_on.and_then(|fault| match fault {
        Fault::Medium(mutant) => Some(*mutant),
        _ => None,
    }));
    forebay_lab::mutants::set(is_on.and_then(|fault| match fault {
        Fault::Lab(mutant) => Some(*mutant),
        _ => None,
    }));
    forebay_files::mutants::set(is_on.and_then(|fault| match fault {
        Fault::Files(mutant) => Some(*mutant),
        _ => None,
    }));
}

/// Switches the named fault on and returns what it belongs to, or all off and returns `subject`.
pub fn select(name: Option<&str>, subject: Subject) -> Result<Subject> {
    let fault = name.map(Fault::named).transpose()?;
    set(fault);
    Ok(fault.map_or(subject, Fault::subject))
}

/// Searches for all of them: true if every fault was noticed from each seed.
pub fn command(search: &Search, processes: usize, report: Option<&Path>) -> Result<bool> {
    campaign::hush_panics();
    let faults: Vec<Fault> = Fault::all()
        .filter(|fault| search.wants(&fault.name()))
        .collect();
    let subjects: Vec<Subject> = faults.iter().map(|fault| fault.subject()).collect();
    for subject in subjects.chunk_by(|one, next| one == next) {
        check_sound(&search.limits(subject[0], SOUND_SEED))?;
    }
    let found = hunt_all(search, processes, &faults)?;
    let caught = found.iter().filter(|(_, is_caught, _)| *is_caught).count();
    println!("{caught} of {} mutants caught", faults.len());
    write_counts(report, ("mutants", "mutants"), &found)?;
    Ok(caught == faults.len())
}

/// The first seed of the runs without a fault.
const SOUND_SEED: u64 = 1;

/// Every fault from every seed, each in a process of its own and so many at once: a fault is switched on for a whole process.
fn hunt_all(
    search: &Search,
    processes: usize,
    faults: &[Fault],
) -> Result<Vec<(String, bool, u64)>> {
    let jobs = faults.len() * search.seeds.len();
    let next = AtomicUsize::new(0);
    let hunts: Vec<Mutex<Vec<Option<Hunt>>>> = faults
        .iter()
        .map(|_| Mutex::new(vec![None; search.seeds.len()]))
        .collect();
    let found = Mutex::new(vec![None; faults.len()]);
    let work = |worker: usize| -> Result<()> {
        // What this thread starts inherits it.
        campaign::stay_on_one_processor(worker);
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return Ok(());
            }
            let (number, seed) = (job / search.seeds.len(), job % search.seeds.len());
            let name = faults[number].name();
            let hunt = hunt_apart(&name, search.seeds[seed], search.images)?;
            let mut hunts = hunts[number].lock();
            hunts[seed] = Some(hunt);
            let done: Option<Vec<Hunt>> = hunts.iter().cloned().collect();
            if let Some(done) = done {
                let is_caught = tell(&name, &search.seeds, &done);
                let images = done.iter().map(|hunt| hunt.images).max().unwrap_or(0);
                let mut found = found.lock();
                found[number] = Some((name, is_caught, images));
            }
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..processes)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        let mut ends = workers.into_iter().map(|worker| worker.join());
        ends.try_for_each(|end| end.unwrap_or_else(|_| Err("a worker died".into())))
    })?;
    Ok(found.into_inner().into_iter().flatten().collect())
}

/// One fault from one seed, by another process of this program.
fn hunt_apart(name: &str, seed: u64, images: u64) -> Result<Hunt> {
    let failed = |what: &str| format!("the search for {name} from seed {seed}: {what}");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["hunt", name, &seed.to_string(), &images.to_string()]);
    let output = forebay_harness::run(&mut command, Duration::MAX)?;
    let mut words = output.printed.split_whitespace();
    let images = words.next().and_then(|word| word.parse().ok());
    let images = images.ok_or_else(|| failed(&output.told()))?;
    let scenario = words.next().map(String::from);
    Ok(Hunt { scenario, images })
}

/// The fault that this process searches for.
static HUNTED: OnceLock<Fault> = OnceLock::new();

fn switch(is_on: bool) {
    set(HUNTED.get().copied().filter(|_| is_on));
}

/// Searches for one fault: says how many images it took, and what shows the fault if it was noticed.
pub fn hunt_command(name: &str, seed: u64, images: u64) -> Result<bool> {
    campaign::hush_panics();
    let fault = Fault::named(name)?;
    HUNTED.get_or_init(|| fault);
    switch(true);
    let search = Search {
        seeds: vec![seed],
        images,
        only: Vec::new(),
    };
    let found = hunt(&Limits {
        switch: Some(switch),
        ..search.limits(fault.subject(), seed)
    });
    println!("{} {}", found.images, found.scenario.unwrap_or_default());
    Ok(true)
}
