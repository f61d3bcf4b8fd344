//! What a line, a sum or a file is worth after kills, power cuts and returns.

use std::sync::{Arc, Mutex};

use forebay_pmem::shadow::{FenceFailure, ShadowHook, ShadowModel};

use super::crash::{Harm, check, hook_all};
use crate::engine::{Engine, FirstPass};
use crate::error::ErrorKind;
use crate::format::{Mark, PAGE_BYTES};
use crate::model::world::{Disks, Image, ModelFiles, Promise, World, content, open};
use crate::recover::Permissions;
use crate::track::CompareTracker;

const MODEL: ShadowModel = ShadowModel::Lines;
const WITHOUT: Permissions = Permissions {
    without_missing: true,
    accept_loss: false,
};

/// A region of width 1 with page 1 stored to once and covered, sealed.
fn sealed(model: ShadowModel) -> (Image, Promise) {
    let world = World::new(1, 8, model);
    world.store(1);
    let (disks, promise) = world.seal().unwrap();
    (image(&disks), promise)
}

fn image(disks: &Disks) -> Image {
    disks.sample(&mut fastrand::Rng::with_seed(1))
}

fn with_role(image: &Image, role: usize, from: Option<&Image>) -> Image {
    let mut mixed = image.clone();
    mixed.parts[role] = from.and_then(|from| from.parts[role].clone());
    mixed.sidecars[role] = from.and_then(|from| from.sidecars[role].clone());
    mixed
}

/// Opens an image without a role, stores version 2 to page 1 and seals.
fn go_on_without(image: &Image, role: usize, promise: &Promise) -> Image {
    let files = files(&with_role(image, role, None));
    drop(open(&files, WITHOUT).unwrap());
    let disks = files.disks.lock().unwrap().clone();
    let world = World::open(disks, MODEL, promise.clone()).unwrap();
    world.store(1);
    let (disks, _) = world.seal().unwrap();
    self::image(&disks)
}

fn files(image: &Image) -> ModelFiles {
    ModelFiles::new(MODEL, Arc::new(Mutex::new(Disks::of(image, MODEL))))
}

fn page(files: &ModelFiles, permissions: Permissions) -> Vec<u8> {
    let (medium, _) = open(files, permissions).unwrap();
    let mut bytes = vec![0; PAGE_BYTES as usize];
    medium.read_page(0, 1, &mut bytes);
    bytes
}

/// An opening dies with its mark on the extent alone, which then dies, too; others go on without it. When it comes back
/// its generation is as high as theirs.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn an_extent_that_was_left_out_is_not_believed_when_it_returns() {
    let (image, promise) = sealed(MODEL);
    let opened = files(&image);
    drop(open(&opened, Permissions::default()).unwrap());
    let dead = self::image(&opened.disks.lock().unwrap());
    let went_on = go_on_without(&image, 0, &promise);
    assert_eq!(
        page(&files(&went_on), Permissions::default()),
        content(1, 2)
    );
    let returned = with_role(&went_on, 0, Some(&dead));
    assert_eq!(page(&files(&returned), WITHOUT), content(1, 2));
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn two_that_went_on_alone_are_two_histories_however_often_they_did() {
    let (image, promise) = sealed(MODEL);
    let left = go_on_without(&image, 0, &promise);
    let left = go_on_without(&left, 0, &promise);
    let right = go_on_without(&image, 1, &promise);
    let both = with_role(&left, 0, Some(&right));
    let error = open(&files(&both), WITHOUT).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::TwoHistories { .. }),
        "{error}"
    );
}

/// A killed opening left its mark where only a cache has it; the next one is cut short by a power cut.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_line_that_only_a_cache_has_is_durable_before_the_one_before_it_goes() {
    // No eviction makes durable what a cache of pages has, and of those sectors are torn.
    let model = ShadowModel::Pages;
    let (image, promise) = sealed(model);
    let disks = Disks::of(&image, model);
    let medium = crate::model::world::medium_of(promise_geometry(), &disks);
    for (role, sidecar) in medium.sidecars.iter().enumerate() {
        let [one, other] = sidecar.lines().map(|line| line.unwrap().0);
        let newest = if one.generation > other.generation {
            one
        } else {
            other
        };
        sidecar.put_line(&newest.next(Mark::Open), role);
    }
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let hook: ShadowHook = {
        let (disks, wrong) = (disks.clone(), Arc::clone(&wrong));
        let rng = Mutex::new(fastrand::Rng::with_seed(3));
        Arc::new(move |_| {
            for _ in 0..100 {
                let left = disks.sample(&mut rng.lock().unwrap());
                let checked = check(promise_geometry(), model, &left, Harm::Nothing, &promise);
                wrong.lock().unwrap().extend(checked.err());
            }
        })
    };
    hook_all(&disks, Some(&hook));
    let files = ModelFiles::new(model, Arc::new(Mutex::new(disks.clone())));
    open(&files, Permissions::default()).unwrap();
    hook_all(&disks, None);
    let wrong = wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{:?}", wrong.first());
}

