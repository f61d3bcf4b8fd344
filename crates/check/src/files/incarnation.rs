//! One incarnation of a buffer: recovered from what a crash left, worked with, and crashed again and again.

use super::backing::{Backing, History, Identities};
use super::clock::Clock;
use super::env::{MarkFolder, TestEnv, mark_place};
use super::named::settles_names;
use super::pool::{PoolImage, PoolMedium, PoolState};
use super::script;
use super::step::Step;
use super::worker::Worker;
use crate::scheduler::message_of;
use forebay_files::observe::{self, Observer};
use forebay_files::{FileBuffer, FileIdentity};
use forebay_harness::files::{Model, Tree};
use forebay_log::shadow::ShadowState;
use forebay_volatile::{Content, DiskEvent, DiskState, FailedSync, VolatileDisk};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// What a crash leaves of everything.
#[derive(Clone)]
pub struct Image {
    pub pool: PoolImage,
    pub side: Content,
    pub tree: Tree,
    /// The folder with DATA's mark.
    pub mark: Tree,
    /// Which mounting of the backing it is: another one after each power cut.
    pub mounting: u64,
    /// The log is so short that it is full now and then.
    pub has_short_log: bool,
}

/// A moment at which the power may fail.
pub struct Case {
    pub pool: PoolState,
    pub side: DiskState,
    pub history: History,
    pub mark: History,
    pub mounting: u64,
    pub has_short_log: bool,
    /// 0 during recovery; then one more than the steps that had been acknowledged.
    pub done: usize,
}

impl Case {
    /// When it was, in words.
    pub fn moment(&self) -> String {
        match self.done {
            0 => String::from("during recovery"),
            step => format!("in step {step}"),
        }
    }

    /// What it may leave.
    pub fn sample(&self, rng: &mut fastrand::Rng) -> Image {
        Image {
            pool: self.pool.sample(rng),
            side: self.side.sample(rng),
            tree: self.history.sample(rng),
            mark: self.mark.sample(rng),
            mounting: self.mounting + 1,
            has_short_log: self.has_short_log,
        }
    }
}

/// An incarnation that was run.
pub struct Incarnation {
    /// Moments that were noted.
    pub cases: Vec<Case>,
    /// What was acknowledged after so many steps: the first one before any, right after recovery.
    pub models: Vec<Model>,
    /// What the last step, if it was not acknowledged, would have made of it.
    pub steps: Vec<Step>,
    /// What a crash in the midst of each step may leave too.
    in_part: Vec<Vec<Model>>,
    /// After so many steps, the last of them by which names were durable: those that were added since may be lost.
    settled: Vec<usize>,
    /// Names are durable when they are acknowledged.
    keeps_names: bool,
    /// The inodes' identities.
    pub identities: Identities,
}

/// What is on the machine while an incarnation lasts.
pub struct Machine {
    pool: PoolMedium,
    side: Arc<VolatileDisk>,
    backing: Arc<Backing>,
    marks: Arc<Backing>,
    has_short_log: bool,
    buffer: Option<Arc<FileBuffer>>,
}

/// Notes moments: a few of recovery, and in some steps one of the first.
struct Recorder {
    has_short_log: bool,
    rng: fastrand::Rng,
    marks_rng: fastrand::Rng,
    cases: Vec<Case>,
    /// Steps that have been acknowledged, and one for recovery.
    done: usize,
    /// Moments since then.
    moments: u64,
    /// Those that are noted.
    noted: BTreeSet<u64>,
}

/// A step of a program passes about so many moments: most of them few.
const MOMENTS_OF_A_STEP: [u64; 4] = [8, 14, 14, 90];
/// Moments of recovery that are noted: so many anywhere, and as many among the last.
const RECOVERY_CASES: usize = 3;
/// In one incarnation of so many a recovery fails in order first.
const FAILS_FIRST_ONE_IN: u64 = 4;
const LAST_MOMENTS: u64 = 60;
/// Of the moments around a sync of the mark one in so many is noted.
const MARK_MOMENTS_ONE_IN: u8 = 3;

/// What an incarnation is made of.
pub struct Plan {
    pub image: Image,
    pub identities: Identities,
    /// What the image may show after recovery.
    pub legal: Vec<Model>,
    /// Incarnations of one medium need different numbers.
    pub number: u64,
    pub seed: u64,
    pub steps: usize,
    /// Whether it ends in order.
    pub ends: bool,
}

