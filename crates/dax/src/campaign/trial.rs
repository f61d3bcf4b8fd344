//! One trial: processes that have a region one after the other, and one fault below them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use forebay_pmem::shadow::{Shadow, ShadowModel};

use super::ground::{End, Ground};
use super::judge;
use super::kinds::{Kind, combination};
use super::place::place;
use super::told::Outcome;
use crate::engine::{Engine, FirstPass, QuietTracker};
use crate::error::{ErrorKind, Result};
use crate::medium::Medium;
use crate::model::tracker::{Known, KnownTracker};
use crate::model::world::{AllAlone, Disks, ModelFiles, World, open};
use crate::recover::Permissions;
use crate::report::Verified;

struct Trial {
    rng: fastrand::Rng,
    ground: Ground,
    /// A pair is gone: openings go on without it.
    is_missing: bool,
    /// The pair that went, as it was.
    old: Option<[Vec<u8>; 2]>,
    /// The medium failed: nothing more can be done with the region by this process.
    is_over: bool,
}

/// Runs the trial of this number.
pub fn run(number: u64, tells: bool) -> Outcome {
    let what = combination(number);
    let mut rng = fastrand::Rng::with_seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (width, rows) = (rng.u32(1..=3), [8, 12][rng.usize(..2)]);
    let model = [ShadowModel::Lines, ShadowModel::Pages][rng.usize(..2)];
    let world = World::new(width, rows, model);
    let pages = world.geometry().pages() as usize;
    let mut outcome = Outcome::new(what, tells);
    outcome.tell(|| format!("width {width}, {rows} rows, {model:?}"));
    let mut trial = Trial {
        ground: Ground {
            model,
            geometry: world.geometry(),
            disks: Disks::default(),
            promise: world.promise.lock().expect("nobody panicked").clone(),
            end: End::Sealed,
            bytes: vec![vec![0; super::ground::PAGE]; pages],
            oldest: vec![0; pages],
            epoch: 0,
            seen: vec![0; pages],
            garbage: vec![false; pages],
            placed: None,
            rests: false,
            has_crashed: false,
            outcome,
        },
        rng,
        is_missing: false,
        old: None,
        is_over: false,
    };
    trial.first(world);
    trial.ground.outcome
}

impl Trial {
    fn first(&mut self, world: World) {
        let kind = self.ground.outcome.what.0;
        let strikes_in = self.rng.usize(..2);
        let more = match kind {
            Kind::DeadPair => 1,
            Kind::OldPair => 2,
            _ => self.rng.usize(..2),
        };
        self.ground.observe(&world);
        let mut world = Some(world);
        for turn in 0..=strikes_in + more {
            let Some(open) = world.take().or_else(|| self.open()) else {
                return;
            };
            let is_last = turn == strikes_in + more;
            self.work(&open, turn == strikes_in);
            if is_last {
                self.look_at_all(&open);
            }
            self.end(open);
            self.change_files(turn, strikes_in);
        }
        if let Some(world) = self.open() {
            self.look_at_all(&world);
            self.end(world);
        }
        if let Some(world) = self.open() {
            self.look_at_all(&world);
        }
    }

    /// Opens the region; none if it stays closed, which is told or wrong.
    fn open(&mut self) -> Option<World> {
        if self.ground.outcome.wrong.is_some() {
            return None;
        }
        self.is_over = false;
        let disks = Arc::new(Mutex::new(self.ground.disks.clone()));
        let files = ModelFiles::new(self.ground.model, Arc::clone(&disks));
        let mut permissions = Permissions {
            without_missing: false,
            accept_loss: false,
        };
        let mut lost = Vec::new();
        let (medium, line) = loop {
            let opened = open(&files, permissions);
            let Err(error) = opened else {
                break opened.ok()?;
            };
            match error.kind() {
                ErrorKind::Missing { .. } if self.is_missing && !permissions.without_missing => {
                    self.ground.outcome.says(|| error.to_string());
                    permissions.without_missing = true;
                }
                ErrorKind::Lost { offsets, .. } if !permissions.accept_loss => {
                    lost.clone_from(offsets);
                    judge::losses(&mut self.ground, offsets);
                    permissions.accept_loss = true;
                }
                ErrorKind::Media(_)
                    if self.ground.outcome.what.0 == Kind::Poison
                        && !permissions.without_missing =>
                {
                    self.ground.outcome.says(|| error.to_string());
                    let role = self.ground.placed.as_ref().map_or(0, |placed| placed.role);
                    let mut disks = disks.lock().expect("nobody panicked");
                    (disks.parts[role], disks.sidecars[role]) = (None, None);
                    permissions.without_missing = true;
                }
                _ => {
                    self.ground
                        .outcome
                        .is_wrong(|| format!("not opened: {error}"));
                    return None;
                }
            }
        };
        self.ground.disks = disks.lock().expect("nobody panicked").clone();
        self.ground.note_strike(|_| false);
        let was_missing = permissions.without_missing || self.is_returned();
        let epoch = line.generation.epoch();
        if epoch > self.ground.epoch {
            self.ground.outcome.says(|| "a file was behind".to_owned());
        }
        self.ground.epoch = epoch;
        judge::opened(&mut self.ground, &medium, &lost, was_missing);
        self.is_missing = false;
        Some(self.world(medium, line))
    }

