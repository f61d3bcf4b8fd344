//! Single steps, looked at closely.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_pmem::shadow::{Fault, ShadowEventKind, ShadowModel};

use super::scenarios::Watched;
use crate::engine::{Engine, FirstPass};
use crate::error::ErrorKind;
use crate::format::PAGE_BYTES;
use crate::model::world::{World, content};
use crate::track::CompareTracker;

const MODEL: ShadowModel = ShadowModel::Lines;

#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_pass_over_nothing_stores_and_fences_nothing() {
    let world = World::new(2, 8, MODEL);
    let before = world.engine.medium.fences();
    world.pass();
    assert_eq!(world.engine.medium.fences(), before);
    world.store(3);
    world.store(9);
    world.pass();
    let counts = world.engine.status().counts;
    // Data and parity of all rows together, then all sums.
    assert_eq!((counts.fences, counts.covered_pages), (2, 2));
    let flushed = world.engine.medium.sidecars[0]
        .region
        .counters()
        .lines_flushed;
    for page in 0..4 {
        world.store(page);
    }
    world.pass();
    // Four sums of one line: it is sent once.
    let sent = world.engine.medium.sidecars[0]
        .region
        .counters()
        .lines_flushed
        - flushed;
    assert_eq!(sent, 1);
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_store_after_the_scan_comes_with_the_next_pass() {
    let world = World::new(1, 8, MODEL);
    world.store(1);
    let store = world.writer();
    *world.known.after_take.lock().unwrap() = Some(Box::new(move || store(1)));
    world.pass();
    assert!(world.engine.is_waiting(1));
    assert_eq!(world.engine.status().counts.skipped_pages, 1);
    world.pass();
    let status = world.engine.status();
    assert_eq!((status.window.pages, status.window.waiting_pages), (1, 0));
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_mate_that_was_stored_to_is_no_damage() {
    let world = World::new(2, 8, MODEL);
    let mate = world.geometry().page(1, 2);
    world.store(world.geometry().page(0, 2));
    let store = world.writer();
    *world.known.after_take.lock().unwrap() = Some(Box::new(move || store(mate)));
    world.pass();
    let status = world.engine.status();
    assert_eq!((status.damaged.len(), status.window.waiting_pages), (0, 1));
    world.pass();
    assert_eq!(world.engine.status().window.waiting_pages, 0);
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_damaged_mate_leaves_its_row_and_its_parity_alone() {
    let world = World::new(2, 8, MODEL);
    let (page, mate) = (world.geometry().page(0, 2), world.geometry().page(1, 2));
    world.store(mate);
    world.pass();
    let disks = world.disks.lock().unwrap().clone();
    let mut parity = [0; 4096];
    world.engine.medium.read_page(2, 2, &mut parity);
    let offset = 2 * PAGE_BYTES + 99;
    disks.parts[1]
        .as_ref()
        .unwrap()
        .inject(Fault::BitFlip { offset, bit: 1 });
    world.store(page);
    world.pass();
    assert_eq!(world.engine.status().damaged, [mate * PAGE_BYTES]);
    let mut after = [0; 4096];
    world.engine.medium.read_page(2, 2, &mut after);
    assert_eq!(parity, after);
    let error = world.engine.sync(&(page..page + 1)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "{error}");
    // Storing it anew ends the damage.
    world.store(mate);
    world.pass();
    assert!(world.engine.status().damaged.is_empty());
    world.engine.sync(&(page..page + 1)).unwrap();
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_damaged_page_is_repaired_with_its_writers_held_or_else_named() {
    for can_hold in [true, false] {
        let world = World::new(3, 8, MODEL);
        for page in 0..24 {
            world.store(page);
        }
        world.pass();
        let disks = world.disks.lock().unwrap().clone();
        let fault = Fault::BitFlip {
            offset: 5 * PAGE_BYTES + 1,
            bit: 0,
        };
        disks.parts[1].as_ref().unwrap().inject(fault);
        world.known.can_hold.store(can_hold, Ordering::Relaxed);
        let all = 0..24;
        let verified = world.engine.verify(&all).unwrap();
        let page = world.geometry().page(1, 5);
        let mut bytes = [0; 4096];
        world.engine.medium.read_page(1, 5, &mut bytes);
        if can_hold {
            assert_eq!((verified.repaired, &verified.damaged[..]), (1, &[][..]));
            assert_eq!(bytes, content(page, 1));
        } else {
            assert_eq!(
                (verified.repaired, &verified.damaged[..]),
                (0, &[page * PAGE_BYTES][..])
            );
            assert_ne!(bytes, content(page, 1));
        }
        assert_eq!(verified.looked_at, 24);
    }
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn data_and_parity_are_durable_before_a_sum_is_stored() {
    let world = World::new(2, 8, MODEL);
    let disks = world.disks.lock().unwrap().clone();
    let pending = Arc::new(std::sync::Mutex::new(0));
    for sidecar in disks.sidecars.iter().flatten() {
        let (parts, pending) = (disks.parts.clone(), Arc::clone(&pending));
        sidecar.set_hook(Some(Arc::new(move |event| {
            if event.kind == ShadowEventKind::Store {
                let units = parts
                    .iter()
                    .flatten()
                    .map(|part| part.crash_state().pending_units());
                *pending.lock().unwrap() += units.sum::<usize>();
            }
        })));
    }
    world.store(1);
    world.pass();
    for shadow in disks.all() {
        shadow.set_hook(None);
    }
    let units = *pending.lock().unwrap();
    assert_eq!(units, 0, "lines were not durable when a sum was stored");
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn what_a_tracker_may_have_missed_is_compared() {
    let world = World::new(2, 8, MODEL);
    world.store(1);
    // The tracker forgets it.
    let mut found = Vec::new();
    crate::track::Tracker::take_written(
        &crate::model::tracker::KnownTracker(Arc::clone(&world.known)),
        0..16,
        &mut found,
    )
    .unwrap();
    world.known.has_missed.store(true, Ordering::Relaxed);
    world.pass();
    let counts = world.engine.status().counts;
    assert_eq!((counts.compared, counts.covered_pages), (1, 1));
    world.known.has_missed.store(false, Ordering::Relaxed);
    world.pass();
    assert_eq!(world.engine.verify(&(0..16)).unwrap().looked_at, 16);
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn without_a_tracker_every_page_is_compared_and_none_is_damage() {
    let World { engine, disks, .. } = World::new(2, 8, MODEL);
    let line = engine.line();
    let engine = Engine::new(
        engine.medium,
        line,
        Box::new(CompareTracker),
        FirstPass::Tracked,
    );
    let part = disks.lock().unwrap().parts[0].clone().unwrap();
    part.store(PAGE_BYTES, &content(1, 1));
    engine.pass().unwrap();
    assert_eq!(engine.status().counts.covered_pages, 1);
    part.inject(Fault::BitFlip {
        offset: PAGE_BYTES,
        bit: 3,
    });
    let verified = engine.verify(&(0..16)).unwrap();
    assert_eq!(
        (verified.skipped_as_written, verified.damaged.len()),
        (1, 0)
    );
    engine.sync(&(0..16)).unwrap();
    assert_eq!(engine.verify(&(0..16)).unwrap().looked_at, 16);
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn what_never_rests_and_cannot_be_held_is_an_error_of_sync() {
    let world = World::new(1, 8, MODEL);
    let store = world.writer();
    *world.known.before_peek.lock().unwrap() = Some(Box::new(move || store(2)));
    world.store(2);
    let error = world.engine.sync(&(2..3)).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::NeverRested { offset: 8192, .. }),
        "{error}"
    );
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_pass_that_fails_is_told_and_made_good_by_the_next_opening() {
    let watched = Watched::new(2, MODEL, 1);
    let (wrong, _) = watched.end();
    assert!(wrong.is_empty());
    let world = &watched.world;
    world.store(1);
    let disks = world.disks.lock().unwrap().clone();
    let parity = disks.parts[2].as_ref().unwrap();
    parity.set_fence_failure(forebay_pmem::shadow::FenceFailure::From(0));
    world.engine.pass().unwrap_err();
    let status = world.engine.status();
    assert_eq!(
        (status.counts.failed_passes, status.window.waiting_pages),
        (1, 1)
    );
    assert!(status.last_failure.is_some());
}

/// A sync of one page whose mate, which is not asked for, was stored to before.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_sync_covers_a_page_beside_one_that_it_was_not_asked_for() {
    let world = World::new(2, 8, MODEL);
    let (page, mate) = (world.geometry().page(0, 2), world.geometry().page(1, 2));
    world.store(page);
    world.store(mate);
    world.engine.sync(&(page..page + 1)).unwrap();
    assert!(!world.engine.is_waiting(page) && !world.engine.is_waiting(mate));
    assert!(!world.known.is_written(mate));
    let again = world.engine.medium.fences();
    world.pass();
    assert_eq!(world.engine.medium.fences(), again);
}

/// A write of sums goes elsewhere: of a page one copy is that of another page, and of a later pass.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_sum_that_looks_later_and_is_another_pages_is_put_right() {
    for width in [1, 3] {
        let world = World::new(width, 8, MODEL);
        let geometry = world.geometry();
        let (page, other) = (geometry.page(0, 2), geometry.page(0, 3));
        world.store(page);
        world.pass();
        world.store(other);
        world.pass();
        let disks = world.disks.lock().unwrap().clone();
        let sidecar = disks.sidecars[0].as_ref().unwrap();
        let later = world.engine.medium.sums(0, 3)[0];
        sidecar.store(geometry.sum_at(2), &later.0.to_le_bytes());
        world.known.can_hold.store(true, Ordering::Relaxed);
        let all = 0..geometry.pages();
        let verified = world.engine.verify(&all).unwrap();
        assert_eq!((verified.repaired, &verified.damaged[..]), (1, &[][..]));
        let verified = world.engine.verify(&all).unwrap();
        assert_eq!(
            (verified.repaired, verified.looked_at),
            (0, geometry.pages())
        );
        let [one, second] = world.engine.medium.sums(0, 2);
        assert_eq!(one, second);
        assert!(one.passes_after(later.pass()) > 0);
    }
}

/// A page never rests, and its mate is stored to meanwhile. Under the hold the mate is taken, and then a take fails.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn what_was_taken_before_a_take_failed_under_a_hold_is_covered() {
    let world = World::new(2, 8, MODEL);
    world.known.can_hold.store(true, Ordering::Relaxed);
    let (mate, page) = (world.geometry().page(0, 2), world.geometry().page(1, 2));
    let (store, known) = (world.writer(), Arc::clone(&world.known));
    *world.known.before_peek.lock().unwrap() = Some(Box::new(move || {
        if !known.is_held.load(Ordering::Relaxed) {
            store(page);
            store(mate);
        }
    }));
    world.store(page);
    *world.known.fails_take_of.lock().unwrap() = Some(page);
    world.engine.pass().unwrap_err();
    *world.known.before_peek.lock().unwrap() = None;
    world.engine.sync(&(mate..mate + 1)).unwrap();
    let verified = world.engine.verify(&(0..16)).unwrap();
    assert_eq!((verified.looked_at, verified.repaired), (16, 0));
    assert_eq!(world.engine.status().damaged, [0; 0]);
    let latest = world.promise.lock().unwrap().latest[mate as usize];
    let mut bytes = [0; PAGE_BYTES as usize];
    world.engine.medium.read_page(0, 2, &mut bytes);
    assert_eq!(bytes, content(mate, latest));
}

/// A look finds that a page matches which was called damaged before.
#[cfg_attr(not(feature = "mutants"), test)]
pub fn a_page_that_matches_again_is_not_called_damaged() {
    let world = World::new(2, 8, MODEL);
    let mate = world.geometry().page(1, 2);
    world.store(mate);
    world.pass();
    let part = world.disks.lock().unwrap().parts[1].clone().unwrap();
    let offset = 2 * PAGE_BYTES + 99;
    part.inject(Fault::BitFlip { offset, bit: 1 });
    let verified = world.engine.verify(&(0..16)).unwrap();
    assert_eq!(verified.damaged, [mate * PAGE_BYTES]);
    part.inject(Fault::BitFlip { offset, bit: 1 });
    let verified = world.engine.verify(&(0..16)).unwrap();
    assert_eq!(verified.damaged, [0; 0]);
    assert_eq!(world.engine.status().damaged, [0; 0]);
}

/// Nobody has an extent now, but somebody had since the tracker looked last.
struct SomebodyWas;

impl crate::engine::Alone for SomebodyWas {
    fn check(&self) -> crate::error::Result<()> {
        Ok(())
    }

    fn was_alone(&self) -> bool {
        false
    }
}

#[cfg_attr(not(feature = "mutants"), test)]
pub fn what_differs_at_a_seal_is_no_damage_where_somebody_was_there() {
    for was_there in [true, false] {
        let world = World::new(2, 8, MODEL);
        world.store(3);
        world.pass();
        assert!(world.engine.has_seen_all());
        let part = world.disks.lock().unwrap().parts[0].clone().unwrap();
        part.store(3 * PAGE_BYTES, &content(3, 9));
        let quiet = Box::new(crate::engine::QuietTracker);
        let engine = world.engine.with_tracker(quiet);
        let sealed = engine.seal(&|_| match was_there {
            true => Ok(Box::new(SomebodyWas)),
            false => Ok(Box::new(crate::model::world::AllAlone)),
        });
        let sealed = sealed.unwrap();
        assert_eq!(sealed.written_pages, u64::from(was_there));
        assert_eq!(sealed.repaired_pages, u64::from(!was_there));
    }
}