impl Machine {
    pub fn start(env: &TestEnv, image: Image, identities: Identities) -> io::Result<Machine> {
        Ok(Machine {
            has_short_log: image.has_short_log,
            pool: PoolMedium::of(&image.pool),
            side: Arc::new(
                VolatileDisk::sparse("side", forebay_files::SIDE_BYTES, image.side)
                    .with_failed_sync(FailedSync::Pretends),
            ),
            backing: Backing::new(
                &env.root,
                image.tree,
                identities,
                image.mounting,
                &env.clock,
            )?,
            marks: Backing::new(
                &env.marks,
                image.mark,
                Identities::default(),
                0,
                &Clock::default(),
            )?,
            buffer: None,
        })
    }

    /// From now on `recorder` is called around everything that a power cut could come between.
    fn record(&self, recorder: &Arc<Mutex<Recorder>>) {
        let (pool, side) = (self.pool.downgrade(), Arc::downgrade(&self.side));
        let (backing, marks) = (Arc::downgrade(&self.backing), Arc::downgrade(&self.marks));
        let recorder = Arc::clone(recorder);
        let note = Arc::new(move |is_of_mark: bool, told: Option<&ShadowState>| {
            let parts = (pool.upgrade(), side.upgrade());
            let others = (backing.upgrade(), marks.upgrade());
            if let ((Some(pool), Some(side)), (Some(backing), Some(marks))) = (parts, others) {
                let mut recorder = recorder.lock();
                if recorder.is_next_noted(is_of_mark) {
                    let state =
                        told.map_or_else(|| pool.state(), |state| PoolState::Ssd(state.clone()));
                    recorder.note(state, &side, &backing, &marks);
                }
            }
        });
        let on_pool = Arc::clone(&note);
        self.pool
            .on_moment(Arc::new(move |told| on_pool(false, told)));
        let on_side = Arc::clone(&note);
        self.side.set_hook(Some(Arc::new(move |event| {
            let is_write = event == DiskEvent::Write;
            if is_write || matches!(event, DiskEvent::Sync | DiskEvent::Synced) {
                on_side(false, None);
            }
        })));
        let on_mark = Arc::clone(&note);
        self.marks
            .on_sync(Some(Arc::new(move || on_mark(true, None))));
        self.backing
            .on_sync(Some(Arc::new(move || note(false, None))));
    }

    /// What is there now.
    pub fn look(&self) -> io::Result<Image> {
        Ok(Image {
            pool: PoolImage::Memory(Vec::new()),
            side: self.side.crash_state().current().clone(),
            tree: self.backing.tree()?,
            mark: self.marks.tree()?,
            mounting: self.backing.mounting(),
            has_short_log: self.has_short_log,
        })
    }

    pub fn open(&mut self, env: &TestEnv, incarnation: u64) -> io::Result<Arc<FileBuffer>> {
        forebay::unstable::set_thread_hint(0);
        forebay::unstable::set_random_seed(Some(incarnation));
        observe::set_observer(Some(Rc::new(Watcher(Arc::clone(&self.backing)))));
        let watcher = Rc::new(MarkFolder(Arc::clone(&self.marks)));
        forebay::unstable::set_mark_watcher(Some(watcher));
        self.backing.recovery_begins();
        let side = forebay::Backing::from_store(self.side.clone());
        let parts = self.pool.parts(side, incarnation)?;
        let parts = parts.mark(mark_place(env)?).root(&env.root);
        let opened = FileBuffer::open_on(match self.has_short_log {
            true => parts.log_bytes(SHORT_LOG_BYTES),
            false => parts,
        });
        let done = self.backing.recovery_ended();
        let buffer = opened?;
        done.map_err(io::Error::other)?;
        self.buffer = Some(Arc::clone(&buffer));
        Ok(buffer)
    }

    /// In some incarnations a recovery before it may write to no file, and fails in order where it has to.
    fn fail_first(&mut self, env: &TestEnv, seed: u64, incarnation: u64) {
        if seed.is_multiple_of(FAILS_FIRST_ONE_IN) {
            self.backing.fail_writes(true);
            // Where nothing is to be written it is done, and killed.
            drop(self.open(env, incarnation));
            self.buffer = None;
            self.backing.fail_writes(false);
        }
    }

