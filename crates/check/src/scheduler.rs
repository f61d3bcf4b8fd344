//! Lets real threads run one at a time, and decides at every point where the order of stores can
//! matter which one goes on. The same policy and seed give the same run.

use forebay_pmem::Pause;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// So many yields in a row without an event between them: every actor waits for another.
const YIELDS_MAX: u32 = 20_000;

/// A process that passes so many points, yields among them, never ends: those that end pass some thousands,
/// so that no slow one is taken for endless.
const POINTS_MAX: u64 = 2_000_000;

/// A turn never takes so long, however slow the machine.
const TURN_MAX: Duration = Duration::from_secs(60);

/// Which actor runs on at a point.
#[derive(Clone, Debug)]
pub enum Policy {
    /// Any actor, with this many chances in 256 that it is not the one that runs, and more of them
    /// before a fence.
    Random { rng: fastrand::Rng, switches: u32 },
    /// The one with the highest priority; at each of some steps the one that runs falls to the
    /// lowest (probabilistic concurrency testing).
    Priorities {
        priorities: Vec<i64>,
        drops: Vec<u64>,
    },
    /// The one that runs; with so many chances in 256 another one where it looks at something without a
    /// lock, and seldom elsewhere: what is seen there changes before it counts.
    Windows { rng: fastrand::Rng, chances: u32 },
    /// The one that runs; with so many chances in 256 another one where it is at a backing.
    Backings { rng: fastrand::Rng, chances: u32 },
    /// The one that runs; with so many chances in 256 another one where it has looked at something in a cold
    /// place and will look again, and now and then elsewhere.
    Rechecks { rng: fastrand::Rng, chances: u32 },
    /// This one, until it comes to that access to a backing; then another one, as long as it can go on.
    AtBacking { first: usize, access: u64 },
    /// The one that runs, but for these preemptions: at this step, to this actor.
    Preemptions(Vec<(u64, usize)>),
}

impl Policy {
    /// A policy drawn from `rng` for `actors` actors and about `steps` steps.
    pub fn random(rng: &mut fastrand::Rng, actors: usize, steps: u64) -> Policy {
        if rng.u8(..3) == 0 {
            let mut priorities: Vec<i64> = (1..=actors as i64).collect();
            rng.shuffle(&mut priorities);
            let drops = (0..rng.usize(1..6)).map(|_| rng.u64(..steps)).collect();
            return Policy::Priorities { priorities, drops };
        }
        if rng.u8(..6) == 0 {
            return Policy::windows(rng);
        }
        let switches = [4, 16, 48, 128][rng.usize(..4)];
        Policy::Random {
            rng: rng.fork(),
            switches,
        }
    }

    /// A policy that opens the windows between two looks, drawn from `rng`.
    pub fn windows(rng: &mut fastrand::Rng) -> Policy {
        let chances = [16, 40, 96][rng.usize(..3)];
        Policy::Windows {
            rng: rng.fork(),
            chances,
        }
    }
}

struct State {
    policy: Policy,
    running: usize,
    alive: Vec<bool>,
    steps: u64,
    /// Of these, fences.
    fences: u64,
    /// And accesses to backings.
    backings: u64,
    yields: u32,
    /// Points of all kinds.
    points: u64,
    /// An actor gave up; none goes on.
    stopped: bool,
    /// Here every actor stops.
    kill: Option<Kill>,
    has_killed: bool,
}

/// Where a process is killed, counted in points that it has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// At this point.
    Step(u64),
    /// Before this fence: whatever it is to order has been stored.
    Fence(u64),
    /// At this access to a backing.
    Backing(u64),
}

/// The baton.
pub struct Scheduler {
    /// What is run, for the message of last resort.
    name: String,
    state: Mutex<State>,
    turns: Vec<Condvar>,
}

/// Why an actor was unwound: another one failed first, or the process was killed.
pub struct Stopped;

/// The actor that this thread runs as.
struct Seat {
    scheduler: Arc<Scheduler>,
    actor: usize,
}

thread_local! {
    static SEAT: RefCell<Option<Rc<Seat>>> = const { RefCell::new(None) };
}

