//! A crash at every step, and what an opening makes of what it left.

use std::sync::{Arc, Mutex};

use forebay_pmem::shadow::{ShadowHook, ShadowModel};

use crate::engine::{Engine, FirstPass, QuietTracker};
use crate::error::ErrorKind;
use crate::format::{Geometry, PAGE_BYTES};
use crate::model::world::{AllAlone, Disks, Image, ModelFiles, Promise, open, versions};
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

    /// Whether an extent is gone, or nothing beside it tells how it stands.
    fn is_of(self, extent: usize) -> bool {
        match self {
            Harm::Nothing | Harm::Stale(_) => false,
            Harm::Gone(role) | Harm::PartGone(role) | Harm::SidecarGone(role) => role == extent,
        }
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
            }
        }
    }
}

/// Has every store, flush and fence to these files looked at.
pub fn watch(
    crashes: &Arc<Mutex<Crashes>>,
    disks: &Arc<Mutex<Disks>>,
    promise: &Arc<Mutex<Promise>>,
) -> ShadowHook {
    let (crashes, disks, promise) = (Arc::clone(crashes), Arc::clone(disks), Arc::clone(promise));
    let hook: ShadowHook = Arc::new(move |_| {
        let promise = promise.lock().unwrap().clone();
        let disks = disks.lock().unwrap().clone();
        crashes.lock().unwrap().look(&disks, &promise);
    });
    hook
}

/// Sets the hook on all of them, or takes it away.
pub fn hook_all(disks: &Disks, hook: Option<&ShadowHook>) {
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
        without_missing: !matches!(harm, Harm::Nothing | Harm::Stale(_)),
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
    let named = names(geometry, &medium);
    for page in 0..geometry.pages() {
        let (extent, row) = geometry.place(page);
        let is_named = named[page as usize];
        let mut bytes = [0; PAGE_BYTES as usize];
        medium.read_page(extent, row, &mut bytes);
        if lost.contains(&(page * PAGE_BYTES)) {
            if bytes.iter().any(|&byte| byte != 0) || !is_named {
                return Err(format!(
                    "page {page} was accepted as lost, and is not zero, or not named"
                ));
            }
            continue;
        }
        check_page(page, &bytes, is_named, harm.is_of(extent), promise)?;
    }
    // What was told once is told again, until somebody accepts it.
    drop(medium);
    let (medium, line) = match open(&files, Permissions::default()) {
        Ok(opened) => opened,
        Err(error) => return Err(format!("not opened again after {line:?}: {error}")),
    };
    let again = names(geometry, &medium);
    if named
        .iter()
        .zip(&again)
        .any(|(before, after)| before != after)
    {
        return Err(format!(
            "named {named:?}, and after another opening {again:?}"
        ));
    }
    // What was opened is consistent, and seals.
    let engine = Engine::new(medium, line, Box::new(QuietTracker), FirstPass::Tracked);
    let all = 0..geometry.pages();
    let verified = engine.verify(&all).map_err(|error| error.to_string())?;
    if verified.looked_at != geometry.pages()
        || verified.repaired > 0
        || !verified.damaged.is_empty()
    {
        return Err(format!("not consistent after the opening: {verified:?}"));
    }
    engine
        .accept(&all)
        .map_err(|error| format!("not accepted: {error}"))?;
    let sealed = engine.seal(&|_| Ok(Box::new(AllAlone)));
    match sealed {
        Ok(sealed) if sealed.unverified_pages + sealed.lost_pages > 0 => {
            Err(format!("named although accepted: {sealed:?}"))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(format!("not sealed: {error}")),
    }
}

/// Which pages are named as unverified or lost.
fn names(geometry: Geometry, medium: &crate::medium::Medium) -> Vec<bool> {
    let is_named = |page| {
        let (extent, row) = geometry.place(page);
        medium.sum(extent, row).newest().is_named()
    };
    (0..geometry.pages()).map(is_named).collect()
}

/// Whether a page is what was promised, or else named; and is not named if it was promised and rested.
fn check_page(
    page: u64,
    bytes: &[u8],
    is_named: bool,
    is_harmed: bool,
    promise: &Promise,
) -> Result<(), String> {
    let at = page as usize;
    let (covered, latest) = (promise.covered[at], promise.latest[at]);
    let persisted = promise.persisted[at];
    let found = versions(page, bytes);
    match found {
        Some((oldest, newest)) if oldest >= covered && newest <= latest => {
            if oldest < persisted && !(is_harmed && is_named) {
                return Err(format!(
                    "page {page} is of version {oldest}, although {persisted} was durable, and nobody is told"
                ));
            }
        }
        _ => {
            return Err(format!(
                "page {page} is of versions {found:?}, promised {covered} to {latest}"
            ));
        }
    }
    let was_named = promise.named[at];
    if is_named && !was_named && !is_harmed && covered == latest {
        return Err(format!("page {page} was covered, and is called unverified"));
    }
    if was_named && !is_named {
        return Err(format!("page {page} was unverified, and is so no more"));
    }
    Ok(())
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
