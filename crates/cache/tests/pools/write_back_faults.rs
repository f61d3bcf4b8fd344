//! Write-back when the backing fails or the pool is full: it costs nothing that was acknowledged.

use std::time::Duration;

use crate::rig::{BLOCK, behind, bytes_of, faulty, get, put, rig, rig_with, try_put, wait_until};
use forebay::{ErrorKind, Pool};

#[test]
fn a_backing_that_fails_costs_nothing_and_is_drained_when_it_returns() {
    let rig = rig(8 << 20, false);
    let (memory, store, backing) = faulty(100);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    store.fail_writes(u64::MAX);
    for block in 0..10 {
        put(&volume, block, 1);
    }
    let error = volume.flush().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Backing { .. }), "{error}");
    let stats = rig.pool.stats();
    assert_eq!(stats.dirty_blocks, 10);
    assert!(stats.volumes[0].degraded);
    assert!(stats.totals.write_back_errors > 0);
    put(&volume, 3, 2);
    assert_eq!(
        get(&volume, 3),
        bytes_of(3, 2),
        "served from the pool meanwhile"
    );
    store.fail_writes(0);
    rig.pool.write_back_once().unwrap();
    assert_eq!(rig.pool.stats().dirty_blocks, 0);
    assert!(!rig.pool.stats().volumes[0].degraded);
    assert_eq!(behind(&memory, 3), bytes_of(3, 2));
    assert_eq!(behind(&memory, 9), bytes_of(9, 1));
}

#[test]
fn a_failed_sync_leaves_the_whole_batch_dirty() {
    let rig = rig(8 << 20, false);
    let (memory, store, backing) = faulty(100);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    for block in 0..10 {
        put(&volume, block, 1);
    }
    store.fail_syncs(1);
    assert!(volume.flush().is_err());
    assert_eq!(rig.pool.stats().dirty_blocks, 10);
    // What the system may have dropped is written again, all of it.
    volume.flush().unwrap();
    assert_eq!(backing.counters().blocks_written, 20);
    assert_eq!(rig.pool.stats().dirty_blocks, 0);
    assert_eq!(behind(&memory, 5), bytes_of(5, 1));
}

#[test]
fn one_write_that_fails_leaves_the_whole_batch_dirty() {
    let rig = rig(8 << 20, false);
    let (_, store, backing) = faulty(100);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    for block in [1, 2, 3, 50, 51, 52] {
        put(&volume, block, 1);
    }
    store.fail_writes(1);
    assert!(volume.flush().is_err());
    assert_eq!(rig.pool.stats().dirty_blocks, 6);
    assert_eq!(backing.counters().syncs, 1, "when it was attached");
    volume.flush().unwrap();
    assert_eq!(rig.pool.stats().dirty_blocks, 0);
}

#[test]
fn a_failing_volume_does_not_hold_up_another() {
    let rig = rig(8 << 20, false);
    let (_, broken, broken_backing) = faulty(100);
    let (memory, _, sound_backing) = faulty(100);
    let broken_volume = rig.pool.attach(broken_backing).unwrap();
    let sound_volume = rig.pool.attach(sound_backing).unwrap();
    broken.fail_writes(u64::MAX);
    for block in 0..10 {
        put(&broken_volume, block, 1);
        put(&sound_volume, block, 2);
    }
    assert!(rig.pool.write_back_once().is_err());
    assert_eq!(rig.pool.stats().dirty_blocks, 10);
    sound_volume.flush().unwrap();
    assert_eq!(behind(&memory, 4), bytes_of(4, 2));
    let degraded: Vec<bool> = rig
        .pool
        .stats()
        .volumes
        .iter()
        .map(|v| v.degraded)
        .collect();
    assert_eq!(degraded, [true, false]);
}

#[test]
fn background_threads_drain_a_backing_that_returns_without_being_asked() {
    let rig = rig_with(8 << 20, |options| options.dirty_high_per_mille(5));
    let (memory, store, backing) = faulty(1000);
    let volume = rig.pool.attach(backing).unwrap();
    store.fail_writes(u64::MAX);
    for block in 0..100 {
        put(&volume, block, 1);
    }
    wait_until("the volume is degraded", || {
        rig.pool.stats().volumes[0].degraded
    });
    store.fail_writes(0);
    store.fail_syncs(1);
    wait_until("everything is written back", || {
        rig.pool.stats().dirty_blocks == 0
    });
    assert!(!rig.pool.stats().volumes[0].degraded);
    for block in 0..100 {
        assert_eq!(behind(&memory, block), bytes_of(block, 1));
    }
}

