//! Settings that change while a pool is open take effect while threads are at work, and lose no block.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixtures::{BLOCK, Rig, block, get, put, tiny};
use forebay::{ReplacementPolicy, RuntimeOptions, VerifyPolicy};

#[test]
fn the_policies_can_be_asked_and_changed() {
    let rig = Rig::new(&tiny(), 1);
    assert_eq!(rig.pool.replacement(), ReplacementPolicy::Sieve);
    rig.pool.set_replacement(ReplacementPolicy::Lru);
    rig.pool.set_verify(VerifyPolicy::Never);
    let stats = rig.pool.stats();
    assert_eq!(stats.replacement, ReplacementPolicy::Lru);
    assert_eq!(stats.verify, VerifyPolicy::Never);
}

#[test]
fn least_recently_used_goes_first_once_that_is_the_policy() {
    let rig = Rig::new(&tiny(), 1);
    let volume = rig.attach();
    for number in 0..10 {
        put(&volume, number, &block(number, 1));
    }
    volume.flush().expect("flush");
    for policy in [
        ReplacementPolicy::Lru,
        ReplacementPolicy::Sieve,
        ReplacementPolicy::Lru,
    ] {
        rig.pool.set_replacement(policy);
        assert_eq!(rig.pool.stats().cached_blocks, 10, "{policy:?}");
    }
    // Read backwards, all but 4 and 7: these are the oldest.
    for number in (0..10).rev().filter(|number| ![4, 7].contains(number)) {
        get(&volume, number).expect("read");
    }
    let misses = || rig.pool.stats().totals.read_misses;
    assert_eq!(
        (rig.pool.reclaim_once(2).expect("reclaim"), misses()),
        (2, 0)
    );
    for number in (0..10).filter(|number| ![4, 7].contains(number)) {
        get(&volume, number).expect("read");
    }
    assert_eq!(misses(), 0);
    get(&volume, 4).expect("read");
    get(&volume, 7).expect("read");
    assert_eq!(misses(), 2);
}

/// A pool much smaller than its volume evicts all the time; every block that is cached must stay
/// known to the policy that is asked for victims, or the pool fills up for good.
#[test]
fn policies_are_switched_under_load() {
    const WRITERS: u64 = 2;
    const ROUNDS: u64 = 40;
    let options = tiny().runtime(RuntimeOptions::default());
    let rig = Rig::with_backing(&options, 1, 400 * BLOCK as u64);
    let volume = rig.attach();
    assert!(rig.pool.stats().slots < 100);
    let done = AtomicBool::new(false);
    let work = |writer: u64| {
        for version in 1..=ROUNDS {
            for number in (writer..400).step_by(WRITERS as usize) {
                put(&volume, number, &block(number, version));
                assert!(get(&volume, number).expect("read") == block(number, version));
            }
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || work(writer)))
            .collect();
        let done = &done;
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                rig.pool.set_replacement(ReplacementPolicy::Lru);
                rig.pool.set_replacement(ReplacementPolicy::Sieve);
            }
        });
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    let stats = rig.pool.stats();
    assert_eq!(stats.cached_blocks, volume.usage().cached_blocks);
    for number in 0..400 {
        assert!(get(&volume, number).expect("read") == block(number, ROUNDS));
    }
}
