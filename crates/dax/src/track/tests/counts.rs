//! Faults, signals and system calls of a store and of a pass, where they are exact.

use super::{ALL, Mapped, Memory, alone, async_tracker, take};
use crate::track::{AsyncTracker, FaultTracker, Tracker};

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
    // One a run of pages, which end with the 64 that share a word.
    assert_eq!(tracker.counts().protections, 15);
    take(&tracker, 0..256);
    assert_eq!(tracker.counts().protections, 15);
}
