//! Crashes the durable file buffer: random programs of file operations over a real directory, the
//! power cut anywhere, the pool left as a power cut leaves it and the directory with the part of its
//! changes that a file system would have kept. What recovery makes of it is compared with what was
//! acknowledged.

mod backing;
mod killed;
mod life;
mod mark;
mod oracle;
mod script;
mod tree;
mod worker;

use crate::campaign::{default_threads, hush_panics};
use crate::judge::Fold;
use crate::report::{self, Entry, progress_bar};
#[cfg(feature = "mutants")]
use crate::search::Hunt;
use backing::Identities;
use forebay::{Pool, PoolOptions};
use forebay_pmem::Region;
use forebay_pmem::shadow::{Shadow, ShadowModel};
use indicatif::ProgressBar;
use life::{Case, Image, Life, Place, Plan};
use mark::{Loss, Pair};
use oracle::Model;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lives of a story, one after a crash of the other.
const LIVES: usize = 3;
/// Images of each.
const SAMPLES: usize = 2;

/// When a campaign ends, and where it works.
pub struct Limits {
    /// Distinct images.
    pub images: u64,
    /// Or images recovered, equal ones too.
    pub recoveries: u64,
    /// Or this time.
    pub time: Duration,
    /// The first seed.
    pub seed: u64,
    /// Workers; one for each processor if none.
    pub threads: Option<usize>,
}

/// What a campaign found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Images that differ from each other.
    pub distinct: u64,
    /// Images recovered.
    pub recovered: u64,
    /// Seeds, and what each violated: at most one for each worker.
    pub violations: Vec<(u64, String)>,
}

struct Campaign<'a> {
    limits: &'a Limits,
    started: Instant,
    seen: Mutex<HashSet<u64>>,
    recovered: AtomicU64,
    next_seed: AtomicU64,
    stopped: AtomicBool,
    violations: Mutex<Vec<(u64, String)>>,
    bar: &'a ProgressBar,
}

/// Runs stories until a limit is reached or something is violated.
pub fn run(limits: &Limits, bar: &ProgressBar) -> Result<Outcome, String> {
    let campaign = Campaign {
        limits,
        started: Instant::now(),
        seen: Mutex::default(),
        recovered: AtomicU64::new(0),
        next_seed: AtomicU64::new(limits.seed),
        stopped: AtomicBool::new(false),
        violations: Mutex::default(),
        bar,
    };
    let threads = limits.threads.unwrap_or_else(default_threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| campaign.work()))
            .collect();
        let mut done = workers.into_iter().map(|worker| worker.join());
        done.try_for_each(|done| done.unwrap_or_else(|_| Err(String::from("a worker died"))))
    })?;
    let seen = campaign.seen.into_inner();
    let violations = campaign.violations.into_inner();
    Ok(Outcome {
        distinct: seen.unwrap_or_else(PoisonError::into_inner).len() as u64,
        recovered: campaign.recovered.into_inner(),
        violations: violations.unwrap_or_else(PoisonError::into_inner),
    })
}

impl Campaign<'_> {
    fn work(&self) -> Result<(), String> {
        let scratch = Scratch::new().map_err(|error| format!("scratch directory: {error}"))?;
        let template = Templates::new()?;
        while self.goes_on() {
            let seed = self.next_seed.fetch_add(1, Ordering::Relaxed);
            let story = story(&scratch.place(), &template, seed, false, &mut |image| {
                self.count(image);
                self.goes_on()
            });
            if let Err(violation) = story {
                self.stopped.store(true, Ordering::Relaxed);
                let violations = self.violations.lock();
                let mut violations = violations.unwrap_or_else(PoisonError::into_inner);
                violations.push((seed, violation));
            }
        }
        Ok(())
    }

    fn count(&self, image: u64) {
        self.recovered.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.insert(image) {
            self.bar.inc(1);
        }
    }

    fn goes_on(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let distinct = seen.len() as u64;
        drop(seen);
        !self.stopped.load(Ordering::Relaxed)
            && distinct < self.limits.images
            && self.recovered.load(Ordering::Relaxed) < self.limits.recoveries
            && self.started.elapsed() < self.limits.time
    }
}

