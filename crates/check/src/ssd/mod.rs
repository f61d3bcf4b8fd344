//! Crashes the engine of pools on an SSD: a log on the shadow device, in front of disks with volatile caches.
//!
//! One thread drives it, step by step: transactions join, groups go to the device and come back in any order that two of
//! them under way allow, blocks are written back, segments cleaned and recycled, rows of the volume table written in between. At every moment at which a power cut or a
//! kill could leave something new, some of what it could leave is recovered. It must equal the state after a prefix of all
//! transactions in their order, one that has every acknowledged one.

mod disk;
mod fresh;
pub mod mirror;
mod oracle;
mod room;
mod rows;
mod script;
mod verify;
mod world;

use crate::scheduler::caught;
use script::Script;
use verify::{Tally, Verifier};
use world::{Crash, World};

/// Incarnations of a story, one after a crash of the other.
const INCARNATIONS: usize = 4;

/// Works, crashes, recovers. The error is a violation in words, and so is a panic.
pub fn run(seed: u64, is_told: bool, tally: Tally<'_>) -> Result<(), String> {
    caught(|| tell(seed, is_told, tally))
}

fn tell(seed: u64, is_told: bool, tally: Tally<'_>) -> Result<(), String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let script = Script::draw(&mut rng);
    if is_told {
        println!("{script:#?}");
    }
    let mut verifier = Verifier {
        rng: rng.fork(),
        tally,
        seed: seed.wrapping_mul(1 << 20),
        is_over: false,
    };
    let mut start = Crash::fresh(&script, seed)?;
    for number in 0..INCARNATIONS {
        let steps = script.steps(&mut rng, number);
        let at = |error: String| format!("incarnation {number}: {error}");
        let mut world = World::open(start, &script, rng.u64(..)).map_err(at)?;
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
            if world.is_poisoned() {
                break;
            }
        }
        start = world.end(&mut rng).map_err(at)?;
    }
    Ok(())
}