    /// The same alone; a panic is an error too.
    fn recover(&mut self, env: &TestEnv, incarnation: u64) -> Result<(), String> {
        let opened = caught(|| {
            let opened = self.open(env, incarnation);
            opened.map(drop).map_err(|error| error.to_string())
        });
        opened.map_err(|error| format!("recovery: {error}"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.pool.forget();
        self.side.set_hook(None);
        self.backing.on_sync(None);
        self.marks.on_sync(None);
        // The process is gone: nothing is drained.
        self.buffer = None;
        observe::set_observer(None);
        forebay::unstable::set_mark_watcher(None);
    }
}

impl Recorder {
    /// Notes nothing, but counts.
    fn counting() -> Recorder {
        Recorder {
            has_short_log: false,
            rng: fastrand::Rng::with_seed(0),
            marks_rng: fastrand::Rng::with_seed(0),
            cases: Vec::new(),
            done: 0,
            moments: 0,
            noted: BTreeSet::new(),
        }
    }

    /// For an incarnation whose recovery passes so many moments.
    fn new(seed: u64, moments: u64, has_short_log: bool) -> Recorder {
        let mut recorder = Recorder {
            has_short_log,
            rng: fastrand::Rng::with_seed(seed),
            marks_rng: fastrand::Rng::with_seed(!seed),
            ..Recorder::counting()
        };
        let last = moments.saturating_sub(LAST_MOMENTS);
        for _ in 0..RECOVERY_CASES {
            let anywhere = recorder.rng.u64(0..=moments);
            let at_the_end = recorder.rng.u64(last..=moments);
            recorder.noted.extend([anywhere, at_the_end]);
        }
        recorder
    }

    /// A step, or recovery, is acknowledged.
    fn next_step(&mut self) {
        self.done += 1;
        self.moments = 0;
        let bound = MOMENTS_OF_A_STEP[self.rng.usize(..MOMENTS_OF_A_STEP.len())];
        self.noted = BTreeSet::from([self.rng.u64(1..=bound)]);
    }

    /// Another moment has come; whether it is one of those to be noted.
    fn is_next_noted(&mut self, is_of_mark: bool) -> bool {
        self.moments += 1;
        let of_mark = is_of_mark && self.marks_rng.u8(..MARK_MOMENTS_ONE_IN) == 0;
        of_mark || self.noted.contains(&self.moments)
    }

    fn note(&mut self, pool: PoolState, side: &VolatileDisk, backing: &Backing, marks: &Backing) {
        self.cases.push(Case {
            pool,
            side: side.crash_state(),
            history: backing.look().expect("the scratch directory is readable"),
            mark: marks.look().expect("the mark's folder is readable"),
            mounting: backing.mounting(),
            has_short_log: self.has_short_log,
            done: self.done,
        });
    }
}

struct Watcher(Arc<Backing>);

impl Observer for Watcher {
    fn identity(&self, real: FileIdentity) -> Option<observe::SeenIdentity> {
        self.0.identity(real)
    }

    fn mounting(&self) -> u64 {
        self.0.mounting()
    }

    fn changed_ns(&self, real: FileIdentity, real_ns: i128) -> i128 {
        self.0.changed_ns(real, real_ns)
    }

    fn change_clock_ns(&self) -> Option<i128> {
        Observer::change_clock_ns(&*self.0)
    }

    fn booted_ns(&self) -> i128 {
        self.0.booted_ns()
    }

    fn before_sync(&self) {
        self.0.before_sync();
    }

    fn before_sync_of_all(&self) {
        self.0.before_sync_of_all();
    }

    fn synced(&self, what: observe::Synced) {
        self.0.synced(what);
    }

    fn failure(&self, file: FileIdentity) -> Option<io::Error> {
        self.0.before_write(file)
    }
}

/// Of two halves, each of which a few long values fill.
const SHORT_LOG_BYTES: u64 = 128 << 10;

/// What recovery makes of an image.
pub fn recover(
    env: &TestEnv,
    image: &Image,
    identities: &Identities,
    incarnation: u64,
) -> Result<Tree, String> {
    let machine = Machine::start(env, image.clone(), identities.clone());
    let mut machine = machine.map_err(|error| error.to_string())?;
    machine.recover(env, incarnation)?;
    machine.backing.tree().map_err(|error| error.to_string())
}

/// How many moments its recovery passes.
fn count_moments(env: &TestEnv, plan: &Plan) -> Result<u64, String> {
    let machine = Machine::start(env, plan.image.clone(), plan.identities.clone());
    let mut machine = machine.map_err(|error| error.to_string())?;
    let recorder = Arc::new(Mutex::new(Recorder::counting()));
    machine.record(&recorder);
    machine.fail_first(env, plan.seed, plan.number);
    machine.recover(env, plan.number)?;
    let moments = recorder.lock().moments;
    Ok(moments)
}

/// Runs it. The error is a violation in words.
pub fn run(env: &TestEnv, plan: Plan) -> Result<Incarnation, String> {
    let moments = count_moments(env, &plan)?;
    let has_short_log = plan.image.has_short_log;
    let keeps_names = matches!(plan.image.pool, PoolImage::Memory(_));
    let machine = Machine::start(env, plan.image, plan.identities);
    let mut machine = machine.map_err(|error| error.to_string())?;
    let recorder = Arc::new(Mutex::new(Recorder::new(plan.seed, moments, has_short_log)));
    machine.record(&recorder);
    let mut incarnation = Incarnation {
        cases: Vec::new(),
        models: Vec::new(),
        steps: Vec::new(),
        in_part: Vec::new(),
        settled: Vec::new(),
        keeps_names,
        identities: Identities::default(),
    };
    let mut rng = fastrand::Rng::with_seed(plan.seed ^ 0x5eed);
    let ran = caught(|| {
        machine.fail_first(env, plan.seed, plan.number);
        let opened = machine.open(env, plan.number);
        let buffer = opened.map_err(|error| format!("recovery: {error}"))?;
        let found = machine.backing.tree().map_err(|error| error.to_string())?;
        verify(&plan.legal, &found)?;
        incarnation.models.push(Model::of(&found));
        incarnation.settled.push(0);
        let mut worker = Worker::new(buffer, &env.root, &machine.backing);
        recorder.lock().next_step();
        let take = |incarnation: &mut Incarnation, worker: &mut Worker<'_>, step: Step| {
            let fails = matches!(step, Step::WorkFailing);
            machine.side.fail_next(0, u32::from(fails));
            let taken = incarnation.take_step(worker, step);
            machine.side.fail_next(0, 0);
            taken?;
            // What no moment in the pool comes between is still a change of the backing.
            let looked = machine.backing.look();
            looked.map_err(|error| error.to_string())?;
            recorder.lock().next_step();
            Ok::<(), String>(())
        };
        while incarnation.steps.len() < plan.steps {
            for step in script::draw(&mut rng, incarnation.newest(), &worker.open()) {
                let is_missing = match step {
                    Step::SetExtended(..) => !env.has_extended,
                    Step::GiveCapability(_) => !env.has_capabilities,
                    _ => false,
                };
                if is_missing {
                    continue;
                }
                take(&mut incarnation, &mut worker, step)?;
            }
        }
        if plan.ends {
            for step in script::ending(&mut rng, incarnation.newest()) {
                take(&mut incarnation, &mut worker, step)?;
            }
            let Machine { pool, side, .. } = &machine;
            recorder
                .lock()
                .note(pool.state(), side, &machine.backing, &machine.marks);
        }
        Ok(())
    });
    incarnation.cases = std::mem::take(&mut recorder.lock().cases);
    incarnation.identities = machine.backing.identities();
    ran.map(|()| incarnation)
}

impl Incarnation {
    fn newest(&self) -> &Model {
        self.models.last().expect("there is a first one")
    }