/// Lives, crashes, recovers. The error is a violation in words. `tally` is told of each image and says
/// whether to go on.
fn story(
    place: &Place,
    template: &Templates,
    seed: u64,
    verbose: bool,
    tally: &mut dyn FnMut(u64) -> bool,
) -> Result<(), String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut image = Image {
        pool: template.own.clone(),
        side: Default::default(),
        tree: Default::default(),
        mark: Default::default(),
        mounting: 0,
    };
    let mut past = Vec::new();
    let mut losses = fastrand::Rng::with_seed(!seed);
    let mut identities = Identities::default();
    let mut legal = vec![Model::of(&image.tree)];
    for number in 0..LIVES {
        past.push(Pair {
            pool: image.pool.clone(),
            side: image.side.clone(),
        });
        let plan = Plan {
            image,
            identities,
            legal: legal.clone(),
            number: seed.wrapping_mul(8) + number as u64,
            seed: rng.u64(..),
            steps: rng.usize(4..40),
            ends: rng.bool(),
        };
        let life = life::live(place, plan).map_err(|error| format!("life {number}: {error}"))?;
        if verbose {
            for (step, count) in life.steps.iter().zip(1..) {
                println!("life {number}, step {count}: {step:?}");
            }
        }
        let mut next = None;
        for (count, case) in life.cases.iter().enumerate() {
            let legal_now = life.legal(case, &legal);
            for _ in 0..SAMPLES {
                let crashed = case.sample(&mut rng);
                let found = life::recover(place, &crashed, &life.identities, seed ^ count as u64);
                let verdict = found.and_then(|found| life::judge(&legal_now, &found));
                verdict.map_err(|error| {
                    let moment = case.moment();
                    format!("life {number}, case {count}, crash {moment}: {error}")
                })?;
                let known = (template, &past[..]);
                let lost = lose(place, &life, case, &crashed, known, &legal_now, &mut losses);
                lost.map_err(|error| {
                    let moment = case.moment();
                    format!("life {number}, case {count}, crash {moment}: {error}")
                })?;
                if !tally(hash(&crashed)) {
                    return Ok(());
                }
                if next.is_none() || rng.u8(..8) == 0 {
                    next = Some((crashed, legal_now.clone()));
                }
            }
            let goes_on = kill(place, &life, case, seed ^ count as u64, &mut rng, tally);
            let goes_on = goes_on.map_err(|error| {
                let moment = case.moment();
                format!("life {number}, case {count}, killed {moment}: {error}")
            })?;
            if !goes_on {
                return Ok(());
            }
        }
        let Some(next) = next else { return Ok(()) };
        (image, legal) = next;
        identities = life.identities;
    }
    Ok(())
}

/// One image in so many is also judged with its pool or its mark lost.
const LOST_ONE_IN: u64 = 4;

/// Some images are judged with their pool lost or replaced, or their mark lost, too.
fn lose(
    place: &Place,
    life: &Life,
    case: &Case,
    image: &Image,
    (template, past): (&Templates, &[Pair]),
    legal: &[Model],
    rng: &mut fastrand::Rng,
) -> Result<(), String> {
    let is_drawn = rng.u64(..LOST_ONE_IN) == 0;
    let loss = match rng.u8(..4) {
        // Such images are few, and any pool is admitted to them.
        _ if mark::is_whole(image) => Loss::New(&template.other, rng.bool()),
        _ if !is_drawn => return Ok(()),
        0 | 1 => Loss::New(&template.other, rng.bool()),
        2 => Loss::Old(&past[rng.usize(..past.len())]),
        _ => Loss::Mark,
    };
    let has_begun = case.done > 0;
    mark::judge_loss(place, image, &loss, &life.identities, legal, has_begun)
}

/// Kills the process, not the kernel, lets others change names, and recovers: no name is another one
/// afterwards, and nothing is lost. Returns whether to go on.
fn kill(
    place: &Place,
    life: &Life,
    case: &Case,
    number: u64,
    rng: &mut fastrand::Rng,
    tally: &mut dyn FnMut(u64) -> bool,
) -> Result<bool, String> {
    if case.done == 0 {
        // What a power cut left, half recovered.
        return Ok(true);
    }
    let mut image = case.killed(rng);
    let mut legal = life.legal_if_killed(case);
    killed::interfere(rng, &mut image.tree, &mut legal);
    let found = life::recover(place, &image, &life.identities, number)?;
    life::judge(&legal, &found)?;
    match found.paths() == image.tree.paths() {
        true => Ok(tally(hash(&image))),
        false => Err(format!(
            "{:?} became {:?}",
            image.tree.paths(),
            found.paths()
        )),
    }
}

fn hash(image: &Image) -> u64 {
    let mut hasher = Fold::default();
    image.pool.hash(&mut hasher);
    image.side.hash(&mut hasher);
    image.tree.hash(&mut hasher);
    image.mark.hash(&mut hasher);
    image.mounting.hash(&mut hasher);
    hasher.finish()
}

/// Pools that were just made.
struct Templates {
    /// The one that a story begins with.
    own: Vec<u8>,
    /// One that has never seen the backing.
    other: Vec<u8>,
}

impl Templates {
    fn new() -> Result<Templates, String> {
        Ok(Templates {
            own: new_pool(u64::MAX)?,
            other: new_pool(u64::MAX - 1)?,
        })
    }
}