impl Scheduler {
    /// A scheduler of `actors` actors, all of them ready, that are unwound at `kill`.
    pub fn new(policy: Policy, actors: usize, name: String, kill: Option<Kill>) -> Arc<Scheduler> {
        let mut state = State {
            policy,
            running: 0,
            alive: vec![true; actors],
            steps: 0,
            fences: 0,
            backings: 0,
            yields: 0,
            points: 0,
            stopped: false,
            kill,
            has_killed: false,
        };
        state.running = state.next(None, Point::Event);
        Arc::new(Scheduler {
            name,
            state: Mutex::new(state),
            turns: (0..actors).map(|_| Condvar::new()).collect(),
        })
    }

    /// Runs `work` as actor `actor` on this thread.
    pub fn enter(self: &Arc<Self>, actor: usize, work: impl FnOnce()) {
        let _leave = Leave(Arc::clone(self), actor);
        let seat = Seat {
            scheduler: Arc::clone(self),
            actor,
        };
        SEAT.with(|slot| *slot.borrow_mut() = Some(Rc::new(seat)));
        let yielder = Arc::clone(self);
        let pause = move |pause| match pause {
            Pause::Wait => yielder.point(actor, Point::Yield),
            Pause::Look => yielder.point(actor, Point::Look),
            Pause::Recheck => yielder.point(actor, Point::Recheck),
        };
        forebay_pmem::set_yield_hook(Some(Box::new(pause)));
        self.wait_for_turn(actor, self.state.lock());
        work();
    }

    /// Ends the run: every actor is unwound at its next point.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.unwind_all();
    }

    fn unwind_all(&self) {
        for turn in &self.turns {
            turn.notify_all();
        }
    }

    /// Whether the actors were unwound at the step that was asked for.
    pub fn has_killed(&self) -> bool {
        self.state.lock().has_killed
    }

    /// Points passed so far.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// Of these, fences.
    pub fn fences(&self) -> u64 {
        self.state.lock().fences
    }

    /// And accesses to backings.
    pub fn backings(&self) -> u64 {
        self.state.lock().backings
    }

    fn point(&self, actor: usize, point: Point) {
        if std::thread::panicking() {
            return;
        }
        let mut state = self.state.lock();
        assert_eq!(state.running, actor, "an actor runs without the baton");
        state.points += 1;
        if state.points > POINTS_MAX {
            self.fail(state, &endless());
        }
        if point == Point::Yield {
            state.yields += 1;
            if state.yields > YIELDS_MAX {
                self.fail(state, "no actor goes on: all of them wait for each other");
            }
        } else {
            state.yields = 0;
            state.steps += 1;
            state.fences += u64::from(point == Point::Fence);
            state.backings += u64::from(point == Point::Backing);
        }
        let is_due = match state.kill {
            Some(Kill::Step(step)) => step == state.steps,
            Some(Kill::Fence(fence)) => fence == state.fences,
            Some(Kill::Backing(access)) => access == state.backings,
            None => false,
        };
        if is_due && !state.stopped {
            state.has_killed = true;
            state.stopped = true;
            self.unwind_all();
            drop(state);
            std::panic::resume_unwind(Box::new(Stopped));
        }
        let next = state.next(Some(actor), point);
        if next != actor {
            state.running = next;
            self.turns[next].notify_one();
            self.wait_for_turn(actor, state);
        } else if state.stopped {
            drop(state);
            std::panic::resume_unwind(Box::new(Stopped));
        }
    }

    /// Ends the run: this actor fails, and every other one is unwound.
    fn fail(&self, mut state: MutexGuard<'_, State>, why: &str) -> ! {
        state.stopped = true;
        self.unwind_all();
        drop(state);
        panic!("{why}");
    }

    fn wait_for_turn(&self, actor: usize, mut state: MutexGuard<'_, State>) {
        while state.running != actor && !state.stopped {
            let before = (state.steps, state.yields);
            let waited = self.turns[actor].wait_for(&mut state, TURN_MAX);
            if waited.timed_out() && before == (state.steps, state.yields) {
                self.give_up(actor, state.running);
            }
        }
        let stopped = state.stopped;
        drop(state);
        if stopped {
            std::panic::resume_unwind(Box::new(Stopped));
        }
    }

    /// A thread that sleeps in a lock cannot be unwound.
    fn give_up(&self, actor: usize, running: usize) -> ! {
        eprintln!(
            "crash: {}: actor {running} has not come to a point for {} s while actor \
             {actor} waits; does it sleep in a lock that is no yield point?",
            self.name,
            TURN_MAX.as_secs()
        );
        std::process::exit(3);
    }
}

