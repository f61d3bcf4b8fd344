//! Several volumes in one pool, all in use at once; one goes and comes back while the others work.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::fixtures::{BLOCK, block, get, open, put, quiet, tiny};
use forebay::{Backing, MemoryStore, Pool, Region, RuntimeOptions, Volume};

const VOLUMES: u64 = 3;
const BLOCKS: u64 = 48;

fn version_of(volume: u64, round: u64) -> u64 {
    volume * 1_000_000 + round
}

fn round(volume: &Volume, number: u64, round: u64) {
    for at in 0..BLOCKS {
        put(volume, at, &block(at, version_of(number, round)));
    }
    for at in (0..BLOCKS).rev() {
        let expected = block(at, version_of(number, round));
        assert!(
            get(volume, at).expect("read") == expected,
            "volume {number} block {at}"
        );
    }
}

fn attach(pool: &Pool, store: &Arc<MemoryStore>) -> Volume {
    let backing = Backing::from_store(store.clone());
    pool.attach(backing).expect("attach")
}

/// The pool holds about a third of what the volumes hold, so they push each other out all the time.
#[test]
fn one_volume_is_detached_and_attached_while_the_others_are_loaded() {
    let options = tiny()
        .volumes(VOLUMES as u32)
        .runtime(RuntimeOptions::default());
    let region = Region::shadow(16 << 10);
    let pool = Pool::create_on(vec![region], &options).expect("create");
    assert!(pool.stats().slots < VOLUMES * BLOCKS);
    let new_store = |_| Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
    let stores: Vec<Arc<MemoryStore>> = (0..VOLUMES).map(new_store).collect();
    let volumes: Vec<Volume> = stores.iter().map(|store| attach(&pool, store)).collect();
    let stopping = AtomicBool::new(false);
    let rounds: Vec<AtomicU64> = (0..VOLUMES).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for number in 1..VOLUMES {
            let (volume, rounds, stopping) = (&volumes[number as usize], &rounds, &stopping);
            scope.spawn(move || {
                for this in 1.. {
                    round(volume, number, this);
                    rounds[number as usize].store(this, Ordering::Relaxed);
                    // Asked last: a busy machine may start this thread when all is over.
                    if stopping.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let mut first = volumes[0].clone();
        for this in 1..=10 {
            round(&first, 0, this);
            let heard = &mut false;
            let detached = pool.detach_watched(first, &mut |progress| {
                *heard |= progress.dirty_blocks == 0;
                ControlFlow::Continue(())
            });
            detached.expect("detach");
            assert!(*heard);
            for at in 0..BLOCKS {
                let found = &stores[0].snapshot()[at as usize * BLOCK..][..BLOCK];
                assert!(
                    found == block(at, version_of(0, this)),
                    "behind, block {at}"
                );
            }
            assert_eq!(pool.volumes().len() as u64, VOLUMES - 1);
            first = attach(&pool, &stores[0]);
            assert!(get(&first, 3).expect("read") == block(3, version_of(0, this)));
        }
        stopping.store(true, Ordering::Relaxed);
    });
    for number in 1..VOLUMES {
        let last = rounds[number as usize].load(Ordering::Relaxed);
        assert!(last > 0, "the others went on");
        let volume = &volumes[number as usize];
        assert!(get(volume, 7).expect("read") == block(7, version_of(number, last)));
    }
    assert_eq!(pool.check(|_, _| {}).1, []);
}

#[test]
fn after_a_crash_every_volume_is_there_with_its_own_blocks() {
    let rig = crate::fixtures::Rig::new(&tiny(), 1);
    let stores = [
        rig.store.clone(),
        Arc::new(MemoryStore::new(64 * BLOCK as u64)),
    ];
    let volumes = stores.each_ref().map(|store| attach(&rig.pool, store));
    for number in 0..10 {
        put(&volumes[0], number, &block(number, 1));
        put(&volumes[1], number, &block(number, 2));
    }
    let pool = open(&rig.images(), quiet()).expect("open");
    assert_eq!(pool.volumes().len(), 2);
    let again = stores.each_ref().map(|store| attach(&pool, store));
    pool.detach(again[0].clone()).expect("detach");
    for number in 0..10 {
        assert!(get(&again[1], number).expect("read") == block(number, 2));
    }
    assert!(stores[0].snapshot()[5 * BLOCK..6 * BLOCK] == block(5, 1));
    assert_eq!(again[1].usage().cached_blocks, pool.stats().cached_blocks);
}
