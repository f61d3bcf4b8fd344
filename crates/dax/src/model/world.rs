//! A region over models, with what its programs stored and what was promised of it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use forebay_pmem::Region;
use forebay_pmem::shadow::{Shadow, ShadowModel};

use super::tracker::{Known, KnownTracker};
use crate::engine::{Alone, Engine, FirstPass, format};
use crate::error::Result;
use crate::format::{Geometry, Line, PAGE_BYTES};
use crate::medium::{Medium, Part, Sidecar};
use crate::recover::{self, Files, FoundPair, Permissions};

pub const POOL: [u8; 16] = [3; 16];
pub const NAME: &str = "r";
const PAGE: usize = PAGE_BYTES as usize;

/// What the files of a region hold, by role; none: not there.
#[derive(Clone)]
pub struct Image {
    pub parts: Vec<Option<Vec<u8>>>,
    pub sidecars: Vec<Option<Vec<u8>>>,
}

/// The same as models.
#[derive(Clone, Default)]
pub struct Disks {
    pub parts: Vec<Option<Arc<Shadow>>>,
    pub sidecars: Vec<Option<Arc<Shadow>>>,
}

impl Disks {
    pub fn of(image: &Image, model: ShadowModel) -> Disks {
        let shadows = |images: &Vec<Option<Vec<u8>>>| -> Vec<Option<Arc<Shadow>>> {
            let images = images.iter();
            images
                .map(|image| Some(Arc::new(Shadow::from_image(image.as_ref()?, model))))
                .collect()
        };
        Disks {
            parts: shadows(&image.parts),
            sidecars: shadows(&image.sidecars),
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Shadow>> {
        self.parts.iter().chain(&self.sidecars).flatten()
    }

    /// What a crash now could leave of all of it.
    pub fn sample(&self, rng: &mut fastrand::Rng) -> Image {
        let mut images = |shadows: &Vec<Option<Arc<Shadow>>>| -> Vec<Option<Vec<u8>>> {
            let shadows = shadows.iter();
            shadows
                .map(|shadow| Some(shadow.as_ref()?.crash_state().sample(rng)))
                .collect()
        };
        Image {
            parts: images(&self.parts),
            sidecars: images(&self.sidecars),
        }
    }
}

pub fn part_path(role: usize) -> PathBuf {
    PathBuf::from(format!("/m{role}.dax/r"))
}

/// What programs stored, and what was promised: versions of each page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    pub latest: Vec<u64>,
    /// By a pass: what a crash and a dead file leave.
    pub covered: Vec<u64>,
    /// By the program itself, with flushes and a fence of its own: what a crash leaves, and what is not given back of an
    /// extent that is gone has to be named.
    pub persisted: Vec<u64>,
    /// Pages that a caller was told are unverified or lost.
    pub named: Vec<bool>,
}

impl Promise {
    /// Nothing was stored, and all of it is as it should be.
    pub fn new(geometry: Geometry) -> Promise {
        let pages = geometry.pages() as usize;
        Promise {
            latest: vec![0; pages],
            covered: vec![0; pages],
            persisted: vec![0; pages],
            named: vec![false; pages],
        }
    }
}

/// Called with each file that is made.
pub type OnMade = Box<dyn Fn(&Arc<Shadow>)>;

/// Makes the files that are missing, and lets a test see them at once.
pub struct ModelFiles {
    model: ShadowModel,
    pub disks: Arc<Mutex<Disks>>,
    /// Not yet found by an opening.
    pending: Mutex<Vec<(usize, Arc<Shadow>)>>,
    pub on_made: OnMade,
}

impl ModelFiles {
    pub fn new(model: ShadowModel, disks: Arc<Mutex<Disks>>) -> ModelFiles {
        ModelFiles {
            model,
            disks,
            pending: Mutex::default(),
            on_made: Box::new(|_| {}),
        }
    }

