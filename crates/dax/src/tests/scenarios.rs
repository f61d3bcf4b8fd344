//! What programs do to a region while every step is crashed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use forebay_pmem::shadow::{ShadowHook, ShadowModel};

use super::crash::{Crashes, Harm, check, hook_all, watch};
use crate::engine::{Engine, FirstPass, QuietTracker, format};
use crate::error::ErrorKind;
use crate::format::Geometry;
use crate::model::world::{Disks, Image, ModelFiles, POOL, Promise, World, blank, medium_of, open};
use crate::recover::Permissions;

const ROWS: u64 = 8;

/// What is durable of all files, as an image.
fn settled(disks: &Disks) -> Image {
    Image {
        parts: durable(&disks.parts),
        sidecars: durable(&disks.sidecars),
    }
}

fn durable(shadows: &[Option<Arc<forebay_pmem::shadow::Shadow>>]) -> Vec<Option<Vec<u8>>> {
    let shadows = shadows.iter();
    shadows
        .map(|shadow| Some(shadow.as_ref()?.crash_state().durable().to_vec()))
        .collect()
}

/// A world that is watched.
pub struct Watched {
    pub world: World,
    pub crashes: Arc<Mutex<Crashes>>,
}

impl Watched {
    /// A region that was covered once, closed and opened, and was open twice before.
    pub fn new(width: u32, model: ShadowModel, samples: usize) -> Watched {
        let world = World::new(width, ROWS, model);
        let old = settled(&world.disks.lock().unwrap());
        for page in 0..world.geometry().pages() {
            if page % 3 > 0 {
                world.store(page);
            }
        }
        world.pass();
        let geometry = world.geometry();
        let mut ended = world.seal().unwrap();
        for _ in 0..2 {
            ended = World::open(ended.0, model, ended.1)
                .unwrap()
                .seal()
                .unwrap();
        }
        let crashes = Crashes::new(geometry, model, old, samples);
        let world = World::open(ended.0, model, ended.1).unwrap();
        let watched = Watched {
            world,
            crashes: Arc::new(Mutex::new(crashes)),
        };
        watched.watch();
        watched
    }

    fn watch(&self) {
        let hook = watch(&self.crashes, &self.world.disks, &self.world.promise);
        hook_all(&self.world.disks.lock().unwrap(), Some(&hook));
    }

    /// What was found wrong; how many openings there were.
    pub fn end(&self) -> (Vec<String>, usize) {
        hook_all(&self.world.disks.lock().unwrap(), None);
        let crashes = self.crashes.lock().unwrap();
        (crashes.wrong.clone(), crashes.looked_at)
    }
}

/// Stores, passes, stores in between, a sync, pages that never rest.
pub fn passes(width: u32, model: ShadowModel, samples: usize) -> (Vec<String>, usize) {
    let watched = Watched::new(width, model, samples);
    let world = &watched.world;
    for page in [0, 1, 5] {
        world.store(page);
    }
    world.pass();
    world.store(5);
    world.store(2);
    // A store between the scan and the copy.
    let store = world.writer();
    *world.known.after_take.lock().unwrap() = Some(Box::new(move || store(3)));
    world.pass();
    world.pass();
    // One between the copy and the second look, twice, so that the row comes with the third pass.
    let store = world.writer();
    let mut left = 2;
    *world.known.before_peek.lock().unwrap() = Some(Box::new(move || {
        if left > 0 {
            left -= 1;
            store(5);
        }
    }));
    world.store(5);
    for _ in 0..3 {
        world.pass();
    }
    world.store(7);
    world.engine.sync(&(7..8)).unwrap();
    world.promise_all();
    world.persist(6);
    world.persist(0);
    world.pass();
    world.store(1);
    watched.end()
}

/// Every page that is looked at is stored to again, until its writers are held.
pub fn hot(width: u32, model: ShadowModel, samples: usize) -> (Vec<String>, usize) {
    let watched = Watched::new(width, model, samples);
    let world = &watched.world;
    world.known.can_hold.store(true, Ordering::Relaxed);
    let store = world.writer();
    let known = Arc::clone(&world.known);
    *world.known.before_peek.lock().unwrap() = Some(Box::new(move || {
        if !known.is_held.load(Ordering::Relaxed) {
            store(4);
        }
    }));
    world.store(4);
    for _ in 0..5 {
        world.pass();
    }
    world.engine.sync(&(4..5)).unwrap();
    assert!(world.engine.status().counts.held_pages >= u64::from(width));
    watched.end()
}

/// The last stores, and the seal.
pub fn sealing(width: u32, model: ShadowModel, samples: usize) -> (Vec<String>, usize) {
    let watched = Watched::new(width, model, samples);
    for page in [1, 6] {
        watched.world.store(page);
    }
    let Watched { world, crashes } = watched;
    let ended = world.seal().unwrap();
    hook_all(&ended.0, None);
    let found = crashes.lock().unwrap();
    (found.wrong.clone(), found.looked_at)
}

/// Openings of what crashes left, crashed themselves.
pub fn openings(width: u32, model: ShadowModel, samples: usize) -> (Vec<String>, usize) {
    let watched = Watched::new(width, model, 2);
    watched.crashes.lock().unwrap().rng = fastrand::Rng::with_seed(9);
    for round in 0..3 {
        for page in [0, 1, 5] {
            watched.world.store(page);
        }
        watched.world.persist(7);
        if round < 2 {
            watched.world.pass();
        }
    }
    let (wrong, _) = watched.end();
    let geometry = watched.world.geometry();
    let disks = watched.world.disks.lock().unwrap().clone();
    let promise = watched.world.promise.lock().unwrap().clone();
    let mut found = (wrong, 0);
    let mut rng = fastrand::Rng::with_seed(11);
    for role in [None, Some(0), Some(geometry.parity_role())] {
        for _ in 0..samples {
            let mut image = disks.sample(&mut rng);
            if let Some(role) = role {
                image.parts[role] = None;
                if rng.bool() {
                    image.sidecars[role] = None;
                }
            }
            let (wrong, looked_at) = opening(geometry, model, image, role, &promise);
            found.0.extend(wrong);
            found.1 += looked_at;
        }
    }
    found
}

