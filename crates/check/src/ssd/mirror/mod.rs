//! Crashes a log on two members: each keeps its own part of what was not flushed, one may die at any moment, come back as it was, rot,
//! or be replaced.
//!
//! One thread drives it. What was acknowledged must be there with both members, whatever each has kept, and with either of those that
//! count alone; and once it is recovered, the same must be there with either of them alone after one more crash.

mod image;
mod joining;
mod pair;
mod steps;
mod world;

use super::verify::Tally;
use crate::scheduler::caught;
use image::Verifier;
use steps::Story;
use world::World;

/// Incarnations of a story.
const INCARNATIONS: usize = 4;

/// Works, crashes, recovers. The error is a violation in words, and so is a panic.
pub fn run(seed: u64, is_told: bool, tally: Tally<'_>) -> Result<(), String> {
    caught(|| tell(seed, is_told, tally))
}

fn tell(seed: u64, is_told: bool, tally: Tally<'_>) -> Result<(), String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let story = Story::draw(&mut rng);
    if is_told {
        println!("{story:#?}");
    }
    let mut verifier = Verifier {
        rng: rng.fork(),
        tally,
        seed: seed.wrapping_mul(1 << 20),
        unit: story.unit,
        is_over: false,
    };
    let mut start = World::fresh(&story, seed)?;
    for number in 0..INCARNATIONS {
        let steps = story.steps(&mut rng);
        let at = |error: String| format!("incarnation {number}: {error}");
        let mut world = World::open(start, rng.u64(..)).map_err(at)?;
        for (count, step) in (1..).zip(&steps) {
            if is_told {
                println!("incarnation {number}, step {count}: {step:?}");
            }
            let at =
                |error: String| format!("incarnation {number}, step {count}, {step:?}: {error}");
            world.act(step, &mut verifier).map_err(at)?;
            if verifier.is_over {
                return Ok(());
            }
        }
        start = world.end(&mut rng, story.unit).map_err(at)?;
    }
    Ok(())
}
