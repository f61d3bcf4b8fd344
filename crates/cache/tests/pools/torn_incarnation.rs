//! A crash in the middle of an incarnation line's store leaves it torn, and the pool goes on without it. When
//! its place's turn comes again, the torn line must not make the next incarnation begin too early.

use std::sync::Arc;

use crate::fixtures::{
    BLOCK, MEMBER_BYTES, Plan, block, get, open, put, quiet, tiny, u64_at, view,
};
use forebay::{Backing, MemoryStore, Pool, Region, Volume};
use forebay_pmem::shadow::{Distribution, FenceFailure, Shadow, ShadowModel};

fn opened(shadow: &Arc<Shadow>, store: &Arc<MemoryStore>) -> (Pool, Volume) {
    let pool = Pool::open_on(vec![Region::on_shadow(shadow.clone())], quiet()).expect("open");
    let backing = Backing::from_store(store.clone());
    let volume = pool.attach(backing).expect("attach");
    (pool, volume)
}

/// The newest incarnation line is torn as a power cut tears it: its last word never arrived.
fn tear_newest_incarnation_line(shadow: &Arc<Shadow>) {
    let image = view(shadow);
    let plan = Plan::of(&image);
    let lines = (0..2).map(|which| plan.incarnation_line(which));
    let newest = lines.max_by_key(|at| u64_at(&image, at + 16));
    let at = newest.expect("two lines") as u64 + 56;
    shadow.store(at, &[0; 8]);
    shadow.flush(at, 8);
    shadow.fence().expect("fence");
}

/// A pool with a torn incarnation line, lived in once more since: four blocks whose records are in the log.
fn lived_on(model: ShadowModel) -> (Arc<Shadow>, Arc<MemoryStore>) {
    let shadow = Arc::new(Shadow::new(MEMBER_BYTES as u64, model));
    let store = Arc::new(MemoryStore::new(64 * BLOCK as u64));
    drop(Pool::create_on(vec![Region::on_shadow(shadow.clone())], &tiny()).expect("create"));
    drop(opened(&shadow, &store));
    tear_newest_incarnation_line(&shadow);
    let (_pool, volume) = opened(&shadow, &store);
    for number in 0..4 {
        put(&volume, number, &block(number, 1));
    }
    (shadow, store)
}

/// Recovery stops at each of its fences in turn, and the power is cut there.
#[test]
fn a_torn_incarnation_line_never_makes_the_next_incarnation_begin_before_its_switch() {
    let mut rng = fastrand::Rng::with_seed(719);
    let mut image = Vec::new();
    for model in [ShadowModel::Lines, ShadowModel::Pages] {
        for fences in 0.. {
            let (shadow, store) = lived_on(model);
            shadow.set_fence_failure(FenceFailure::From(fences));
            let regions = vec![Region::on_shadow(shadow.clone())];
            let is_through = Pool::open_on(regions, quiet()).is_ok();
            let state = shadow.crash_state();
            for distribution in Distribution::ALL.into_iter().cycle().take(240) {
                state.sample_from(distribution, &mut rng, &mut image);
                let pool = open(std::slice::from_ref(&image), quiet()).expect("open");
                let volume = pool.attach(Backing::from_store(store.clone()));
                let volume = volume.expect("attach");
                for number in 0..4 {
                    let found = get(&volume, number).expect("read");
                    assert!(found == block(number, 1), "{model:?}, {fences} fences");
                }
            }
            if is_through {
                break;
            }
        }
    }
}
