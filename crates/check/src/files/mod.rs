//! Crashes the durable file buffer: random programs of file operations over a real directory, the
//! power cut anywhere, the pool left as a power cut leaves it and the directory with the part of its
//! changes that a file system would have kept. What recovery makes of it is compared with what was
//! acknowledged.

mod backing;
mod incarnation;
mod killed;
mod mark;
mod oracle;
mod script;
mod tree;
mod worker;

use crate::verdict::Fold;
use backing::Identities;
use forebay::{Pool, PoolOptions};
use forebay_pmem::Region;
use forebay_pmem::shadow::{Shadow, ShadowModel};
use incarnation::{Case, Image, Incarnation, Plan};
use mark::{Loss, Pair};
use oracle::Model;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Incarnations of a story, one after a crash of the other.
const INCARNATIONS: usize = 3;
/// Images of each.
const SAMPLES: usize = 2;

/// Works, crashes, recovers. The error is a violation in words. `tally` is told of each image, and whether it
/// is of a kill, and says whether to go on.
pub fn run(
    env: &TestEnv,
    seed: u64,
    is_told: bool,
    tally: &mut dyn FnMut(u64, bool) -> bool,
) -> Result<(), String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut image = Image {
        pool: env.own.clone(),
        side: Default::default(),
        tree: Default::default(),
        mark: Default::default(),
        mounting: 0,
    };
    let mut past = Vec::new();
    let mut losses = fastrand::Rng::with_seed(!seed);
    let mut identities = Identities::default();
    let mut legal = vec![Model::of(&image.tree)];
    for number in 0..INCARNATIONS {
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
        let incarnation = incarnation::run(env, plan)
            .map_err(|error| format!("incarnation {number}: {error}"))?;
        if is_told {
            for (step, count) in incarnation.steps.iter().zip(1..) {
                println!("incarnation {number}, step {count}: {step:?}");
            }
        }
        let mut next = None;
        for (count, case) in incarnation.cases.iter().enumerate() {
            let legal_now = incarnation.legal(case, &legal);
            for _ in 0..SAMPLES {
                let crashed = case.sample(&mut rng);
                let found = incarnation::recover(
                    env,
                    &crashed,
                    &incarnation.identities,
                    seed ^ count as u64,
                );
                let verdict = found.and_then(|found| incarnation::verify(&legal_now, &found));
                verdict.map_err(|error| {
                    let moment = case.moment();
                    format!("incarnation {number}, case {count}, crash {moment}: {error}")
                })?;
                let lost = lose(
                    env,
                    &incarnation,
                    case,
                    &crashed,
                    &past,
                    &legal_now,
                    &mut losses,
                );
                lost.map_err(|error| {
                    let moment = case.moment();
                    format!("incarnation {number}, case {count}, crash {moment}: {error}")
                })?;
                if !tally(hash(&crashed), false) {
                    return Ok(());
                }
                if next.is_none() || rng.u8(..8) == 0 {
                    next = Some((crashed, legal_now.clone()));
                }
            }
            let goes_on = kill(
                env,
                &incarnation,
                case,
                seed ^ count as u64,
                &mut rng,
                tally,
            );
            let goes_on = goes_on.map_err(|error| {
                let moment = case.moment();
                format!("incarnation {number}, case {count}, killed {moment}: {error}")
            })?;
            if !goes_on {
                return Ok(());
            }
        }
        let Some(next) = next else { return Ok(()) };
        (image, legal) = next;
        identities = incarnation.identities;
    }
    Ok(())
}

/// One image in so many is also verified with its pool or its mark lost.
const LOST_ONE_IN: u64 = 4;

/// Some images are verified with their pool lost or replaced, or their mark lost, too.
fn lose(
    env: &TestEnv,
    incarnation: &Incarnation,
    case: &Case,
    image: &Image,
    past: &[Pair],
    legal: &[Model],
    rng: &mut fastrand::Rng,
) -> Result<(), String> {
    let is_drawn = rng.u64(..LOST_ONE_IN) == 0;
    let loss = match rng.u8(..4) {
        // Such images are few, and any pool is admitted to them.
        _ if mark::is_whole(image) => Loss::New(&env.other, rng.bool()),
        _ if !is_drawn => return Ok(()),
        0 | 1 => Loss::New(&env.other, rng.bool()),
        2 => Loss::Old(&past[rng.usize(..past.len())]),
        _ => Loss::Mark,
    };
    let has_begun = case.done > 0;
    mark::verify_loss(env, image, &loss, &incarnation.identities, legal, has_begun)
}

/// Kills the process, not the kernel, lets others change names, and recovers: no name is another one
/// afterwards, and nothing is lost. Returns whether to go on.
fn kill(
    env: &TestEnv,
    incarnation: &Incarnation,
    case: &Case,
    number: u64,
    rng: &mut fastrand::Rng,
    tally: &mut dyn FnMut(u64, bool) -> bool,
) -> Result<bool, String> {
    if case.done == 0 {
        // What a power cut left, half recovered.
        return Ok(true);
    }
    let mut image = case.killed(rng);
    let mut legal = incarnation.legal_if_killed(case);
    killed::interfere(rng, &mut image.tree, &mut legal);
    let found = incarnation::recover(env, &image, &incarnation.identities, number)?;
    incarnation::verify(&legal, &found)?;
    match found.paths() == image.tree.paths() {
        true => Ok(tally(hash(&image), true)),
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

/// Where one worker plays: folders, and pools that were just made.
pub struct TestEnv {
    folder: PathBuf,
    /// The directory of the backing; made anew for each process that recovers.
    pub(crate) root: PathBuf,
    /// The folder of its mark; made anew too.
    pub(crate) marks: PathBuf,
    /// The pool that a scenario begins with.
    own: Vec<u8>,
    /// One that has never seen the backing.
    other: Vec<u8>,
}

impl TestEnv {
    /// In memory where that can be: crashes are played, not waited for.
    pub fn new() -> Result<TestEnv, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_path_buf(),
            false => std::env::temp_dir(),
        };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("forebay-check-{}-{number}", std::process::id()));
        let made = std::fs::create_dir(&folder);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(TestEnv {
            root: folder.join("root"),
            marks: folder.join("marks"),
            folder,
            own: new_pool(u64::MAX)?,
            other: new_pool(u64::MAX - 1)?,
        })
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        // What cannot be removed now is in memory only.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
