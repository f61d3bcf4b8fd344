//! Volumes: they come, grow, go, and nothing of one is seen by another.

use std::sync::Arc;

use forebay::{BackingStore, ErrorKind, MemoryStore};

use crate::rig::*;

#[test]
fn the_next_volume_of_a_number_finds_nothing_of_the_one_before() {
    let Some(place) = Place::find("the_next_volume_of_a_number") else {
        return;
    };
    let pool = place.create();
    let first = Arc::new(MemoryStore::new(1 << 20));
    let volume = pool.attach(backing(&first)).expect("attach");
    let id = volume.id();
    volume.write(3, &bytes(3)).expect("write");
    let held = volume.clone();
    pool.detach(volume).expect("detach");
    assert_eq!(&first.snapshot()[3 * BLOCK..4 * BLOCK], &bytes(3));
    let error = held.write(3, &bytes(4)).expect_err("it was detached");
    assert!(matches!(error.kind(), ErrorKind::Volume(_)), "{error}");
    let error = held.read(3, &mut [0; BLOCK]).expect_err("it was detached");
    assert!(matches!(error.kind(), ErrorKind::Volume(_)), "{error}");
    let second = Arc::new(MemoryStore::from_bytes(vec![6; 1 << 20]));
    let volume = pool.attach(backing(&second)).expect("attach another");
    assert_ne!(volume.id(), id);
    assert_eq!(read(&volume, 3), vec![6; BLOCK]);
    volume.write(5, &bytes(5)).expect("write");
    let mut blocks = 0;
    held.cached_blocks(|_, _| blocks += 1);
    assert_eq!(
        (held.usage().cached_blocks, blocks),
        (0, 0),
        "of the one before"
    );
    assert!(volume.usage().cached_blocks > 0);
    drop((volume, held, pool));
    let pool = place.open();
    let known: Vec<u64> = pool
        .stats()
        .volumes
        .iter()
        .map(|one| one.size_bytes)
        .collect();
    assert_eq!(known, [1 << 20]);
}

#[test]
fn a_volume_of_odd_size_grows_with_its_backing() {
    let Some(place) = Place::find("a_volume_of_odd_size_grows") else {
        return;
    };
    let store = Arc::new(MemoryStore::new(10_000));
    let pool = place.create();
    let volume = pool.attach(backing(&store)).expect("attach");
    assert_eq!((volume.size_bytes(), volume.blocks()), (10_000, 3));
    volume.write(2, &bytes(2)).expect("the last block");
    let error = volume.read_at(9_999, &mut [0; 2]).expect_err("outside");
    assert!(
        matches!(error.kind(), ErrorKind::OutOfRange { .. }),
        "{error}"
    );
    volume.flush().expect("flush");
    store.resize(20_000);
    // What lies behind the old end is the backing's.
    assert_eq!(pool.grow_volume(&volume).expect("grow"), 20_000);
    assert_eq!(volume.blocks(), 5);
    let last = read(&volume, 2);
    assert_eq!(&last[..10_000 - 8192], &bytes(2)[..10_000 - 8192]);
    assert!(last[10_000 - 8192..].iter().all(|byte| *byte == 0));
    volume.write(4, &bytes(4)).expect("write");
    drop((volume, pool));
    let pool = place.open();
    let volume = pool.attach(backing(&store)).expect("attach");
    assert_eq!(volume.size_bytes(), 20_000);
    assert_eq!(read(&volume, 4), bytes(4));
    store.resize(15_000);
    let error = pool.grow_volume(&volume).expect_err("it shrank");
    assert!(error.to_string().contains("cannot shrink"), "{error}");
}

#[test]
fn several_volumes_are_used_by_several_threads() {
    let Some(place) = Place::find("several_volumes_are_used_by_several_threads") else {
        return;
    };
    let stores: Vec<_> = (0..3)
        .map(|_| Arc::new(MemoryStore::new(4 << 20)))
        .collect();
    let pool = place.create();
    std::thread::scope(|scope| {
        for (number, store) in (0..).zip(&stores) {
            let pool = &pool;
            scope.spawn(move || {
                let volume = pool.attach(backing(store)).expect("attach");
                for step in 0..3000u64 {
                    let block = step * 7 % 1000;
                    volume
                        .write(block, &bytes(number << 32 | step))
                        .expect("write");
                    assert_eq!(read(&volume, block), bytes(number << 32 | step));
                }
                pool.detach(volume).expect("detach");
            });
        }
    });
    for (number, store) in (0..).zip(&stores) {
        let snapshot = store.snapshot();
        for step in 2000..3000u64 {
            let block = (step * 7 % 1000) as usize;
            let found = &snapshot[block * BLOCK..][..BLOCK];
            assert!(
                found == bytes(number << 32 | step),
                "block {block} of volume {number}"
            );
        }
        assert!(store.counters().syncs > 0);
    }
}

