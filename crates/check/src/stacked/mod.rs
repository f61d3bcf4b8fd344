//! Crashes a pool in memory in front of a pool on an SSD, both at the same moment.
//!
//! One thread writes, discards, has blocks leave the pool in front and the one behind, and takes the stack apart and puts it
//! together. At moments of either pool's medium, some of what a power cut or a kill could leave of both is opened, the pool
//! behind first: every block has to be what was acknowledged, or what one transaction that was not yet would make it, all of it or
//! nothing. Where one pool of the two is left out, its disk is refused, or has everything.

mod disk;
mod world;

use crate::scheduler::caught;
use world::{Left, Tally, World};

/// Incarnations of a story, one after a crash of the other.
const INCARNATIONS: usize = 3;
/// Steps of each.
const STEPS: usize = 60;

/// Works, crashes, recovers. The error is a violation in words, and so is a panic.
pub fn run(seed: u64, is_told: bool, tally: Tally<'_>) -> Result<(), String> {
    let told = caught(|| tell(seed, is_told, tally));
    forebay::unstable::set_random_seed(None);
    told
}

fn tell(seed: u64, is_told: bool, tally: Tally<'_>) -> Result<(), String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    forebay::unstable::set_random_seed(Some(rng.u64(..)));
    let mut left = Left::fresh(&mut rng)?;
    for number in 0..INCARNATIONS {
        let at = |error: String| format!("incarnation {number}: {error}");
        let mut world = World::open(left, &mut rng).map_err(at)?;
        for count in 0..STEPS {
            let step = world.step(&mut rng).map_err(at)?;
            if is_told {
                println!("incarnation {number}, step {count}: {step}");
            }
            let at = |error: String| format!("incarnation {number}, step {count}, {step}: {error}");
            if !world.verify_moments(&mut rng, tally).map_err(at)? {
                return Ok(());
            }
        }
        left = world.end(&mut rng);
    }
    Ok(())
}