/// Why a thread comes to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// It is about to store or flush something.
    Event,
    /// It is about to read, write or sync a backing, or has just done so.
    Backing,
    /// It is about to fence: what others do now, they do before it.
    Fence,
    /// It is about to look at something without a lock, and will see later whether that still holds.
    Look,
    /// The same in a cold place, which says so.
    Recheck,
    /// It waits for another one.
    Yield,
}

/// What is said of a run that passes more points than any that ends.
fn endless() -> String {
    format!("endless: after {POINTS_MAX} points it still goes on")
}

/// Does something on this thread that no scheduler drives, and panics if it is endless.
pub fn bounded<T>(work: impl FnOnce() -> T) -> T {
    /// Also when `work` panics.
    struct Unhook;
    impl Drop for Unhook {
        fn drop(&mut self) {
            forebay_pmem::set_yield_hook(None);
        }
    }
    let points = Cell::new(0);
    let pause = move |pause| {
        if std::thread::panicking() {
            return;
        }
        points.set(points.get() + 1);
        assert!(points.get() <= POINTS_MAX, "{}", endless());
        if pause == Pause::Wait {
            std::thread::yield_now();
        }
    };
    forebay_pmem::set_yield_hook(Some(Box::new(pause)));
    let _unhook = Unhook;
    work()
}

/// A point of this thread's run, if a scheduler drives it.
pub fn point(point: Point) {
    let seat = SEAT.with(|slot| slot.borrow().clone());
    if let Some(seat) = seat {
        seat.scheduler.point(seat.actor, point);
    }
}

struct Leave(Arc<Scheduler>, usize);

impl Drop for Leave {
    fn drop(&mut self) {
        forebay_pmem::set_yield_hook(None);
        SEAT.with(|slot| *slot.borrow_mut() = None);
        let mut state = self.0.state.lock();
        state.alive[self.1] = false;
        state.yields = 0;
        if state.running == self.1 && state.alive.contains(&true) {
            state.running = state.next(None, Point::Event);
            self.0.turns[state.running].notify_one();
        }
    }
}

impl State {
    /// Chooses among those that have not ended; `current` is the one that runs now, not to be chosen when it
    /// must yield and there is another.
    fn next(&mut self, current: Option<usize>, point: Point) -> usize {
        let must_yield = point == Point::Yield;
        let State { alive, policy, .. } = self;
        let others = (0..alive.len()).filter(|&actor| alive[actor] && Some(actor) != current);
        let Some(first) = others.clone().next() else {
            return current.expect("an actor has not ended");
        };
        let (step, backings) = (self.steps, self.backings);
        let (at, seldom): (&[Point], u32) = match policy {
            Policy::Backings { .. } => (&[Point::Backing], 0),
            Policy::Rechecks { .. } => (&[Point::Recheck], 8),
            _ => (&[Point::Look, Point::Recheck], 4),
        };
        match policy {
            Policy::Random { rng, switches } => {
                let weight = match point {
                    Point::Fence => 8,
                    Point::Look | Point::Recheck => 1,
                    Point::Event | Point::Backing | Point::Yield => 2,
                };
                match current {
                    Some(current) if !must_yield && rng.u32(..512) >= weight * *switches => current,
                    _ => {
                        let number = rng.usize(..others.clone().count());
                        others.clone().nth(number).unwrap_or(first)
                    }
                }
            }
            Policy::Windows { rng, chances }
            | Policy::Backings { rng, chances }
            | Policy::Rechecks { rng, chances } => {
                let chances = match point {
                    Point::Yield => 256,
                    _ if at.contains(&point) => *chances,
                    _ => seldom,
                };
                match current {
                    Some(current) if rng.u32(..256) >= chances => current,
                    _ => {
                        let number = rng.usize(..others.clone().count());
                        others.clone().nth(number).unwrap_or(first)
                    }
                }
            }
            Policy::Priorities { priorities, drops } => {
                if let Some(current) = current
                    && (must_yield || drops.contains(&step))
                {
                    priorities[current] = priorities.iter().min().expect("there are actors") - 1;
                }
                let all = others.chain(current);
                all.max_by_key(|&actor| priorities[actor]).unwrap_or(first)
            }
            Policy::AtBacking {
                first: asked,
                access,
            } => {
                let is_there = point == Point::Backing && backings == *access;
                match current {
                    Some(current) if !must_yield && !is_there => current,
                    None if step == 0 && alive[*asked] => *asked,
                    _ => first,
                }
            }
            Policy::Preemptions(list) => {
                let asked = list.iter().find(|preemption| preemption.0 == step);
                match (asked, current) {
                    (Some(&(_, to)), _) if !must_yield && others.clone().any(|one| one == to) => to,
                    (_, Some(current)) if !must_yield => current,
                    // Round robin from the one that waits.
                    (_, Some(current)) => others
                        .clone()
                        .find(|&actor| actor > current)
                        .unwrap_or(first),
                    (_, None) => first,
                }
            }
        }
    }
}

