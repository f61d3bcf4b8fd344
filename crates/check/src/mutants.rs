//! Proves that the checker notices: each named fault of the cache, of the file buffer and of the engines is
//! switched on and searched for.

use crate::campaign::{self, Limits};
use crate::search::{Hunt, IMAGES_MAX, Search, check_sound, hunt, tell, write_counts};
use crate::ssd_budgets::budget_images;
use crate::subject::Subject;
use forebay_harness::Result;
use parking_lot::Mutex;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A fault: of the pool, of how the medium is mapped, of an engine of the lab, or of the file buffer.
struct Fault {
    name: String,
    /// What shows it.
    subject: Subject,
    /// Images within which each seed is to show it.
    budget_images: u64,
    /// Switches it on or off.
    set: Box<dyn Fn(bool) + Send + Sync>,
}

impl Fault {
    fn all() -> Vec<Fault> {
        macro_rules! faults_of {
            ($mutants:path, $subject:expr) => {
                faults_of!($mutants, $subject, |_| IMAGES_MAX)
            };
            ($mutants:path, $subject:expr, $budget_images:expr) => {{
                use $mutants as mutants;
                mutants::Mutant::ALL.map(|mutant| Fault {
                    name: mutant.name(),
                    subject: $subject(mutant),
                    budget_images: $budget_images(mutant),
                    set: Box::new(move |is_on| mutants::set(is_on.then_some(mutant))),
                })
            }};
        }
        let pool = faults_of!(
            forebay::internals::mutants,
            |mutant: mutants::Mutant| match mutant {
                mutants::Mutant::GoneEntriesNotSent => Subject::PoolInDram,
                mutants::Mutant::LoneSealWithLine => Subject::PoolChecksum,
                mutants::Mutant::OpenedWithoutMemberThatIsIn
                | mutants::Mutant::MemberOutTrusted
                | mutants::Mutant::TwoHistoriesJoined
                | mutants::Mutant::StaleMemberTrusted
                | mutants::Mutant::CopyNotStreamed
                | mutants::Mutant::RosterAfterAcknowledgement
                | mutants::Mutant::RosterOnOneMember
                | mutants::Mutant::SharedWithUnprotected
                | mutants::Mutant::RecordOnOneMember
                | mutants::Mutant::TestedHalfNotRestored
                | mutants::Mutant::DeltaOnOneHalf
                | mutants::Mutant::RebuildingMemberTrusted
                | mutants::Mutant::MemberInBeforeCheckpoint
                | mutants::Mutant::WitnessNotTold
                | mutants::Mutant::OldWitnessBelieved
                | mutants::Mutant::LostPageAcknowledgedUnnoted
                | mutants::Mutant::OnlyHalfTakenOut
                | mutants::Mutant::RetiredSlotReused => Subject::PoolMirrored,
                mutants::Mutant::DeltaInRow
                | mutants::Mutant::ParityBeforeLastBlock
                | mutants::Mutant::ParityNotStreamed
                | mutants::Mutant::TestedRowNotSettled
                | mutants::Mutant::RowFreedWithMate
                | mutants::Mutant::GroupTakenWithPairs
                | mutants::Mutant::RowNotRebuilt => Subject::PoolRows,
                mutants::Mutant::StackedZeroDropped
                | mutants::Mutant::StackedRunUnsent
                | mutants::Mutant::FrontMarkIgnored => Subject::Stacked,
                _ => Subject::Pool,
            }
        );
        let medium = faults_of!(forebay_pmem::mutants, |_| Subject::Pool);
        let lab = faults_of!(forebay_lab::mutants, |mutant: mutants::Mutant| {
            match mutant.is_of_cleaner() {
                true => Subject::engine_with_cleaner(mutant.engine()),
                false => Subject::engine(mutant.engine(), false),
            }
        });
        let files = faults_of!(
            forebay_files::mutants,
            |mutant: mutants::Mutant| match mutant {
                // In memory there is nothing to be synced.
                mutants::Mutant::FilesSyncWithoutPool
                | mutants::Mutant::FilesRemovalUnsynced
                | mutants::Mutant::FilesDirectorySyncWithoutPool
                | mutants::Mutant::FilesSyncWithoutNames
                | mutants::Mutant::FilesLeftUnsynced => Subject::FilesSsd,
                _ => Subject::Files,
            }
        );
        let ssd = faults_of!(
            forebay_log::mutants,
            |mutant: mutants::Mutant| match mutant.name().starts_with("ssd_mirror") {
                true => Subject::SsdMirror,
                false => Subject::Ssd,
            },
            budget_images
        );
        let own = pool.into_iter().chain(medium);
        own.chain(lab).chain(files).chain(ssd).collect()
    }

    fn named(name: &str) -> Result<Fault> {
        let found = Fault::all().into_iter().find(|fault| fault.name == name);
        found.ok_or_else(|| format!("there is no mutant {name}").into())
    }
}

/// Switches the named fault on and returns what it belongs to; `subject` if none is named, or if that has its code too: the file
/// buffer over either pool, and over one on an SSD that engine.
pub fn select(name: Option<&str>, subject: Subject) -> Result<Subject> {
    let Some(name) = name else {
        return Ok(subject);
    };
    let fault = Fault::named(name)?;
    (fault.set)(true);
    match (fault.subject, subject) {
        (Subject::Files, Subject::Files | Subject::FilesSsd)
        | (Subject::Ssd, Subject::FilesSsd) => Ok(subject),
        (of_fault, _) => Ok(of_fault),
    }
}

/// Searches for all of them: true if every fault was noticed from each seed.
pub fn command(search: &Search, processes: usize, report: Option<&Path>) -> Result<bool> {
    campaign::hush_panics();
    let mut faults = Fault::all();
    search.check(faults.iter().map(|fault| fault.name.as_str()))?;
    faults.retain(|fault| search.wants(&fault.name));
    for faults in faults.chunk_by(|one, next| one.subject == next.subject) {
        check_sound(&search.limits(faults[0].subject, SOUND_SEED))?;
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
            let Fault {
                name,
                budget_images,
                ..
            } = &faults[number];
            let images = search.images.unwrap_or(*budget_images);
            let hunt = hunt_apart(name, search.seeds[seed], images)?;
            let mut hunts = hunts[number].lock();
            hunts[seed] = Some(hunt);
            let done: Option<Vec<Hunt>> = hunts.iter().cloned().collect();
            if let Some(done) = done {
                let is_caught = tell(name, &search.seeds, &done);
                let images = done.iter().map(|hunt| hunt.images).max().unwrap_or(0);
                let mut found = found.lock();
                found[number] = Some((name.clone(), is_caught, images));
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
    if let Some(fault) = HUNTED.get() {
        (fault.set)(is_on);
    }
}

/// Searches for one fault: says how many images it took, and what shows the fault if it was noticed.
pub fn hunt_command(name: &str, seed: u64, images: u64) -> Result<bool> {
    campaign::hush_panics();
    let fault = Fault::named(name)?;
    let fault = HUNTED.get_or_init(|| fault);
    switch(true);
    let search = Search {
        seeds: vec![seed],
        images: Some(images),
        only: Vec::new(),
    };
    let found = hunt(&Limits {
        switch: Some(switch),
        ..search.limits(fault.subject, seed)
    });
    println!("{} {}", found.images, found.scenario.unwrap_or_default());
    Ok(true)
}
