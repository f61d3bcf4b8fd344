//! Crashes the durable file buffer: random programs of file operations over a real directory, the
//! power cut anywhere, the pool left as a power cut leaves it and the directory with the part of its
//! changes that a file system would have kept. What recovery makes of it is compared with what was
//! acknowledged.

mod backing;
mod clock;
mod env;
mod incarnation;
mod killed;
mod mark;
mod named;
mod paths;
mod pool;
mod script;
mod step;
mod worker;

use crate::digest::Fold;
use backing::Identities;
pub use env::TestEnv;
use forebay_harness::files::Model;
use incarnation::{Case, Image, Incarnation, Plan};
use mark::{Loss, Pair};
pub use pool::Kind;
use std::hash::{Hash, Hasher};

/// Incarnations of a story, one after a crash of the other.
const INCARNATIONS: usize = 3;
/// One story in so many has a short log.
const SHORT_LOG_ONE_IN: u64 = 3;
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
        has_short_log: seed.is_multiple_of(SHORT_LOG_ONE_IN),
    };
    env.clock.reset();
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
            steps: rng.usize(4..40) * env.own.times_as_long(),
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
            let at = |what: &str, error: String| {
                let moment = case.moment();
                format!("incarnation {number}, case {count}, {what} {moment}: {error}")
            };
            let case_seed = seed ^ count as u64;
            let legal_now = incarnation.legal(case, &legal);
            for _ in 0..SAMPLES {
                let crashed = case.sample(&mut rng);
                incarnation::recover(env, &crashed, &incarnation.identities, case_seed)
                    .and_then(|found| incarnation::verify(&legal_now, &found))
                    .and_then(|()| {
                        let about = (&incarnation, case, &crashed);
                        lose(env, about, &past, &legal_now, &mut losses)
                    })
                    .map_err(|error| at("crash", error))?;
                if !tally(hash(&crashed), false) {
                    return Ok(());
                }
                if next.is_none() || rng.u8(..8) == 0 {
                    next = Some((crashed, legal_now.clone()));
                }
            }
            let goes_on = kill(env, &incarnation, case, case_seed, &mut rng, tally);
            if !goes_on.map_err(|error| at("killed", error))? {
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
    (incarnation, case, image): (&Incarnation, &Case, &Image),
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
