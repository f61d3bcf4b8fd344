//! A crash at every step, and what an opening makes of what it left.

use std::sync::{Arc, Mutex};

use forebay_pmem::shadow::{ShadowEvent, ShadowModel};

use super::world::{AllAlone, Disks, Image, ModelFiles, Promise, open, versions};
use crate::engine::{Engine, QuietTracker};
use crate::error::ErrorKind;
use crate::format::{Geometry, PAGE_BYTES};
use crate::recover::Permissions;

/// What is missing or old when the region is opened after the crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Harm {
    Nothing,
    /// This part and its sidecar.
    Gone(usize),
    /// This part alone.
    PartGone(usize),
    /// This sidecar alone.
    SidecarGone(usize),
    /// This sidecar is an older one.
    Stale(usize),
}

impl Harm {
    fn all(geometry: Geometry) -> Vec<Harm> {
        let roles = 0..geometry.roles();
        let mut harms = vec![Harm::Nothing];
        harms.extend(roles.clone().map(Harm::Gone));
        harms.extend(roles.clone().map(Harm::PartGone));
        harms.extend(roles.clone().map(Harm::SidecarGone));
        harms.extend(roles.map(Harm::Stale));
        harms
    }

    fn apply(self, image: &mut Image, old: &Image) {
        match self {
            Harm::Nothing => {}
            Harm::Gone(role) => {
                image.parts[role] = None;
                image.sidecars[role] = None;
            }
            Harm::PartGone(role) => image.parts[role] = None,
            Harm::SidecarGone(role) => image.sidecars[role] = None,
            Harm::Stale(role) => image.sidecars[role].clone_from(&old.sidecars[role]),
        }
    }
}

/// Looks at crashes: samples what each event's could leave, and opens that, whole and harmed.
pub struct Crashes {
    pub geometry: Geometry,
    pub model: ShadowModel,
    /// What the files were long before.
    pub old: Image,
    pub rng: fastrand::Rng,
    pub samples: usize,
    /// Looked at so far.
    pub looked_at: usize,
    /// What was found wrong.
    pub wrong: Vec<String>,
    /// Some of the images, to crash openings of.
    pub kept: Vec<(Image, Promise)>,
    keep_every: usize,
}

impl Crashes {
    pub fn new(geometry: Geometry, model: ShadowModel, old: Image, samples: usize) -> Crashes {
        Crashes {
            geometry,
            model,
            old,
            rng: fastrand::Rng::with_seed(5),
            samples,
            looked_at: 0,
            wrong: Vec::new(),
            kept: Vec::new(),
            keep_every: 97,
        }
    }

    fn look(&mut self, disks: &Disks, promise: &Promise) {
        for _ in 0..self.samples {
            let image = disks.sample(&mut self.rng);
            let harms = Harm::all(self.geometry);
            let harm = harms[self.rng.usize(..harms.len())];
            for harm in [Harm::Nothing, harm] {
                if self.wrong.len() >= 3 {
                    return;
                }
                self.looked_at += 1;
                let mut harmed = image.clone();
                harm.apply(&mut harmed, &self.old);
                if let Err(wrong) = check(self.geometry, self.model, &harmed, harm, promise) {
                    self.wrong.push(format!("{harm:?}: {wrong}"));
                }
                if self.looked_at.is_multiple_of(self.keep_every) {
                    self.kept.push((harmed, promise.clone()));
                }
            }
        }
    }
}

/// Has every store, flush and fence to these files looked at.
pub fn watch(
    crashes: &Arc<Mutex<Crashes>>,
    disks: &Arc<Mutex<Disks>>,
    promise: &Arc<Mutex<Promise>>,
) -> Arc<dyn Fn(ShadowEvent<'_>) + Send + Sync> {
    let (crashes, disks, promise) = (Arc::clone(crashes), Arc::clone(disks), Arc::clone(promise));
    let hook: Arc<dyn Fn(ShadowEvent<'_>) + Send + Sync> = Arc::new(move |_| {
        let promise = promise.lock().unwrap().clone();
        let disks = disks.lock().unwrap().clone();
        crashes.lock().unwrap().look(&disks, &promise);
    });
    hook
}

