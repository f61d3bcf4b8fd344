//! Faults, signals and system calls of a store and of a pass, where they are exact.

use std::time::Instant;

use super::{ALL, Mapped, Memory, alone, async_tracker, peek, take};
use crate::track::Tracker;
use crate::track::async_wp::AsyncTracker;
use crate::track::fault::FaultTracker;

/// 64 MiB.
const MEASURED_PAGES: u64 = 16_384;

/// Faults of this thread that needed no device.
fn faults() -> i64 {
    // SAFETY: an all-zero rusage is valid, and the pointer is to a local.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_minflt
    }
}

#[test]
fn a_first_store_costs_one_fault_and_the_next_ones_none() {
    let _alone = alone();
    for memory in ALL {
        let mapped = Mapped::new(memory, 100);
        let Some(tracker) = async_tracker(mapped.span()) else {
            return;
        };
        // Each page is there, and dirty, before the counting.
        (0..100).for_each(|page| mapped.store(page, 1));
        take(&tracker, 0..100);
        let before = faults();
        (0..100).for_each(|page| mapped.store(page, 2));
        assert_eq!(faults() - before, 100, "{memory:?}");
        (0..100).for_each(|page| mapped.store(page, 3));
        assert_eq!(faults() - before, 100, "{memory:?}");
        assert_eq!(AsyncTracker::counts(&tracker).protections, 0);
        drop(tracker.hold(3..5).unwrap());
        assert_eq!(AsyncTracker::counts(&tracker).protections, 2);
    }
}

#[test]
fn a_noted_store_costs_one_signal_and_one_change_of_protection() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 256);
    let tracker = FaultTracker::new(mapped.span()).unwrap();
    assert_eq!(tracker.counts().protections, 1, "to begin");
    (60..70).for_each(|page| mapped.store(page, 1));
    (60..70).for_each(|page| mapped.store(page, 2));
    mapped.store(200, 1);
    let counts = tracker.counts();
    assert_eq!(
        (counts.noted, counts.protections, counts.waited),
        (11, 12, 0)
    );
    take(&tracker, 0..256);
    assert_eq!(tracker.counts().protections, 13, "one for all");
    take(&tracker, 0..256);
    assert_eq!(tracker.counts().protections, 13);
}

/// Prints what a first store, a scan and a hold take here: `cargo test ... costs -- --ignored --nocapture`.
#[test]
#[ignore = "measures, and asserts nothing"]
fn costs_of_a_first_store_a_scan_and_a_hold() {
    let _alone = alone();
    for memory in [Memory::Tmpfs, Memory::PageCache] {
        let mapped = Mapped::new(memory, MEASURED_PAGES);
        (0..MEASURED_PAGES).for_each(|page| mapped.store(page, 1));
        if let Some(tracker) = async_tracker(mapped.span()) {
            println!("{memory:?}, async-wp");
            measure(&mapped, &tracker);
        }
        let tracker = FaultTracker::new(mapped.span()).unwrap();
        println!("{memory:?}, fault");
        measure(&mapped, &tracker);
    }
}

fn each(what: &str, times: u64, work: &mut dyn FnMut()) {
    let start = Instant::now();
    work();
    let each_ns = start.elapsed().as_nanos() / u128::from(times);
    println!("  {what}: {each_ns} ns");
}

fn measure(mapped: &Mapped, tracker: &dyn Tracker) {
    let all = 0..MEASURED_PAGES;
    take(tracker, all.clone());
    let pages = || all.clone().step_by(8);
    let stores = MEASURED_PAGES / 8;
    each("first store to a page", stores, &mut || {
        pages().for_each(|page| mapped.store(page, 2))
    });
    each("next store", stores, &mut || {
        pages().for_each(|page| mapped.store(page, 3))
    });
    each("take of 64 MiB, every eighth page", 1, &mut || {
        drop(take(tracker, all.clone()))
    });
    each("peek of 64 MiB, nothing", 1, &mut || {
        drop(peek(tracker, all.clone()))
    });
    each("exact hold of a page", 200, &mut || {
        (0..200).for_each(|page| drop(tracker.hold(page..page + 1).unwrap()));
    });
    each("hold of a hot page", 200, &mut || {
        (0..200).for_each(|page| drop(tracker.hold_hot(page..page + 1).unwrap()));
    });
}
