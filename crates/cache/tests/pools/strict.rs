//! Strict pools and pools without checksums: recovery trusts the commit word alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixtures::{BLOCK, Plan, Rig, block, get, open, put, quiet, tiny, u64_at};
use forebay::{Backing, PoolOptions};
use forebay_pmem::shadow::{FenceFailure, ShadowEventKind, thread_id};

fn strict() -> PoolOptions {
    tiny().strict(true)
}

fn unchecked() -> PoolOptions {
    tiny().checksums(false)
}

#[test]
fn a_commit_costs_two_fences_and_a_plain_one_costs_one() {
    for (options, fences) in [(tiny(), 1), (strict(), 2), (unchecked(), 2)] {
        let rig = Rig::new(&options, 1);
        let volume = rig.attach();
        put(&volume, 0, &block(0, 1));
        let before = rig.pool.counters().fences;
        for version in 0..10 {
            put(&volume, 0, &block(0, version));
        }
        assert_eq!(rig.pool.counters().fences - before, 10 * fences);
    }
}

#[test]
fn everything_survives_kill_and_power_cut_in_each_mode() {
    for options in [strict(), unchecked()] {
        let rig = Rig::new(&options, 1);
        crate::fixtures::media_open::fill(&rig);
        let cut = rig.shadows[0].crash_state().durable().to_vec();
        for image in [rig.images().remove(0), cut] {
            let pool = open(&[image], quiet()).expect("open");
            let backing = Backing::from_store(rig.store.clone());
            let volume = pool.attach(backing).expect("attach");
            assert!(get(&volume, 1).expect("read") == block(1, 2));
            assert!(get(&volume, 11).expect("read") == block(11, 1));
            let mut delta = block(4, 1);
            delta[20..23].copy_from_slice(b"del");
            delta[23..28].copy_from_slice(b"again");
            assert!(get(&volume, 4).expect("read") == delta);
            assert!(get(&volume, 6).expect("read").iter().all(|byte| *byte == 0));
            assert!(
                get(&volume, 9)
                    .expect("read")
                    .starts_with(b"the beginning and the end\0")
            );
        }
    }
}

#[test]
fn a_record_beyond_the_commit_word_does_not_count() {
    for options in [strict(), unchecked()] {
        let rig = Rig::new(&options, 1);
        let volume = rig.attach();
        let plan = Plan::of(&rig.images()[0]);
        put(&volume, 0, &block(0, 1));
        // What a crash between record and word leaves: the word of the commit before, no entry.
        let before = rig.images().remove(0);
        put(&volume, 0, &block(0, 2));
        let mut image = rig.images().remove(0);
        for lane in 0..plan.lanes {
            let at = plan.commit_word(lane);
            image[at..at + 8].copy_from_slice(&before[at..at + 8]);
        }
        let table = plan.entry_table..plan.lane_area;
        image[table.clone()].copy_from_slice(&before[table]);
        assert!((0..plan.lanes).any(|lane| u64_at(&image, plan.commit_word(lane)) != 0));
        let pool = open(&[image], quiet()).expect("open");
        let report = pool.recovery_report();
        assert_eq!((report.records, report.records_dropped), (2, 1));
        let volume = pool
            .attach(Backing::from_store(rig.store.clone()))
            .expect("attach");
        assert!(get(&volume, 0).expect("read") == block(0, 1));
    }
}

/// A commit whose second fence fails is not acknowledged, but its word may stand, and then recovery
/// looks into its slot: a thread that asked earlier whether the pool takes writes must not get that one.
#[test]
fn a_failed_second_fence_keeps_its_slots() {
    for options in [strict(), unchecked()] {
        let rig = Rig::new(&options, 1);
        let volume = rig.attach();
        put(&volume, 1, &block(1, 1));
        let limit = volume.transaction_limit_bytes() as usize / BLOCK;
        let (other, shadow) = (volume.clone(), rig.shadows[0].clone());
        let (streaming, is_first) = (thread_id(), AtomicBool::new(true));
        rig.shadows[0].set_hook(Some(Arc::new(move |event| {
            let is_ours = event.kind == ShadowEventKind::Stream && event.thread == streaming;
            if is_ours && is_first.swap(false, Ordering::Relaxed) {
                shadow.set_fence_failure(FenceFailure::After(1));
                let overwrite = || other.write(1, &block(1, 2)).expect_err("its fence failed");
                std::thread::scope(|scope| drop(scope.spawn(overwrite).join()));
            }
        })));
        let mut transaction = volume.begin();
        // One call, which asks once whether the pool takes writes.
        let _ = transaction.write(10, &vec![9; BLOCK * limit]);
        assert!(transaction.commit().is_err());
        rig.shadows[0].set_hook(None);
        let pool = open(&rig.images(), quiet()).expect("open");
        let again = pool.attach(Backing::from_store(rig.store.clone()));
        let found = get(&again.expect("attach"), 1).expect("read");
        assert!(
            found == block(1, 1) || found == block(1, 2),
            "block 1 is old or new"
        );
    }
}