/// Sets the hook on all of them, or takes it away.
pub fn hook_all(disks: &Disks, hook: Option<&Arc<dyn Fn(ShadowEvent<'_>) + Send + Sync>>) {
    for shadow in disks.all() {
        shadow.set_hook(hook.cloned());
    }
}

/// Opens an image, and compares with what was promised.
pub fn check(
    geometry: Geometry,
    model: ShadowModel,
    image: &Image,
    harm: Harm,
    promise: &Promise,
) -> Result<(), String> {
    let disks = Arc::new(Mutex::new(Disks::of(image, model)));
    let files = ModelFiles::new(model, disks);
    let mut permissions = Permissions {
        without_missing: harm != Harm::Nothing,
        accept_loss: false,
    };
    let mut lost = Vec::new();
    let opened = loop {
        match open(&files, permissions) {
            Ok(opened) => break opened,
            Err(error) => match error.kind() {
                ErrorKind::Lost { offsets, pages, .. } if !permissions.accept_loss => {
                    assert!(*pages >= offsets.len() as u64);
                    lost.clone_from(offsets);
                    check_losses(geometry, harm, promise, offsets)?;
                    permissions.accept_loss = true;
                }
                _ => return Err(format!("not opened: {error}")),
            },
        }
    };
    let (medium, line) = opened;
    for page in 0..geometry.pages() {
        let (extent, row) = geometry.place(page);
        let mut bytes = [0; PAGE_BYTES as usize];
        medium.read_page(extent, row, &mut bytes);
        if lost.contains(&(page * PAGE_BYTES)) {
            if bytes.iter().any(|&byte| byte != 0) {
                return Err(format!("page {page} was accepted as lost, and is not zero"));
            }
            continue;
        }
        let (covered, latest) = (
            promise.covered[page as usize],
            promise.latest[page as usize],
        );
        match versions(page, &bytes) {
            Some((oldest, newest)) if oldest >= covered && newest <= latest => {}
            found => {
                return Err(format!(
                    "page {page} is of versions {found:?}, promised {covered} to {latest}"
                ));
            }
        }
    }
    // What was opened is consistent, and seals.
    let engine = Engine::new(medium, line, Box::new(QuietTracker), false);
    let all = 0..geometry.pages();
    let verified = engine.verify(&all).map_err(|error| error.to_string())?;
    if verified.looked_at != geometry.pages()
        || verified.repaired > 0
        || !verified.damaged.is_empty()
    {
        return Err(format!("not consistent after the opening: {verified:?}"));
    }
    let sealed = engine.seal(&|_| Ok(Box::new(AllAlone)));
    sealed
        .map(|_| ())
        .map_err(|error| format!("not sealed: {error}"))
}

/// Only pages of what is gone or old may be lost, and only if something was stored to their rows since it was covered.
fn check_losses(
    geometry: Geometry,
    harm: Harm,
    promise: &Promise,
    offsets: &[u64],
) -> Result<(), String> {
    let (Harm::Gone(role) | Harm::PartGone(role) | Harm::SidecarGone(role) | Harm::Stale(role)) =
        harm
    else {
        return Err(format!("{offsets:?} are lost, and nothing was missing"));
    };
    for offset in offsets {
        let (extent, row) = geometry.place(offset / PAGE_BYTES);
        let is_in_window = (0..geometry.extents()).any(|extent| {
            let page = geometry.page(extent, row) as usize;
            promise.latest[page] > promise.covered[page]
        });
        if extent != role || !is_in_window {
            return Err(format!(
                "the page at {offset} is lost, although its row was covered"
            ));
        }
    }
    Ok(())
}