    fn make(&self, len: u64) -> Arc<Shadow> {
        let shadow = Arc::new(Shadow::new(len, self.model));
        (self.on_made)(&shadow);
        shadow
    }
}

impl Files for ModelFiles {
    fn lone_part(&self, role: usize, _: &Line) -> Result<Option<Part>> {
        let disks = self.disks.lock().unwrap();
        let part = disks.parts[role].clone();
        Ok(part.map(|shadow| Part::new(Region::on_shadow(shadow), part_path(role))))
    }

    fn places(&self, roles: &[usize], _: &Line) -> Result<Vec<PathBuf>> {
        Ok(roles.iter().map(|&role| part_path(role)).collect())
    }

    fn make_part(&self, role: usize, line: &Line) -> Result<Part> {
        let shadow = self.make(line.geometry.extent_bytes());
        self.pending
            .lock()
            .unwrap()
            .push((role, Arc::clone(&shadow)));
        Ok(Part::new(Region::on_shadow(shadow), part_path(role)))
    }

    fn install_part(&self, part: &Part) -> Result<()> {
        let mut pending = self.pending.lock().unwrap();
        let at = pending
            .iter()
            .position(|(role, _)| part_path(*role) == part.path);
        let (role, shadow) = pending.remove(at.expect("it was made here"));
        self.disks.lock().unwrap().parts[role] = Some(shadow);
        Ok(())
    }

    fn make_sidecar(&self, role: usize, line: &Line) -> Result<Sidecar> {
        let shadow = self.make(line.geometry.sidecar_bytes(role));
        self.disks.lock().unwrap().sidecars[role] = Some(Arc::clone(&shadow));
        Ok(Sidecar::new(Region::on_shadow(shadow), part_path(role)))
    }
}

/// Opens what is there.
pub fn open(files: &ModelFiles, permissions: Permissions) -> Result<(Medium, Line)> {
    let disks = files.disks.lock().unwrap().clone();
    let mut found = Vec::new();
    for (role, sidecar) in disks.sidecars.iter().enumerate() {
        let Some(sidecar) = sidecar else { continue };
        let part = disks.parts[role].clone();
        found.push(FoundPair {
            sidecar: Sidecar::new(Region::on_shadow(Arc::clone(sidecar)), part_path(role)),
            part: part.map(|part| Part::new(Region::on_shadow(part), part_path(role))),
            part_path: part_path(role),
        });
    }
    recover::open(found, POOL, NAME, files, permissions)
}

/// Blank files of a region of this shape, as models.
pub fn blank(geometry: Geometry, model: ShadowModel) -> Disks {
    let parts = (0..geometry.roles()).map(|_| geometry.extent_bytes());
    let sidecars = (0..geometry.roles()).map(|role| geometry.sidecar_bytes(role));
    let shadow = |len| Some(Arc::new(Shadow::new(len, model)));
    Disks {
        parts: parts.map(shadow).collect(),
        sidecars: sidecars.map(shadow).collect(),
    }
}

/// The same as a medium.
pub fn medium_of(geometry: Geometry, disks: &Disks) -> Medium {
    let region = |shadow: &Option<Arc<Shadow>>| Region::on_shadow(shadow.clone().unwrap());
    let roles = 0..geometry.roles();
    Medium {
        geometry,
        parts: roles
            .clone()
            .map(|role| Part::new(region(&disks.parts[role]), part_path(role)))
            .collect(),
        sidecars: roles
            .map(|role| Sidecar::new(region(&disks.sidecars[role]), part_path(role)))
            .collect(),
    }
}

/// Nobody else is there.
pub struct AllAlone;

impl Alone for AllAlone {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// An open region and its programs.
pub struct World {
    pub engine: Engine,
    pub known: Arc<Known>,
    pub disks: Arc<Mutex<Disks>>,
    pub promise: Arc<Mutex<Promise>>,
}

impl World {
    /// A new region of so many rows, opened.
    pub fn new(width: u32, rows: u64, model: ShadowModel) -> World {
        let size = u64::from(width) * rows * PAGE_BYTES;
        let geometry = Geometry::new(size, width).unwrap();
        let disks = blank(geometry, model);
        format(&medium_of(geometry, &disks), POOL, NAME).unwrap();
        World::open(disks, model, Promise::new(geometry)).unwrap()
    }