#[test]
fn a_volume_whose_backing_is_lost_is_given_up() {
    let Some(place) = Place::find("a_volume_whose_backing_is_lost") else {
        return;
    };
    let path = place.image("disk", 1 << 20);
    let pool = place.create();
    let volume = pool.attach(image(&path)).expect("attach");
    volume.write(1, &bytes(1)).expect("write");
    let error = pool
        .discard_volume(volume.clone())
        .expect_err("it is in use");
    assert!(error.to_string().contains("detach it"), "{error}");
    drop((volume, pool));
    let pool = place.open();
    let [volume] = &pool.volumes()[..] else {
        panic!("it is known")
    };
    assert_eq!(pool.discard_volume(volume.clone()).expect("given up"), 1);
    assert!(pool.volumes().is_empty());
    // It comes back after all, and has not what was acknowledged.
    let error = pool.attach(image(&path)).expect_err("an old copy");
    assert!(matches!(error.kind(), ErrorKind::Stale { .. }), "{error}");
    let volume = pool.attach_stale(image(&path)).expect("as it is");
    assert_eq!(read(&volume, 1), vec![0; BLOCK]);
}

#[test]
fn a_clean_volume_goes_without_its_backing() {
    let Some(place) = Place::find("a_clean_volume_goes_without_its_backing") else {
        return;
    };
    let store = Arc::new(MemoryStore::new(1 << 20));
    let pool = place.create();
    let volume = pool.attach(backing(&store)).expect("attach");
    volume.write(1, &bytes(1)).expect("write");
    volume.flush().expect("flush");
    pool.close().expect("close");
    drop(volume);
    let pool = place.open();
    let [volume] = &pool.volumes()[..] else {
        panic!("it is known")
    };
    volume.flush().expect("nothing is dirty");
    pool.detach(volume.clone()).expect("nothing is dirty");
    assert!(pool.volumes().is_empty());
}

#[test]
fn a_watcher_may_read_the_volume_that_goes() {
    let Some(place) = Place::find("a_watcher_may_read_the_volume") else {
        return;
    };
    let store = Arc::new(MemoryStore::new(4 << 20));
    let pool = place.create();
    let volume = pool.attach(backing(&store)).expect("attach");
    for block in 0..600 {
        volume.write(block, &bytes(block)).expect("write");
    }
    let (told, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut calls, mut left) = (0, None);
        let watched = volume.clone();
        let detached = pool.detach_watched(volume, &mut |progress| {
            // It may be gone, but it answers.
            drop(watched.read(1, &mut [0; BLOCK]));
            calls += 1;
            left = Some((progress.dirty_blocks, progress.written_blocks));
            std::ops::ControlFlow::Continue(())
        });
        told.send((detached.is_ok(), calls, left))
            .expect("it waits");
    });
    let ended = ends.recv_timeout(std::time::Duration::from_secs(60));
    let (is_detached, calls, left) = ended.expect("the watcher waits for ever");
    assert!(is_detached && calls > 2, "{calls} calls");
    assert_eq!(left, Some((0, 600)));
}

#[test]
fn what_was_missed_does_not_keep_a_backing_that_goes() {
    let Some(place) = Place::find("what_was_missed_does_not_keep_a_backing") else {
        return;
    };
    let store = Arc::new(MemoryStore::new(1 << 20));
    for has_thread in [false, true] {
        let name = place.file(if has_thread { "with" } else { "without" });
        let options = forebay::PoolOptions::new(name, POOL_BYTES)
            .medium(forebay::Medium::Ssd)
            .runtime(runtime().background(has_thread));
        let pool = forebay::Pool::create(&options).expect("create");
        let volume = pool.attach(backing(&store)).expect("attach");
        for _ in 0..3 {
            for block in 0..200 {
                assert_eq!(read(&volume, block), vec![0; BLOCK]);
            }
        }
        pool.detach(volume).expect("detach");
        if !has_thread {
            assert_eq!(Arc::strong_count(&store), 1);
        }
        pool.close().expect("close");
        assert_eq!(Arc::strong_count(&store), 1);
    }
}
