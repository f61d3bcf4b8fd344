//! One life of a cache: opened from an image, worked on by a script's actors, watched throughout.

use crate::scenario::{Script, Shape};
use crate::scheduler::{Policy, Scheduler, Stopped};
use crate::subject::{self, OpenCache};
use crate::world::{Capture, Image, Record, World};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Added to a life's number after its process was killed.
const KILLED: u64 = 1 << 16;

/// How a life is lived.
pub struct Plan<'a> {
    /// The cache.
    pub shape: &'a Shape,
    /// What it starts from.
    pub start: &'a Image,
    /// What its actors do.
    pub script: &'a Script,
    /// Who of them goes on.
    pub policy: Policy,
    /// Which crashes are noted.
    pub capture: Capture,
    /// The scenario that this is part of.
    pub name: String,
    /// How the cache comes to life.
    pub begins: Begins,
    /// Lives that were lived before, on the way to `start`.
    pub number: usize,
    /// Where its process is killed, and what comes after.
    pub kill: Option<Kill>,
    /// Whether the cache is closed in the end, not just left.
    pub closes: bool,
    /// Decides what failed syncs forget.
    pub seed: u64,
    /// Whether every event is put in words.
    pub traced: bool,
}

/// The end of a process within a life: what it stored is there for the next one to see, durable or
/// not, until the power fails.
pub struct Kill {
    /// Points that the scheduler passes before.
    pub step: u64,
    /// What the actors of the next process do.
    pub script: Script,
    /// Who of them goes on.
    pub policy: Policy,
}

/// How a life begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// The cache is opened.
    Opened,
    /// It grows to all of its medium.
    Grown,
    /// It is made anew over what was there.
    Created,
}

/// How it went.
pub struct Life {
    /// The history and the crashes.
    pub record: Record,
    /// What went wrong alive: a panic, a refusal, an endless wait.
    pub failure: Option<String>,
    /// Points that the scheduler passed.
    pub steps: u64,
}

/// Lives `plan`.
pub fn live(plan: Plan<'_>) -> Life {
    let Plan {
        shape,
        start,
        script,
        policy,
        capture,
        name,
        begins,
        number,
        kill,
        closes,
        seed,
        traced,
    } = plan;
    let world = Arc::new(World::new(shape, start, capture, seed, traced));
    world.set_made(begins != Begins::Created);
    world.watch();
    let mut steps = 0;
    let (kill_step, next) = match kill {
        Some(kill) => (Some(kill.step), Some((kill.script, kill.policy))),
        None => (None, None),
    };
    let (regions, life) = (world.regions(), number as u64);
    let backing = |volume| world.backing(volume);
    let opened = caught(|| subject::open(shape, begins, life, regions, backing));
    world.set_made(true);
    let failure = match opened {
        Ok(Ok(cache)) => {
            let scheduler = Scheduler::new(policy, script.len(), name.clone(), kill_step);
            let failure = work(&world, shape, &cache, script, &scheduler);
            steps = scheduler.steps();
            match (failure, next) {
                (None, Some(next)) if scheduler.has_killed() => {
                    drop(cache);
                    live_on(&world, shape, next, (name, life + KILLED), closes)
                }
                (failure, _) => end(&world, cache, failure, closes),
            }
        }
        Ok(Err(refusal)) => Some(format!("it did not open: {refusal}")),
        Err(panic) => Some(panic),
    };
    world.unwatch();
    Life {
        record: world.take_record(),
        failure,
        steps,
    }
}

/// The next process after one that was killed.
fn live_on(
    world: &Arc<World>,
    shape: &Shape,
    (script, policy): (Script, Policy),
    (name, life): (String, u64),
    closes: bool,
) -> Option<String> {
    world.note_kill();
    let backing = |volume| world.backing(volume);
    let (regions, begins) = (world.regions(), Begins::Opened);
    match caught(|| subject::open(shape, begins, life, regions, backing)) {
        Ok(Ok(cache)) => {
            let scheduler = Scheduler::new(policy, script.len(), name, None);
            let failure = work(world, shape, &cache, &script, &scheduler);
            end(world, cache, failure, closes)
        }
        // What was made to fail may not have failed yet.
        Ok(Err(_)) if world.has_failed_fences() || world.has_failing_stores() => None,
        Ok(Err(refusal)) => Some(format!("it did not open after a kill: {refusal}")),
        Err(panic) => Some(panic),
    }
}

fn end(world: &World, cache: OpenCache, failure: Option<String>, closes: bool) -> Option<String> {
    world.note_crash("the end");
    let closed = failure.map_or_else(|| close(world, cache, closes), Err);
    world.note_crash("the very end");
    closed.err()
}

/// Checks a cache that nobody works on any more, and leaves it, in order or not.
fn close(world: &World, cache: OpenCache, in_order: bool) -> Result<(), String> {
    let done = caught(|| {
        cache.check()?;
        if in_order { cache.close(world) } else { Ok(()) }
    });
    done?
}

/// Runs every actor of `script` on a thread of its own, one at a time.
fn work(
    world: &Arc<World>,
    shape: &Shape,
    cache: &OpenCache,
    script: &Script,
    scheduler: &Arc<Scheduler>,
) -> Option<String> {
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (number, actor_steps) in script.iter().enumerate() {
            let failures = &failures;
            let actor = move || {
                let run = AssertUnwindSafe(|| {
                    scheduler.enter(number, || {
                        forebay::testing::set_thread_hint(number);
                        let mut actor = cache.actor(world, shape);
                        for step in actor_steps {
                            if let Err(error) = actor.act(step) {
                                panic!("{error}, at {step:?}");
                            }
                        }
                    });
                });
                if let Err(panic) = catch_unwind(run)
                    && !panic.is::<Stopped>()
                {
                    let message = format!("actor {number}: {}", message_of(&*panic));
                    failures.lock().expect("nobody panics here").push(message);
                    scheduler.stop();
                }
            };
            std::thread::Builder::new()
                .name(format!("actor {number}"))
                .spawn_scoped(scope, actor)
                .expect("a thread can be started");
        }
    });
    failures
        .into_inner()
        .expect("nobody panics here")
        .into_iter()
        .next()
}

/// What `work` returns, or why it panicked.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| format!("panic: {}", message_of(&*panic)))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        String::from("a panic without words")
    }
}