    pub fn open(disks: Disks, model: ShadowModel, promise: Promise) -> Result<World> {
        let disks = Arc::new(Mutex::new(disks));
        let files = ModelFiles::new(model, Arc::clone(&disks));
        let (medium, line) = open(&files, Permissions::default())?;
        let known = Arc::new(Known::default());
        let tracker = Box::new(KnownTracker(Arc::clone(&known)));
        Ok(World {
            engine: Engine::new(medium, line, tracker, FirstPass::Tracked),
            known,
            disks,
            promise: Arc::new(Mutex::new(promise)),
        })
    }

    pub fn geometry(&self) -> Geometry {
        self.engine.medium.geometry
    }

    /// What stores to a page, whoever calls it when.
    pub fn writer(&self) -> impl Fn(u64) + Send + use<> {
        let (known, promise) = (Arc::clone(&self.known), Arc::clone(&self.promise));
        let parts = self.disks.lock().unwrap().parts.clone();
        let geometry = self.geometry();
        move |page| {
            assert!(!known.is_held.load(std::sync::atomic::Ordering::Relaxed));
            let version = {
                let mut promise = promise.lock().unwrap();
                promise.latest[page as usize] += 1;
                promise.latest[page as usize]
            };
            let (extent, row) = geometry.place(page);
            let bytes = content(page, version);
            known.wrote(page);
            parts[extent]
                .as_ref()
                .unwrap()
                .store(row * PAGE_BYTES, &bytes);
        }
    }

    pub fn store(&self, page: u64) {
        self.writer()(page);
    }

    /// A program stores to a page, and makes that durable by itself.
    pub fn persist(&self, page: u64) {
        self.store(page);
        let (extent, row) = self.geometry().place(page);
        let part = self.disks.lock().unwrap().parts[extent].clone().unwrap();
        part.flush(row * PAGE_BYTES, PAGE);
        part.fence().unwrap();
        let mut promise = self.promise.lock().unwrap();
        promise.persisted[page as usize] = promise.latest[page as usize];
    }

    /// A pass, after which all that rests is promised.
    pub fn pass(&self) {
        self.engine.pass().unwrap();
        self.promise_all();
    }

    pub fn promise_all(&self) {
        let mut promise = self.promise.lock().unwrap();
        for page in 0..promise.latest.len() {
            if !self.known.is_written(page as u64) && !self.engine.is_waiting(page as u64) {
                promise.covered[page] = promise.latest[page];
            }
        }
    }

    /// Seals the region; gives back its files and what was promised.
    pub fn seal(self) -> Result<(Disks, Promise)> {
        self.engine.pass()?;
        self.promise_all();
        assert!(self.engine.has_seen_all());
        let engine = self
            .engine
            .with_tracker(Box::new(crate::engine::QuietTracker));
        engine.seal(&|_| Ok(Box::new(AllAlone)))?;
        let promise = self.promise.lock().unwrap().clone();
        Ok((self.disks.lock().unwrap().clone(), promise))
    }
}

/// The bytes of a version of a page: every word says what it is of.
pub fn content(page: u64, version: u64) -> [u8; PAGE] {
    let mut bytes = [0; PAGE];
    if version > 0 {
        for (word, at) in bytes.chunks_exact_mut(8).zip(0u64..) {
            word.copy_from_slice(&(version << 40 | page << 16 | at).to_le_bytes());
        }
    }
    bytes
}

/// The oldest and the newest version that a page has words of; none where a word is of no version of it.
pub fn versions(page: u64, bytes: &[u8]) -> Option<(u64, u64)> {
    let mut found = (u64::MAX, 0);
    for (word, at) in bytes.chunks_exact(8).zip(0u64..) {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        let version = word >> 40;
        if word != 0 && word != version << 40 | page << 16 | at {
            return None;
        }
        found = (found.0.min(version), found.1.max(version));
    }
    Some(found)
}
