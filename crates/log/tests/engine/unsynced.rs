//! Transactions that are over when they are written, and the syncs that make them durable.

use crate::fixtures::*;
use forebay_log::shadow::{Fault, ShadowDevice, ShadowState};
use forebay_log::{Device, Log, LogError, PAGE_BYTES, open};
use std::sync::Arc;

/// Durable writes and flushes of `act`.
fn flushes(device: &ShadowDevice, act: impl FnOnce()) -> u64 {
    let before = device.counters();
    act();
    device.counters().since(&before).flushes
}

fn after_a_cut(device: &ShadowDevice, rng: &mut fastrand::Rng) -> Log {
    let state = ShadowState::new(device.state().cut(rng), PAGE_BYTES);
    open(Arc::new(ShadowDevice::new(state)), options()).unwrap()
}

fn after_a_kill(device: &ShadowDevice, rng: &mut fastrand::Rng) -> Log {
    let state = device.state().killed(rng);
    open(Arc::new(ShadowDevice::new(state)), options()).unwrap()
}

/// How many of the blocks that were written one after the other are there: these, and no other.
fn prefix(log: &Log, count: u64) -> u64 {
    let is_there = |block: &u64| log.is_clean(1, *block).is_some();
    let there = (0..count).take_while(is_there).count() as u64;
    for block in 0..there {
        assert_eq!(read(log, block), bytes(block + 1));
    }
    assert_eq!(log.cached_blocks() as u64, there, "there is a gap");
    there
}

#[test]
fn what_is_not_synced_costs_no_flush_and_all_of_it_costs_one() {
    let (device, _, log) = small();
    let write = || (0..3).for_each(|block| log.commit_unsynced(one(block, block)).unwrap());
    assert_eq!(flushes(&device, write), 0);
    assert!(!log.is_synced());
    (0..3).for_each(|block| assert_eq!(read(&log, block), bytes(block), "readers see it"));
    assert_eq!(flushes(&device, || log.sync().unwrap()), 1);
    assert_eq!(flushes(&device, || log.sync().unwrap()), 0);
    log.commit_unsynced(one(5, 5)).unwrap();
    // One that is durable takes those before it along, by a flush in place of its own durable write.
    assert_eq!(flushes(&device, || log.commit(one(6, 6)).unwrap()), 1);
    assert!(log.is_synced());
    assert_eq!(flushes(&device, || log.sync().unwrap()), 0);
    assert_eq!(flushes(&device, || log.commit(one(6, 7)).unwrap()), 1);
}

#[test]
fn a_segment_costs_its_summary_and_the_flush_before_it() {
    let (device, _, log) = small();
    // Six of two pages each fill one, beside its header, its summary and the page that is left free.
    let write = || (0..13).for_each(|block| log.commit_unsynced(one(block, block)).unwrap());
    assert_eq!(flushes(&device, write), 4);
}

#[test]
fn a_power_cut_leaves_a_prefix_and_a_kill_everything() {
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut shortest, mut longest) = (u64::MAX, 0);
    for synced in 0..12 {
        let (device, _, log) = small();
        for block in 0..12 {
            log.commit_unsynced(one(block, block + 1)).unwrap();
            if block + 1 == synced {
                log.sync().unwrap();
            }
        }
        for _ in 0..12 {
            let there = prefix(&after_a_cut(&device, &mut rng), 12);
            assert!(there >= synced, "{there} of {synced} that were synced");
            shortest = shortest.min(there - synced);
            longest = longest.max(there - synced);
            assert_eq!(prefix(&after_a_kill(&device, &mut rng), 12), 12);
        }
    }
    assert_eq!(shortest, 0, "no power cut took everything");
    assert!(longest > 3, "no power cut left anything");
}

#[test]
fn what_follows_a_recovery_is_not_in_doubt() {
    let mut rng = fastrand::Rng::with_seed(2);
    for _ in 0..40 {
        let (device, _, log) = small();
        (0..9).for_each(|block| log.commit_unsynced(one(block, block + 1)).unwrap());
        let killed = Arc::new(ShadowDevice::new(device.state().killed(&mut rng)));
        let log = open(killed.clone(), options()).unwrap();
        assert_eq!(prefix(&log, 9), 9);
        // Recovery has flushed what it found.
        assert!(log.is_synced());
        assert_eq!(prefix(&after_a_cut(&killed, &mut rng), 9), 9);
    }
}

#[test]
fn a_flush_that_failed_is_told_to_every_sync_from_then_on() {
    for fault in [Fault::Error, Fault::ErrorButDurable, Fault::NoSpace] {
        let (device, _, log) = small();
        log.commit_unsynced(one(1, 1)).unwrap();
        device.fail(0, fault);
        assert!(matches!(log.sync(), Err(LogError::Device { .. })));
        assert!(matches!(log.sync(), Err(LogError::Poisoned { .. })));
        let again = log.commit_unsynced(one(1, 2));
        assert!(matches!(again, Err(LogError::Poisoned { .. })));
        assert_eq!(read(&log, 1), bytes(1), "what was written is seen");
        assert!(log.close().is_err(), "{fault:?}");
    }
}

#[test]
fn a_pool_that_was_closed_has_what_was_not_synced() {
    let mut rng = fastrand::Rng::with_seed(3);
    let (device, _, log) = small();
    (0..3).for_each(|block| log.commit_unsynced(one(block, block + 1)).unwrap());
    assert_eq!(flushes(&device, || log.close().unwrap()), 2);
    assert_eq!(prefix(&after_a_cut(&device, &mut rng), 3), 3);
}

#[test]
fn a_backing_gets_what_is_durable_alone() {
    let (device, backing, log) = small();
    log.commit_unsynced(one(1, 1)).unwrap();
    device.fail(0, Fault::Error);
    let brought = log.write_back(1);
    assert!(
        matches!(brought, Err(LogError::Poisoned { .. })),
        "it is not the backing that failed: {brought:?}"
    );
    assert_eq!(backing.bytes(1), None, "the log may not have it any more");
}

#[test]
fn threads_that_sync_lose_nothing() {
    let (device, backing, log) = small();
    let mut rng = fastrand::Rng::with_seed(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for number in 1..200 {
                    while let Err(error) = log.commit_unsynced(one(thread, number)) {
                        assert!(matches!(error, LogError::NoRoom { .. }), "{error}");
                        log.recycle().unwrap();
                    }
                    if number % 5 == 0 {
                        log.sync().unwrap();
                    }
                }
                log.sync().unwrap();
            });
        }
    });
    let log = after_a_cut(&device, &mut rng);
    log.attach(1, backing);
    (0..4).for_each(|block| assert_eq!(read(&log, block), bytes(199)));
}