/// One opening of an image that lacks a role, crashed at every step.
fn opening(
    geometry: Geometry,
    model: ShadowModel,
    image: Image,
    role: Option<usize>,
    promise: &Promise,
) -> (Vec<String>, usize) {
    let disks = Arc::new(Mutex::new(Disks::of(&image, model)));
    let wrong = Arc::new(Mutex::new((Vec::new(), 0)));
    let rng = Mutex::new(fastrand::Rng::with_seed(13));
    let hook: ShadowHook = {
        let (disks, wrong, promise) = (Arc::clone(&disks), Arc::clone(&wrong), promise.clone());
        Arc::new(move |_| {
            let left = disks.lock().unwrap().sample(&mut rng.lock().unwrap());
            let harm = role.map_or(Harm::Nothing, Harm::Gone);
            let mut wrong = wrong.lock().unwrap();
            wrong.1 += 1;
            // Pages that were lost already are lost still, and zero where that was accepted.
            match check(geometry, model, &left, harm, &promise) {
                Err(found) if wrong.0.len() < 3 => wrong.0.push(format!("{harm:?}: {found}")),
                _ => {}
            }
        })
    };
    hook_all(&disks.lock().unwrap(), Some(&hook));
    let mut files = ModelFiles::new(model, Arc::clone(&disks));
    let own = Arc::clone(&hook);
    files.on_made = Box::new(move |shadow| shadow.set_hook(Some(Arc::clone(&own))));
    let permissions = Permissions {
        without_missing: role.is_some(),
        accept_loss: false,
    };
    let opened = open(&files, permissions);
    hook_all(&disks.lock().unwrap(), None);
    let (mut found, looked_at) = wrong.lock().unwrap().clone();
    match opened {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::Lost { .. }) => {}
        Err(error) => found.push(format!("{role:?}: {error}")),
    }
    (found, looked_at)
}

/// The creation: what it left is a region of zeroes, or none.
pub fn creation(width: u32, model: ShadowModel, samples: usize) -> (Vec<String>, usize) {
    let geometry = Geometry::new(u64::from(width) * ROWS * 4096, width).unwrap();
    let disks = blank(geometry, model);
    let nothing = Promise::new(geometry);
    let found = Arc::new(Mutex::new((Vec::new(), 0)));
    let hook: ShadowHook = {
        let (disks, found) = (disks.clone(), Arc::clone(&found));
        let rng = Mutex::new(fastrand::Rng::with_seed(17));
        Arc::new(move |_| {
            for _ in 0..samples {
                let left = disks.sample(&mut rng.lock().unwrap());
                let mut found = found.lock().unwrap();
                found.1 += 1;
                match check(geometry, model, &left, Harm::Nothing, &nothing) {
                    Err(wrong) if !wrong.contains("its creation did not end") => {
                        found.0.push(wrong);
                    }
                    _ => {}
                }
            }
        })
    };
    hook_all(&disks, Some(&hook));
    format(&medium_of(geometry, &disks), POOL, "r").unwrap();
    hook_all(&disks, None);
    let found = found.lock().unwrap();
    found.clone()
}

/// Repairs by `verify`, crashed: a page, a parity page and a sum that a bit was turned over in.
pub fn repairs(width: u32, model: ShadowModel, samples: usize) -> (Vec<String>, usize) {
    use forebay_pmem::shadow::Fault;
    let watched = Watched::new(width, model, samples);
    hook_all(&watched.world.disks.lock().unwrap(), None);
    let Watched { world, crashes } = watched;
    let geometry = world.geometry();
    let (disks, promise) = world.seal().unwrap();
    let flip = |shadow: &Option<Arc<forebay_pmem::shadow::Shadow>>, offset| {
        let shadow = shadow.as_ref().unwrap();
        shadow.inject(Fault::BitFlip { offset, bit: 5 });
    };
    let world = World::open(disks.clone(), model, promise).unwrap();
    flip(&disks.parts[0], 4096 + 77);
    flip(&disks.parts[geometry.parity_role()], 3 * 4096 + 7);
    flip(&disks.sidecars[0], 2 * 4096 + 2 * 8);
    let hook = watch(&crashes, &world.disks, &world.promise);
    // A flip and a crash without order: a page that is flipped is taken as written. So only the rest is looked at.
    let engine = Engine::new(
        world.engine.medium,
        line_of(&disks, model),
        Box::new(QuietTracker),
        FirstPass::Tracked,
    );
    let verified = engine.verify(&(0..geometry.pages())).unwrap();
    assert_eq!((verified.repaired, &verified.damaged[..]), (3, &[][..]));
    hook_all(&disks, Some(&hook));
    let again = engine.verify(&(0..geometry.pages())).unwrap();
    assert_eq!(again.repaired, 0);
    hook_all(&disks, None);
    let found = crashes.lock().unwrap();
    (found.wrong.clone(), found.looked_at)
}

fn line_of(disks: &Disks, model: ShadowModel) -> crate::format::Line {
    let disks = Disks::of(&settled(disks), model);
    let files = ModelFiles::new(model, Arc::new(Mutex::new(disks)));
    open(&files, Permissions::default()).unwrap().1
}
