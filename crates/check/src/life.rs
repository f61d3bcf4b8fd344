//! One life of a cache: opened from an image, worked on by a script's actors, watched throughout.

use crate::scenario::{Script, Shape};
use crate::scheduler::{Policy, Scheduler, Stopped};
use crate::subject::{self, OpenCache};
use crate::world::{Capture, Image, Record, World};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

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
    /// Whether the cache is closed in the end, not just left.
    pub closes: bool,
    /// Decides what failed syncs forget.
    pub seed: u64,
    /// Whether every event is put in words.
    pub traced: bool,
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
        closes,
        seed,
        traced,
    } = plan;
    let world = Arc::new(World::new(shape, start, capture, seed, traced));
    world.set_made(begins != Begins::Created);
    world.watch();
    let mut steps = 0;
    let (regions, life) = (world.regions(), number as u64);
    let backing = |volume| world.backing(volume);
    let opened = caught(|| subject::open(shape, begins, life, regions, backing));
    world.set_made(true);
    let failure = match opened {
        Ok(Ok(cache)) => {
            let failure = work(&world, shape, &cache, script, (policy, name), &mut steps);
            world.note_crash("the end");
            let closed = failure.map_or_else(|| close(&world, cache, closes), Err);
            world.note_crash("the very end");
            closed.err()
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
    (policy, name): (Policy, String),
    steps: &mut u64,
) -> Option<String> {
    let scheduler = Arc::new(Scheduler::new(policy, script.len(), name));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (number, actor_steps) in script.iter().enumerate() {
            let (scheduler, failures) = (&scheduler, &failures);
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
    *steps = scheduler.steps();
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