fn new_pool(seed: u64) -> Result<Vec<u8>, String> {
    forebay::testing::set_thread_hint(0);
    forebay::testing::set_random_seed(Some(seed));
    let mut options = PoolOptions::default();
    options.format.block_bytes = 512;
    options.format.lanes = Some(2);
    options.format.lane_bytes = Some(32 << 10);
    options.format.volumes = 1;
    options.runtime.background = false;
    let shadow = Arc::new(Shadow::new(POOL_BYTES, ShadowModel::Lines));
    let region = Region::on_shadow(Arc::clone(&shadow));
    let pool = Pool::create_on(vec![region], &options).map_err(|error| error.to_string())?;
    pool.close().map_err(|error| error.to_string())?;
    Ok(shadow.crash_state().durable().to_vec())
}

/// Bytes of the pool: some hundred blocks.
const POOL_BYTES: u64 = 512 << 10;

/// A directory of this process and worker.
struct Scratch(PathBuf);

impl Scratch {
    /// In memory where that can be: crashes are played, not waited for.
    fn new() -> std::io::Result<Scratch> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_path_buf(),
            false => std::env::temp_dir(),
        };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("forebay-check-{}-{number}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Scratch(path))
    }

    fn place(&self) -> Place {
        Place {
            root: self.0.join("root"),
            marks: self.0.join("marks"),
            side_bytes: forebay_files::SIDE_BYTES,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is in memory only.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Images in which the buffer shows that what is noticed afterwards is the fault.
#[cfg(feature = "mutants")]
const SOUND_IMAGES: u64 = 300;

/// The error says what is wrong with a buffer that has no fault switched on.
#[cfg(feature = "mutants")]
pub fn check_sound(seed: u64) -> Result<(), String> {
    let outcome = run(&alone(seed, SOUND_IMAGES), &ProgressBar::hidden())?;
    match outcome.violations.first() {
        Some((seed, text)) => Err(format!(
            "violated without any fault: {text}; replay with: forebay-check files --replay {seed}"
        )),
        None => Ok(()),
    }
}

/// Runs a campaign until it notices something.
#[cfg(feature = "mutants")]
pub fn hunt(seed: u64, images: u64) -> Result<Hunt, String> {
    let outcome = run(&alone(seed, images), &ProgressBar::hidden())?;
    Ok(Hunt {
        scenario: outcome.violations.first().map(|(seed, _)| seed.to_string()),
        images: outcome.recovered,
    })
}

/// One worker, and so many images: the same run everywhere.
#[cfg(feature = "mutants")]
fn alone(seed: u64, images: u64) -> Limits {
    Limits {
        images: u64::MAX,
        recoveries: images,
        time: Duration::MAX,
        seed,
        threads: Some(1),
    }
}

/// `forebay-check files`: true if nothing was violated.
pub fn command(limits: &Limits, json: Option<&Path>) -> Result<bool, String> {
    hush_panics();
    let bar = progress_bar(limits.images, "crash images of files");
    let started = Instant::now();
    let outcome = run(limits, &bar)?;
    bar.finish_and_clear();
    for (seed, text) in &outcome.violations {
        println!("VIOLATION: {text}\n  replay with: forebay-check files --replay {seed}");
    }
    println!(
        "{} distinct crash images of files recovered and judged in {:.1} s ({} recoveries), {} \
         violations",
        outcome.distinct,
        started.elapsed().as_secs_f64(),
        outcome.recovered,
        outcome.violations.len()
    );
    if let Some(path) = json {
        let entry = |name: &str, value, unit| Entry {
            name: name.to_string(),
            value,
            unit,
        };
        let violations = outcome.violations.len() as u64;
        let rows = [
            entry("crash_images_files", outcome.distinct, "images"),
            entry("crash_violations_files", violations, "violations"),
        ];
        report::write(path, &rows)?;
    }
    Ok(outcome.violations.is_empty())
}

/// `forebay-check files --replay`: true if nothing is violated.
pub fn replay(seed: u64) -> Result<bool, String> {
    let scratch = Scratch::new().map_err(|error| format!("scratch directory: {error}"))?;
    match story(
        &scratch.place(),
        &Templates::new()?,
        seed,
        true,
        &mut |_| true,
    ) {
        Ok(()) => println!("{seed}: nothing is violated"),
        Err(violation) => {
            println!("{seed}: VIOLATION: {violation}");
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_campaign_finds_nothing_and_can_be_repeated() {
        let recovered = || {
            let limits = Limits {
                images: 60,
                recoveries: u64::MAX,
                time: Duration::from_secs(600),
                seed: 1,
                threads: Some(1),
            };
            let outcome = run(&limits, &ProgressBar::hidden()).expect("a scratch directory");
            assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
            assert!(outcome.distinct >= 60);
            outcome.recovered
        };
        assert_eq!(recovered(), recovered());
    }
}
