//! One incarnation of a cache: opened from an image, worked on by one process after the other, watched
//! throughout. What a process stored is there for the next one to see, durable or not, until the power
//! fails.

use crate::cache::Begins;
use crate::digest::Tracing;
use crate::image::{Image, Standing};
use crate::process::{self, Process};
use crate::scenario::Shape;
use crate::scheduler::{self, message_of};
use crate::world::{Capture, Record, World};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How far apart the numbers are that the processes of an incarnation make their choices of.
const NEXT_PROCESS: u64 = 1 << 16;

/// Where other processes follow, so many times fewer crashes of the first one are noted: they are those
/// of an incarnation that has no others.
const FIRST_OF_MANY: u32 = 8;

/// How an incarnation is run.
pub struct Plan<'a> {
    /// The cache.
    pub shape: &'a Shape,
    /// What it starts from.
    pub start: &'a Image,
    /// How its members stand; those that are not named are in.
    pub standings: &'a [Standing],
    /// The processes that work on it, one after the other.
    pub processes: Vec<Process>,
    /// Which crashes are noted.
    pub capture: Capture,
    /// The scenario that this is part of.
    pub name: String,
    /// Incarnations before it, on the way to `start`.
    pub number: usize,
    /// Decides what failed syncs forget.
    pub seed: u64,
    /// How every event is told of.
    pub tracing: Tracing,
}

/// How it went.
pub struct Incarnation {
    /// The history and the crashes.
    pub record: Record,
    /// What went wrong before any crash: a panic, a refusal, an endless wait.
    pub failure: Option<String>,
    /// Points that were passed while the actors of the last process worked.
    pub steps: u64,
}

/// Runs `plan`.
pub fn run_processes(plan: Plan<'_>) -> Incarnation {
    let Capture {
        chances,
        fence_chances,
        ..
    } = plan.capture;
    let world = World::new(
        plan.shape,
        plan.start,
        plan.capture,
        plan.seed,
        plan.tracing,
    );
    let world = Arc::new(world.with_standings(plan.standings));
    let first = plan.processes.first();
    world.set_made(first.is_none_or(|process| process.begins != Begins::Created));
    world.watch();
    let (mut steps, mut failure) = (0, None);
    let last = plan.processes.len() - 1;
    for (number, mut process) in plan.processes.into_iter().enumerate() {
        let is_crowded_out = number == 0 && last > 0;
        let fewer = if is_crowded_out { FIRST_OF_MANY } else { 1 };
        world.set_chances(chances.div_ceil(fewer), fence_chances / fewer);
        if number > 0 && process.is_spared {
            world.fail_no_more();
        }
        if number > 0 && !world.is_made() {
            // Half made: that is done again, or tried to make do with.
            process.begins = match process.closes {
                true => Begins::Created,
                false => Begins::Opened,
            };
        }
        let incarnation = plan.number as u64 + number as u64 * NEXT_PROCESS;
        match process::run(process, (&world, plan.shape), &plan.name, incarnation) {
            Ok(ended) => {
                steps = ended.steps;
                world.note_end(ended.is_killed);
            }
            Err(error) => {
                failure = Some(match number {
                    0 => error,
                    _ => format!("process {number}: {error}"),
                });
                break;
            }
        }
    }
    world.unwatch();
    Incarnation {
        record: world.take_record(),
        failure,
        steps,
    }
}

/// What `work` returns, or why it panicked; that it is endless is such a reason.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(|| scheduler::bounded(work)))
        .map_err(|panic| format!("panic: {}", message_of(&*panic)))
}