/// Writes many times the pool's room and checks every byte, cached, evicted and behind the cache.
fn overcommit(background: bool) {
    const BLOCKS: u64 = 4000;
    let rig = rig(4 << 20, background);
    let (memory, store, backing) = faulty(BLOCKS as usize);
    let volume = rig.pool.attach(backing).unwrap();
    let threads = if background { 2 } else { 1 };
    let versions: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (volume, store) = (volume.clone(), store.clone());
                scope.spawn(move || {
                    let mut versions = vec![0; BLOCKS as usize];
                    let mut random = 99 + thread;
                    for step in 1..=8000u64 {
                        random = (random ^ step)
                            .wrapping_mul(0xFF51_AFD7_ED55_8CCD)
                            .rotate_left(29);
                        let block = random % BLOCKS / threads * threads + thread;
                        put(&volume, block, step);
                        versions[block as usize] = step;
                        if background && step % 1000 == 0 {
                            store.fail_writes(3);
                            store.fail_syncs(2);
                        }
                    }
                    versions
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    let expected = |block: u64| match versions[(block % threads) as usize][block as usize] {
        0 => vec![0; BLOCK],
        version => bytes_of(block, version),
    };
    store.fail_writes(0);
    store.fail_syncs(0);
    for block in 0..BLOCKS {
        assert_eq!(
            get(&volume, block),
            expected(block),
            "block {block} through the cache"
        );
    }
    volume.flush().unwrap();
    let stats = rig.pool.stats();
    assert_eq!(stats.dirty_blocks, 0);
    assert!(stats.totals.evictions > BLOCKS, "{stats:?}");
    let snapshot = memory.snapshot();
    for block in 0..BLOCKS {
        let at = block as usize * BLOCK;
        assert_eq!(
            snapshot[at..at + BLOCK],
            expected(block),
            "block {block} behind the cache"
        );
    }
}

#[test]
fn a_writer_past_capacity_loses_nothing_when_it_drives_the_stages_itself() {
    overcommit(false);
}

#[test]
fn writers_past_capacity_lose_nothing_with_background_threads_and_a_flapping_backing() {
    overcommit(true);
}

#[test]
fn a_full_pool_in_front_of_a_dead_backing_refuses_writes_and_keeps_what_it_has() {
    for background in [false, true] {
        let rig = rig_with(2 << 20, |options| {
            options
                .background(background)
                .throttle_deadline(Duration::from_millis(50))
        });
        let (memory, store, backing) = faulty(4000);
        let volume = rig.pool.attach(backing).unwrap();
        store.fail_writes(u64::MAX);
        let mut written = 0;
        let error = loop {
            match try_put(&volume, written, 1) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 4000, "the pool cannot hold that much");
        };
        assert!(matches!(error.kind(), ErrorKind::Stalled { .. }), "{error}");
        assert_eq!(rig.pool.stats().dirty_blocks, written);
        for block in 0..written {
            assert_eq!(get(&volume, block), bytes_of(block, 1));
        }
        store.fail_writes(0);
        wait_until("the backing is asked again", || {
            try_put(&volume, written, 1).is_ok()
        });
        volume.flush().unwrap();
        for block in 0..=written {
            assert_eq!(behind(&memory, block), bytes_of(block, 1));
        }
    }
}

#[test]
fn dropping_a_pool_stops_its_threads_in_the_middle_of_everything() {
    for _ in 0..10 {
        let rig = rig_with(4 << 20, |options| options.dirty_high_per_mille(5));
        let (_, store, backing) = faulty(2000);
        let volume = rig.pool.attach(backing).unwrap();
        store.fail_writes(5);
        for block in 0..600 {
            put(&volume, block, 1);
        }
        drop(volume);
        drop(rig);
    }
}

#[test]
fn what_waited_for_its_backing_to_be_attached_counted_as_a_failure_of_it() {
    let rig = rig(8 << 20, false);
    let (_, _, backing) = faulty(100);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    put(&volume, 1, 1);
    drop(volume);
    let path = rig.path.clone();
    let _folder = rig.into_folder();
    let pool = Pool::open(&[&path]).unwrap();
    pool.write_back_once().unwrap_err();
    let stats = pool.stats();
    assert_eq!(stats.volumes[0].failures, 0);
    assert!(stats.volumes[0].last_error.is_some(), "it is waited for");
    let volume = pool.attach(backing).unwrap();
    volume.flush().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.dirty_blocks, stats.volumes[0].failures), (0, 0));
}