fn promise_geometry() -> crate::format::Geometry {
    crate::format::Geometry::new(8 * PAGE_BYTES, 1).unwrap()
}

/// A pass is killed between its sums and their fence. The next process finds that every page matches.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_first_pass_makes_durable_what_matches_and_only_a_cache_has() {
    let world = World::new(1, 8, MODEL);
    world.persist(1);
    let disks = world.disks.lock().unwrap().clone();
    for sidecar in disks.sidecars.iter().flatten() {
        sidecar.set_fence_failure(FenceFailure::From(0));
    }
    world.engine.pass().unwrap_err();
    for sidecar in disks.sidecars.iter().flatten() {
        sidecar.set_fence_failure(FenceFailure::Never);
    }
    let line = world.engine.line();
    let medium = crate::model::world::medium_of(world.geometry(), &disks);
    let engine = Engine::new(medium, line, Box::new(CompareTracker), FirstPass::TakesAll);
    engine.pass().unwrap();
    let mut promise = world.promise.lock().unwrap().clone();
    promise.covered.clone_from(&promise.latest);
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..8 {
        let left = disks.sample(&mut rng);
        check(world.geometry(), MODEL, &left, Harm::Nothing, &promise).unwrap();
    }
    engine.pass().unwrap();
    assert_eq!(engine.status().counts.covered_pages, 8);
}

/// After a kill a page is taken as written; one copy of its new sum does not arrive.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_sum_that_did_not_arrive_leaves_one_that_does_not_count() {
    let world = World::new(1, 8, MODEL);
    for _ in 0..3 {
        world.store(1);
        world.pass();
    }
    world.persist(1);
    let disks = world.disks.lock().unwrap().clone();
    let old = disks.sample(&mut fastrand::Rng::with_seed(1)).sidecars[0]
        .clone()
        .unwrap();
    let promise = world.promise.lock().unwrap().clone();
    let world = World::open(disks.clone(), MODEL, promise).unwrap();
    assert_eq!(world.engine.status().unverified_pages, 1);
    let at = world.geometry().sum_at(1);
    let sidecar = disks.sidecars[0].as_ref().unwrap();
    sidecar.store(at, &old[at as usize..][..8]);
    let mut bytes = [0; PAGE_BYTES as usize];
    let check = world.engine.medium.read_page(0, 1, &mut bytes).unwrap();
    let copies = world.engine.medium.sum(0, 1);
    assert!(copies.vouching_for(check).is_some(), "{copies:?}");
    world
        .known
        .can_hold
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let verified = world.engine.verify(&(0..8)).unwrap();
    assert_eq!((verified.repaired, &verified.damaged[..]), (1, &[][..]));
    world.engine.medium.read_page(0, 1, &mut bytes);
    assert_eq!(bytes, content(1, 4));
}

/// What was taken as written once is named by every later opening, also after passes, until a caller accepts it.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn what_is_unverified_stays_so_until_it_is_accepted() {
    let world = World::new(2, 8, MODEL);
    world.persist(3);
    for round in 0..3 {
        let disks = world.disks.lock().unwrap().clone();
        let promise = world.promise.lock().unwrap().clone();
        let world = World::open(disks, MODEL, promise).unwrap();
        let all = 0..16;
        assert_eq!(
            world.engine.verify(&all).unwrap().unverified,
            std::slice::from_ref(&(3 * PAGE_BYTES..4 * PAGE_BYTES))
        );
        world.store(3);
        world.store(4);
        world.pass();
        assert_eq!(
            world.engine.verify(&all).unwrap().unverified,
            std::slice::from_ref(&(3 * PAGE_BYTES..4 * PAGE_BYTES))
        );
        if round == 2 {
            assert_eq!(world.engine.accept(&(4..16)).unwrap(), 0);
            assert_eq!(world.engine.accept(&all).unwrap(), 1);
            assert_eq!(world.engine.status().unverified_pages, 0);
        }
    }
    let disks = world.disks.lock().unwrap().clone();
    let promise = world.promise.lock().unwrap().clone();
    let world = World::open(disks, MODEL, promise).unwrap();
    assert_eq!(world.engine.verify(&(0..16)).unwrap().unverified, []);
}