/// Does it; a panic is an error as well, in its words.
pub fn caught(work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| Err(format!("panic: {}", message_of(&*panic))))
}

/// What a panic says.
pub fn message_of(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        String::from("a panic without words")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which actor passed each point.
    fn run(policy: Policy) -> Vec<usize> {
        let scheduler = Scheduler::new(policy, 3, String::new(), None);
        let passed = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for actor in 0..3 {
                let (scheduler, passed) = (&scheduler, &passed);
                scope.spawn(move || {
                    scheduler.enter(actor, || {
                        for _ in 0..20 {
                            passed.lock().push(actor);
                            point(Point::Event);
                        }
                    });
                });
            }
        });
        passed.into_inner()
    }

    #[test]
    fn the_same_policy_gives_the_same_run() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..8 {
            let policy = Policy::random(&mut rng, 3, 60);
            let once = run(policy.clone());
            assert_eq!(once.len(), 60);
            assert_eq!(once, run(policy));
        }
    }

    #[test]
    fn preemptions_come_where_they_are_asked_for() {
        let passed = run(Policy::Preemptions(vec![(4, 2), (9, 1)]));
        assert_eq!(passed[..4], [0; 4]);
        assert_eq!(passed[4..9], [2; 5]);
        assert_eq!(passed[9..29], [1; 20]);
    }

    #[test]
    fn actors_that_all_wait_are_found_out() {
        let policy = Policy::Preemptions(Vec::new());
        let scheduler = Scheduler::new(policy, 2, String::new(), None);
        std::thread::scope(|scope| {
            for actor in 0..2 {
                let scheduler = &scheduler;
                let wait = move || {
                    scheduler.enter(actor, || {
                        loop {
                            forebay_pmem::yield_point()
                        }
                    })
                };
                let waiting = move || std::panic::catch_unwind(std::panic::AssertUnwindSafe(wait));
                scope.spawn(move || assert!(waiting().is_err()));
            }
        });
    }

    /// What a panic of `work` says.
    fn failure_of(work: impl FnOnce()) -> String {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        message_of(&*panic.expect_err("it fails"))
    }

    /// Once the hunt stood still.
    #[test]
    fn a_loop_that_goes_on_without_end_is_a_failure_and_the_others_are_unwound() {
        let policy = Policy::Preemptions(vec![(10, 1), (20, 0)]);
        let scheduler = Scheduler::new(policy, 2, String::new(), None);
        let goes_on = || {
            loop {
                point(Point::Event);
            }
        };
        let ended: Vec<bool> = std::thread::scope(|scope| {
            let actor = |number: usize| {
                let scheduler = &scheduler;
                let run = move || scheduler.enter(number, goes_on);
                let run = std::panic::AssertUnwindSafe(run);
                scope.spawn(move || std::panic::catch_unwind(run))
            };
            let actors = [actor(0), actor(1)].map(|actor| actor.join().expect("it is caught"));
            let is_endless = |panic: &(dyn Any + Send)| {
                !panic.is::<Stopped>() && message_of(panic).starts_with("endless")
            };
            let panics = actors.map(|actor| actor.expect_err("it does not end"));
            panics.iter().map(|panic| is_endless(&**panic)).collect()
        });
        assert_eq!(ended.iter().filter(|is_endless| **is_endless).count(), 1);
        assert_eq!(scheduler.state.lock().points, POINTS_MAX + 1);
    }

    /// Once the verification of an image stood still.
    #[test]
    fn a_loop_without_end_that_no_scheduler_drives_is_a_failure() {
        let goes_on = || {
            loop {
                forebay_pmem::look_point();
            }
        };
        assert!(failure_of(|| bounded(goes_on)).starts_with("endless"));
        // The bound is of each piece of work, and gone after it.
        for _ in 0..2 {
            bounded(|| (0..POINTS_MAX * 2 / 3).for_each(|_| forebay_pmem::look_point()));
        }
        (0..=POINTS_MAX).for_each(|_| forebay_pmem::look_point());
    }
}