    /// Whether a pair is there as it was before.
    fn is_returned(&self) -> bool {
        self.ground.outcome.what.0 == Kind::OldPair
            && self.ground.outcome.is_struck
            && self.old.is_none()
    }

    fn world(&self, medium: Medium, line: crate::format::Line) -> World {
        let known = Arc::new(Known::default());
        let tracker = Box::new(KnownTracker(Arc::clone(&known)));
        World {
            engine: Engine::new(medium, line, tracker, FirstPass::Tracked),
            known,
            disks: Arc::new(Mutex::new(self.ground.disks.clone())),
            promise: Arc::new(Mutex::new(self.ground.promise.clone())),
        }
    }

    fn work(&mut self, world: &World, strikes: bool) {
        let steps = self.rng.usize(3..12);
        let strikes_at = self.rng.usize(..steps);
        world
            .known
            .can_hold
            .store(self.rng.bool(), Ordering::Relaxed);
        for step in 0..steps {
            if strikes && step == strikes_at {
                self.strike(world);
            }
            self.step(world);
            self.ground.observe(world);
            if self.is_over || self.ground.outcome.wrong.is_some() {
                return;
            }
        }
    }

    fn strike(&mut self, world: &World) {
        let what = self.ground.outcome.what;
        if matches!(what.0, Kind::Nothing | Kind::DeadPair | Kind::OldPair) {
            return;
        }
        let (geometry, model) = (self.ground.geometry, self.ground.model);
        let placed = place(&mut self.rng, what, geometry, model);
        let row = placed.rows.first().copied();
        self.ground.inject(placed);
        self.ground.observe(world);
        let is_write = matches!(
            what.0,
            Kind::LostWrite | Kind::MisdirectedWrite | Kind::TornWrite
        );
        if let Some(row) = row.filter(|_| is_write && self.rng.u8(..4) > 0) {
            let page = geometry.page(self.rng.usize(..geometry.extents()), row);
            world.store(page);
            self.ground.observe(world);
            self.pass(world);
            self.ground.observe(world);
        }
    }

    fn step(&mut self, world: &World) {
        let pages = self.ground.geometry.pages();
        let page = self.rng.u64(..pages);
        let what = self.rng.u8(..20);
        self.ground
            .outcome
            .tell(|| format!("step {what}, page {page}"));
        match what {
            0..=7 if self.ground.is_page_lost(page) => {}
            0..=5 => world.store(page),
            6..=7 => world.persist(page),
            8..=11 => self.pass(world),
            12 => self.hot(world, page),
            13 => {
                let end = self.rng.u64(page..pages) + 1;
                let synced = world.engine.sync(&(page..end));
                self.note(synced);
                world.promise_all();
            }
            14..=15 => {
                self.verify(world);
            }
            16..=17 => self.evict(),
            _ => {
                let files: Vec<_> = self.ground.disks.all().cloned().collect();
                let file = &files[self.rng.usize(..files.len())];
                file.evict(0, file.len());
            }
        }
    }

    fn pass(&mut self, world: &World) {
        let passed = world.engine.pass();
        self.note(passed);
        world.promise_all();
    }

    /// A page that is stored to whenever it is looked at, until its writers are held.
    fn hot(&mut self, world: &World, page: u64) {
        if self.ground.is_page_lost(page) {
            return;
        }
        let (store, known) = (world.writer(), Arc::clone(&world.known));
        let mut left = self.rng.u8(1..4);
        *world.known.before_peek.lock().expect("nobody panicked") = Some(Box::new(move || {
            if left > 0 && !known.is_held.load(Ordering::Relaxed) {
                left -= 1;
                store(page);
            }
        }));
        world.store(page);
        self.pass(world);
        self.pass(world);
        *world.known.before_peek.lock().expect("nobody panicked") = None;
    }