    fn take_step(&mut self, worker: &mut Worker<'_>, step: Step) -> Result<(), String> {
        let model = self.models.last().expect("there is a first one");
        let mut after = model.clone();
        let opened = script::apply(&step, &mut after);
        self.in_part.push(script::in_part(&step, model));
        self.steps.push(step.clone());
        let acted = worker.act(&step, opened, model);
        acted.map_err(|error| format!("{step:?}: {error}"))?;
        worker.read_all(&after)?;
        let last = self.settled.last().expect("there is a first one");
        self.settled
            .push(match self.keeps_names || settles_names(&step) {
                true => self.models.len(),
                false => *last,
            });
        self.models.push(after);
        Ok(())
    }

    /// What a crash at this moment may leave: what was acknowledged, or that with the step under way; of the names that were added
    /// since all were durable, the first ones.
    pub fn legal(&self, case: &Case, before: &[Model]) -> Vec<Model> {
        if case.done == 0 {
            return before.to_vec();
        }
        let last = &self.models[case.done - 1];
        let mut legal = vec![last.clone()];
        let in_part = self.in_part.get(case.done - 1);
        legal.extend(in_part.into_iter().flatten().cloned());
        let earlier = &self.models[self.settled[case.done - 1]..case.done - 1];
        let mut lost = Vec::new();
        for earlier in earlier.iter().filter(|one| one.names != last.names) {
            lost.extend(legal.iter().map(|model| model.with_names_of(earlier)));
        }
        lost.dedup();
        legal.extend(self.models.get(case.done).cloned());
        legal.append(&mut lost);
        legal
    }
}

/// Whether one of the models allows what was found.
pub fn verify(legal: &[Model], found: &Tree) -> Result<(), String> {
    let mut why = Vec::new();
    for model in legal {
        match model.allows(found) {
            Ok(()) => return Ok(()),
            Err(error) => why.push(error),
        }
    }
    Err(why.join("; or else: "))
}

/// What is done, or a panic, as words.
pub fn caught<T>(act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|panic| Err(format!("panic: {}", message_of(&*panic))))
}
