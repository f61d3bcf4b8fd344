//! One process of an incarnation: it opens the cache, its actors work, it ends, and anywhere on the
//! way it may be killed.

use crate::cache::{Actor, Begins, OpenCache};
use crate::scenario::{Script, Shape, Step};
use crate::scheduler::{Kill, Policy, Scheduler, Stopped, message_of};
use crate::subject;
use crate::world::World;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A process.
pub struct Process {
    /// How the cache is opened.
    pub begins: Begins,
    /// What its actors do.
    pub script: Script,
    /// Which of them runs next.
    pub policy: Policy,
    /// Where it is killed; what it passes while it opens the cache, and while it closes it, counts.
    pub kill: Option<Kill>,
    /// Whether it closes the cache in the end, or just leaves it.
    pub closes: bool,
    /// Whether what was made to fail before works again.
    pub is_spared: bool,
}

/// How a process ended.
pub struct Ended {
    /// It was killed.
    pub is_killed: bool,
    /// Points that were passed while its actors worked.
    pub steps: u64,
}

/// A process under way.
struct Running<'a> {
    world: &'a Arc<World>,
    shape: &'a Shape,
    name: &'a str,
    kill: Option<Kill>,
}

/// Runs `process`, which leaves to chance what `incarnation` says. The error says what went wrong before any crash.
pub fn run(
    process: Process,
    (world, shape): (&Arc<World>, &Shape),
    name: &str,
    incarnation: u64,
) -> Result<Ended, String> {
    let Process {
        begins,
        script,
        policy,
        kill,
        closes,
        ..
    } = process;
    let mut running = Running {
        world,
        shape,
        name,
        kill,
    };
    let mut ended = Ended {
        is_killed: true,
        steps: 0,
    };
    let Some(opened) = running.open(begins, incarnation)? else {
        return Ok(ended);
    };
    let Some(cache) = opened else {
        ended.is_killed = false;
        return Ok(ended);
    };
    let is_killed = running.work(&cache, &script, policy, &mut ended.steps)?;
    if !is_killed {
        world.note_crash("the end");
        ended.is_killed = running.close(cache, closes)?;
        world.note_crash("the very end");
    }
    Ok(ended)
}

impl Running<'_> {
    /// So much less is left until the kill.
    fn note_passed(&mut self, scheduler: &Scheduler) {
        self.kill = self.kill.map(|kill| match kill {
            Kill::Step(step) => Kill::Step(step.saturating_sub(scheduler.steps())),
            Kill::Fence(fence) => Kill::Fence(fence.saturating_sub(scheduler.fences())),
            Kill::Backing(access) => Kill::Backing(access.saturating_sub(scheduler.backings())),
        });
    }

    /// Does something with no other actor at work; none if the process is killed meanwhile.
    fn alone<T>(&mut self, work: impl FnOnce() -> T) -> Result<Option<T>, String> {
        let policy = Policy::Preemptions(Vec::new());
        let scheduler = Scheduler::new(policy, 1, self.name.to_string(), self.kill);
        let mut result = None;
        let run = AssertUnwindSafe(|| scheduler.enter(0, || result = Some(work())));
        let done = catch_unwind(run);
        self.note_passed(&scheduler);
        match done {
            Err(panic) if !panic.is::<Stopped>() => Err(format!("panic: {}", message_of(&*panic))),
            _ => Ok(result),
        }
    }

    /// Opens the cache, or makes it. None if the process is killed meanwhile, none within if it is refused
    /// for a reason.
    fn open(
        &mut self,
        begins: Begins,
        incarnation: u64,
    ) -> Result<Option<Option<OpenCache>>, String> {
        let (world, shape) = (self.world, self.shape);
        let is_half_made = begins != Begins::Created && !world.is_made();
        if is_half_made {
            world.note_half_made();
        }
        let backing = |volume| world.backing(volume);
        world.set_opening(true);
        let opened =
            self.alone(|| subject::open(shape, begins, incarnation, world.regions(), backing))?;
        world.set_opening(opened.is_none());
        match opened {
            None => Ok(None),
            Some(Ok(cache)) => {
                world.set_made(true);
                if begins == Begins::Created {
                    world.note_all_in();
                }
                Ok(Some(Some(cache)))
            }
            Some(Err(refusal)) if is_half_made || world.excuses(&refusal) => Ok(Some(None)),
            Some(Err(refusal)) => Err(format!("it did not open: {}", refusal.text)),
        }
    }

    /// Runs every actor of `script` on a thread of its own, one at a time. Returns whether the process
    /// was killed.
    fn work(
        &mut self,
        cache: &OpenCache,
        script: &Script,
        policy: Policy,
        steps: &mut u64,
    ) -> Result<bool, String> {
        let scheduler = Scheduler::new(policy, script.len(), self.name.into(), self.kill);
        let failure = act(self.world, self.shape, cache, script, &scheduler);
        *steps = scheduler.steps();
        self.note_passed(&scheduler);
        failure.map_or_else(|| Ok(scheduler.has_killed()), Err)
    }

    /// Checks a cache that no actor works on any more, and leaves it, in order or not. Returns whether the
    /// process was killed.
    fn close(&mut self, cache: OpenCache, in_order: bool) -> Result<bool, String> {
        let world = self.world;
        let closed = self.alone(|| {
            match cache.check() {
                // What is lost does not match its check.
                Err(_) if world.has_lost_pages() => {}
                // Of blocks that the backing has, too, no copy need be right.
                Err(_) if world.harming().is_on() => world.harming().note_told(),
                checked => checked?,
            }
            if in_order { cache.close(world) } else { Ok(()) }
        })?;
        closed.map_or(Ok(true), |done| done.map(|()| false))
    }
}

fn act(
    world: &World,
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
                        forebay::unstable::set_thread_hint(number);
                        let mut actor = cache.actor(world, shape);
                        for step in actor_steps {
                            if let Err(error) = act_on(world, &mut *actor, step) {
                                panic!("{error}, at {step:?}");
                            }
                        }
                    });
                });
                if let Err(panic) = catch_unwind(run)
                    && !panic.is::<Stopped>()
                {
                    let message = format!("actor {number}: {}", message_of(&*panic));
                    failures.lock().push(message);
                    scheduler.stop();
                }
            };
            std::thread::Builder::new()
                .name(format!("actor {number}"))
                .spawn_scoped(scope, actor)
                .expect("a thread can be started");
        }
    });
    failures.into_inner().into_iter().next()
}

/// Does a step: of the actor, or one that makes what lies below the cache fail.
fn act_on(world: &World, actor: &mut dyn Actor, step: &Step) -> Result<(), String> {
    match step {
        Step::FailStore {
            volume,
            writes,
            syncs,
        } => world.fail_store(*volume, *writes, *syncs),
        Step::FailFence { after } => world.fail_fence(*after),
        Step::Evict => world.evict(),
        step => return actor.act(step),
    }
    Ok(())
}