/// What lies over a copy of a page's sum looks later, and says nothing of the page. The page is stored to before anything
/// reads that.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_page_stays_named_whatever_lies_over_a_copy_of_its_sum() {
    let world = World::new(2, 8, MODEL);
    world.persist(3);
    let disks = world.disks.lock().unwrap().clone();
    let promise = world.promise.lock().unwrap().clone();
    let world = World::open(disks.clone(), MODEL, promise).unwrap();
    let [one, _] = world.engine.medium.sums(0, 3);
    let garbage = crate::format::Sum::from_check(2, one.pass() + 1);
    let at = world.geometry().sum_at(3);
    let sidecar = disks.sidecars[0].as_ref().unwrap();
    sidecar.store(at, &garbage.0.to_le_bytes());
    world.store(3);
    world.pass();
    assert_eq!(
        world.engine.verify(&(0..16)).unwrap().unverified,
        std::slice::from_ref(&(3 * PAGE_BYTES..4 * PAGE_BYTES))
    );
}

/// An old pair returns, is made right, and stored to; then a bit of its newest line turns over.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_flip_in_the_newest_line_of_a_pair_that_returned_undoes_no_store() {
    let (image, promise) = sealed(MODEL);
    let went_on = go_on_without(&image, 0, &promise);
    for old in [Some(&image), None] {
        let returned = files(&with_role(&went_on, 0, old));
        drop(open(&returned, WITHOUT).unwrap());
        let disks = returned.disks.lock().unwrap().clone();
        let part = disks.parts[0].as_ref().unwrap();
        part.store(PAGE_BYTES, &content(1, 3));
        part.flush(PAGE_BYTES, PAGE_BYTES as usize);
        part.fence().unwrap();
        let sidecar = disks.sidecars[0].as_ref().unwrap();
        let region = forebay_pmem::Region::on_shadow(Arc::clone(sidecar));
        let lines = crate::medium::Sidecar::new(region, "".into()).lines();
        let generations = lines.map(|line| line.ok().map(|(line, _)| line.generation));
        let newest = u64::from(generations[1] > generations[0]);
        let offset = newest * PAGE_BYTES + 50;
        sidecar.inject(forebay_pmem::shadow::Fault::BitFlip { offset, bit: 1 });
        assert_eq!(page(&returned, Permissions::default()), content(1, 3));
    }
}

/// One extent is gone, and another one is an old one, whose pages are those that sums vouch for.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn an_old_extent_that_matches_helps_to_rebuild_another_one() {
    let world = World::new(2, 8, MODEL);
    for page in 0..16 {
        world.store(page);
    }
    let (disks, _) = world.seal().unwrap();
    let image = self::image(&disks);
    let without = files(&with_role(&image, 1, None));
    drop(open(&without, WITHOUT).unwrap());
    let went_on = self::image(&without.disks.lock().unwrap());
    let returned = with_role(&went_on, 1, Some(&image));
    let alone = files(&with_role(&returned, 0, None));
    let (medium, _) = open(&alone, WITHOUT).unwrap();
    for page in 0..16 {
        let (extent, row) = medium.geometry.place(page);
        let mut bytes = [0; PAGE_BYTES as usize];
        medium.read_page(extent, row, &mut bytes);
        assert_eq!(bytes, content(page, 1));
    }
}

/// A sync of a plain file fails, after which the system takes its pages for written; the next process finds them in the
/// cache.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn what_a_failed_sync_left_in_a_cache_is_made_durable_by_whoever_comes_next() {
    for opens in [true, false] {
        let world = World::new(2, 8, ShadowModel::Pages);
        world.store(1);
        world.pass();
        world.store(1);
        let disks = world.disks.lock().unwrap().clone();
        let promise = world.promise.lock().unwrap().clone();
        let part = disks.parts[0].as_ref().unwrap();
        part.set_fence_failure(FenceFailure::From(0));
        world.engine.pass().unwrap_err();
        part.set_fence_failure(FenceFailure::Never);
        let line = world.engine.line();
        drop(world.engine);
        if opens {
            let world = World::open(disks.clone(), ShadowModel::Pages, promise).unwrap();
            world.engine.pass().unwrap();
        } else {
            let geometry = line.geometry;
            let medium = crate::model::world::medium_of(geometry, &disks);
            let tracker = Box::new(CompareTracker);
            let engine = Engine::new(medium, line, tracker, FirstPass::TakesAll);
            engine.pass().unwrap();
        }
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..8 {
            let files = ModelFiles::new(
                MODEL,
                Arc::new(Mutex::new(Disks::of(&disks.sample(&mut rng), MODEL))),
            );
            assert_eq!(
                page(&files, Permissions::default()),
                content(1, 2),
                "opens: {opens}"
            );
        }
    }
}