    fn evict(&self) {
        for file in self.ground.disks.all() {
            file.evict(0, file.len());
        }
    }

    fn verify(&mut self, world: &World) -> Verified {
        let all = 0..self.ground.geometry.pages();
        match world.engine.verify(&all) {
            Ok(verified) => {
                if verified.repaired > 0 || !verified.damaged.is_empty() {
                    self.ground.observe(world);
                    self.ground.outcome.says(|| format!("{verified:?}"));
                }
                verified
            }
            Err(error) => {
                self.note(Err(error));
                Verified::default()
            }
        }
    }

    /// Nothing fails for nothing.
    fn note(&mut self, done: Result<()>) {
        let Err(error) = done else { return };
        self.ground.note_strike(|_| true);
        self.is_over |= matches!(error.kind(), ErrorKind::Media(_));
        self.ground.outcome.says(|| error.to_string());
    }

    /// Caches forget, passes cover what waits, everything is compared and repaired, and compared once more.
    fn look_at_all(&mut self, world: &World) {
        world.known.can_hold.store(true, Ordering::Relaxed);
        let mut last = Verified::default();
        for _ in 0..2 {
            for _ in 0..2 {
                self.evict();
                self.ground.observe(world);
                self.pass(world);
                self.ground.observe(world);
                if self.is_over || self.ground.outcome.wrong.is_some() {
                    return;
                }
            }
            self.evict();
            self.ground.observe(world);
            last = self.verify(world);
            self.ground.observe(world);
            if self.is_over || self.ground.outcome.wrong.is_some() {
                return;
            }
        }
        self.evict();
        self.ground.observe(world);
        judge::looked(&mut self.ground, world, &last);
    }

    /// Ends the process: in order, by a kill, or with the power.
    fn end(&mut self, world: World) {
        let end = match self.rng.u8(..4) {
            0..=1 if !self.is_over => self.seal(world),
            3 => End::PowerCut,
            _ => End::Killed,
        };
        self.ground.note_strike(|_| false);
        self.ground.ended(end, &mut self.rng);
    }

    fn seal(&mut self, world: World) -> End {
        self.pass(&world);
        self.ground.observe(&world);
        if self.is_over || !world.engine.has_seen_all() {
            return End::Killed;
        }
        let engine = world.engine.with_tracker(Box::new(QuietTracker));
        let sealed = engine.seal(&|_| Ok(Box::new(AllAlone)));
        match sealed {
            Ok(sealed) => {
                if sealed.repaired_pages > 0 {
                    self.ground.note_strike(|_| true);
                    self.ground.outcome.says(|| format!("{sealed:?}"));
                }
                let latest = &self.ground.promise.latest;
                self.ground.promise.covered.clone_from(latest);
                self.ground.promise_what_is_there();
                End::Sealed
            }
            Err(error) => {
                self.note(Err(error));
                End::Killed
            }
        }
    }

    /// A pair goes, or comes back.
    fn change_files(&mut self, turn: usize, strikes_in: usize) {
        let what = self.ground.outcome.what;
        if !matches!(what.0, Kind::DeadPair | Kind::OldPair) {
            return;
        }
        if turn == strikes_in {
            let (geometry, model) = (self.ground.geometry, self.ground.model);
            let placed = place(&mut self.rng, what, geometry, model);
            let role = placed.role;
            let image = self.ground.disks.sample(&mut self.rng);
            self.old = image.parts[role]
                .clone()
                .zip(image.sidecars[role].clone())
                .map(|(part, sidecar)| [part, sidecar]);
            self.ground.outcome.tell(|| format!("role {role} is gone"));
            self.ground.disks.parts[role] = None;
            self.ground.disks.sidecars[role] = None;
            self.ground.placed = Some(placed);
            self.ground.outcome.is_struck = true;
            self.is_missing = true;
        } else if turn == strikes_in + 1 && what.0 == Kind::OldPair {
            let role = self.ground.placed.as_ref().map_or(0, |placed| placed.role);
            let Some([part, sidecar]) = self.old.take() else {
                return;
            };
            let shadow =
                |image: &[u8]| Some(Arc::new(Shadow::from_image(image, self.ground.model)));
            self.ground.outcome.tell(|| format!("role {role} returns"));
            self.ground.disks.parts[role] = shadow(&part);
            self.ground.disks.sidecars[role] = shadow(&sidecar);
            self.ground.outcome.is_found = false;
        }
    }
}
