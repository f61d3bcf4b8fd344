//! Backings that fail: writers go on as long as there is room, and nothing is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::{Backing, ErrorKind, FaultyStore, FileBackingOptions, FileStore, MemoryStore, Pool};

use crate::rig::*;

/// Blocks of a segment of the smallest pools.
const SEGMENT_BLOCKS: u64 = 256;
/// More than the ring of a pool of this size has.
const RING_SEGMENTS: u64 = POOL_BYTES / (SEGMENT_BLOCKS * BLOCK as u64);

#[test]
fn a_backing_that_fails_holds_up_writers_only_when_the_ring_is_full() {
    let Some(place) = Place::find("a_backing_that_fails_holds_up_writers") else {
        return;
    };
    let memory = Arc::new(MemoryStore::new(32 << 20));
    let store = Arc::new(FaultyStore::new(memory.clone()));
    let options = runtime().throttle_deadline(Duration::from_millis(300));
    let pool = Pool::create(&place.options().runtime(options)).expect("create");
    let volume = pool.attach(backing(&store)).expect("attach");
    store.fail_writes(u64::MAX);
    let mut written = 0;
    let error = loop {
        match volume.write(written, &bytes(written)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind(), ErrorKind::Stalled { .. }), "{error}");
    assert!(written > 700, "{written} blocks found room");
    assert!(pool.stats().volumes[0].degraded);
    for block in 0..written {
        assert_eq!(read(&volume, block), bytes(block));
    }
    store.fail_writes(0);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while volume.write(written, &bytes(written)).is_err() {
        assert!(std::time::Instant::now() < deadline, "it comes back");
    }
    volume.flush().expect("flush");
    assert!(!pool.stats().volumes[0].degraded);
    let snapshot = memory.snapshot();
    for block in 0..=written {
        let found = &snapshot[block as usize * BLOCK..][..BLOCK];
        assert!(found == bytes(block), "block {block}");
    }
}

#[test]
fn a_writer_does_not_wait_for_room_in_a_pool_that_is_closed_soon() {
    let Some(place) = Place::find("a_writer_does_not_wait_for_room") else {
        return;
    };
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(32 << 20))));
    // Longer than the test may take.
    let options = runtime().throttle_deadline(Duration::from_secs(24 * 3600));
    let pool = Pool::create(&place.options().runtime(options)).expect("create");
    let volume = pool.attach(backing(&store)).expect("attach");
    store.fail_writes(u64::MAX);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut blocks = 0..8192;
            blocks.try_for_each(|block| volume.write(block, &bytes(block)))
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while pool.stats().waiting_writers == 0 {
            assert!(Instant::now() < deadline, "the ring is full");
            std::thread::yield_now();
        }
        pool.end_waits();
        let error = writer
            .join()
            .expect("it ends")
            .expect_err("there is no room");
        assert!(matches!(error.kind(), ErrorKind::Closed { .. }), "{error}");
    });
    assert_eq!(read(&volume, 0), bytes(0));
}

#[test]
fn a_backing_that_does_not_give_a_block_is_the_readers_error_alone() {
    let Some(place) = Place::find("a_backing_that_does_not_give_a_block") else {
        return;
    };
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(1 << 20))));
    let pool = place.create();
    let volume = pool.attach(backing(&store)).expect("attach");
    volume.write(1, &bytes(1)).expect("write");
    store.fail_reads(2);
    let error = volume.read(0, &mut [0; BLOCK]).expect_err("a miss");
    assert!(matches!(error.kind(), ErrorKind::Backing { .. }), "{error}");
    let mut part = volume.begin();
    part.write_at(5, &[1]).expect("gathered");
    let error = part.commit().expect_err("the rest of the block");
    assert!(matches!(error.kind(), ErrorKind::Backing { .. }), "{error}");
    assert_eq!(read(&volume, 1), bytes(1));
    assert_eq!(read(&volume, 0), vec![0; BLOCK]);
}

#[test]
fn without_a_thread_callers_make_room_themselves() {
    let Some(place) = Place::find("without_a_thread_callers_make_room") else {
        return;
    };
    let memory = Arc::new(MemoryStore::new(32 << 20));
    let options = place.options().background(false);
    let pool = Pool::create(&options).expect("create");
    let volume = pool.attach(backing(&memory)).expect("attach");
    for number in 0..8000 {
        volume.write(number, &bytes(number)).expect("write");
    }
    assert!(pool.stats().ssd.expect("on an SSD").recycled_segments > 10);
    for number in (0..8000).step_by(37) {
        assert_eq!(read(&volume, number), bytes(number));
    }
    assert!(pool.write_back_once().expect("write back") > 0);
    // Held beyond the pool, which was only dropped.
    drop(pool);
    volume.write(0, &bytes(5)).expect("write");
    let error = Pool::open(&[place.path()]).expect_err("still locked");
    assert!(error.to_string().contains("open"), "{error}");
    drop(volume);
    place.open().close().expect("close");
}

#[test]
fn writers_that_wait_do_not_make_the_ring_turn_where_nothing_comes_free() {
    let Some(place) = Place::find("writers_that_wait_do_not_make_the_ring_turn") else {
        return;
    };
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(32 << 20))));
    let options = runtime().throttle_deadline(Duration::from_millis(300));
    let pool = Pool::create(&place.options().runtime(options)).expect("create");
    let volume = pool.attach(backing(&store)).expect("attach");
    store.fail_writes(u64::MAX);
    let mut written = 0;
    while volume.write(written, &bytes(written)).is_ok() {
        written += 1;
    }
    let counted = || pool.stats().ssd.expect("on an SSD").carried_blocks;
    let (before, began) = (counted(), Instant::now());
    let mut refused = 0;
    while refused < 5 {
        // Each that waits wakes the thread several times; what was carried may leave room for a page.
        refused += u32::from(volume.write(written, &bytes(written)).is_err());
    }
    let carried = counted() - before;
    // A lap of the ring frees what the records of single blocks took, and no lap after it does. Then the thread tries it once a
    // second, and once more where a page came free; a try carries a segment at most.
    let tries = RING_SEGMENTS + 2 * (2 + began.elapsed().as_secs());
    assert!(
        carried <= tries * SEGMENT_BLOCKS,
        "{carried} blocks were carried forward in {tries} tries"
    );
}

#[test]
fn slow_backings_that_take_what_they_are_given_are_waited_for() {
    let Some(place) = Place::find("slow_backings_that_take_what_they_are_given") else {
        return;
    };
    let stores: Vec<_> = (0..8)
        .map(|_| FaultyStore::new(Arc::new(MemoryStore::new(8 << 20))))
        .map(Arc::new)
        .collect();
    let options = runtime().throttle_deadline(Duration::from_secs(1));
    let pool = Pool::create(&place.options().runtime(options)).expect("create");
    let attach = |store| pool.attach(backing(store)).expect("attach");
    let volumes: Vec<_> = stores.iter().map(attach).collect();
    let delay = |delay| stores.iter().for_each(|store| store.delay_requests(delay));
    // A segment has blocks of all, and each is written and synced: that takes over twice as long as a writer waits where nothing goes
    // on, and a single request much less.
    delay(Duration::from_millis(150));
    let mut written = 0;
    while pool.stats().ssd.expect("on an SSD").recycled_segments < 2 {
        let done = volumes[written as usize % 8].write(written / 8, &bytes(written));
        done.unwrap_or_else(|error| panic!("block {written}: {error}"));
        written += 1;
    }
    delay(Duration::ZERO);
    for number in 0..written {
        let found = read(&volumes[number as usize % 8], number / 8);
        assert!(found == bytes(number), "block {number}");
    }
}

#[test]
fn a_backing_that_takes_writes_and_fails_syncs_is_not_waited_for() {
    let Some(place) = Place::find("a_backing_that_takes_writes_and_fails_syncs") else {
        return;
    };
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(32 << 20))));
    let options = runtime().throttle_deadline(Duration::from_millis(300));
    let pool = Pool::create(&place.options().runtime(options)).expect("create");
    let volume = pool.attach(backing(&store)).expect("attach");
    store.fail_syncs(u64::MAX);
    let mut written = 0;
    let error = loop {
        match volume.write(written, &bytes(written)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 8192, "the pool has room for fewer");
    };
    assert!(matches!(error.kind(), ErrorKind::Stalled { .. }), "{error}");
}

#[test]
fn a_lost_disk_whose_blocks_fill_the_ring_can_be_given_up() {
    let Some(place) = Place::find("a_lost_disk_whose_blocks_fill_the_ring") else {
        return;
    };
    // The thread comes back to recycling that failed after a longer pause.
    let options = || runtime().throttle_deadline(Duration::from_millis(500));
    let store = || Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(32 << 20))));
    let (lost, other) = (store(), store());
    let fill = |volume: &forebay::Volume| {
        let mut written = 0;
        while volume.write(written, &bytes(written)).is_ok() {
            written += 1;
        }
        written
    };
    let pool = Pool::create(&place.options().runtime(options())).expect("create");
    lost.fail_writes(u64::MAX);
    let written = fill(&pool.attach(backing(&lost)).expect("attach"));
    drop(pool);

    let pool = Pool::open_with(&[place.path()], options()).expect("open");
    let lost = pool.volumes().remove(0);
    let volume = pool.attach(backing(&other)).expect("attach");
    for _ in 0..3 {
        fill(&volume);
    }
    assert_eq!(pool.discard_volume(lost).expect("given up"), written);
    volume.write(0, &bytes(9)).expect("there is room");
    assert_eq!(read(&volume, 0), bytes(9));
}

#[test]
fn the_rest_of_a_long_discard_is_zeroed_while_nothing_else_is_to_be_done() {
    let Some(place) = Place::find("the_rest_of_a_long_discard") else {
        return;
    };
    // More than a turn zeroes, several times.
    const DISCARDED: u64 = 70_000;
    let store = Arc::new(MemoryStore::from_bytes(vec![7; 300 << 20]));
    let pool = place.create();
    let volume = pool.attach(backing(&store)).expect("attach");
    volume.discard(0..DISCARDED).expect("discard");
    let mut written = 0;
    while pool.stats().ssd.expect("on an SSD").recycled_segments == 0 {
        let block = DISCARDED + written % 1000;
        volume.write(block, &bytes(written)).expect("write");
        written += 1;
    }
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while volume.usage().dirty_blocks >= 1001 {
        assert!(std::time::Instant::now() < deadline, "it is zeroed");
        std::thread::sleep(Duration::from_millis(10));
    }
    let zeroed = DISCARDED as usize * BLOCK;
    assert!(store.snapshot()[..zeroed].iter().all(|byte| *byte == 0));
}

/// A program may have to commit something before it can say where the rest belongs.
#[test]
fn a_full_ring_that_was_opened_again_had_no_room_before_its_backing_took_anything() {
    let Some(place) = Place::find("a_full_ring_that_was_opened_again") else {
        return;
    };
    let image = place.image("disk", 32 << 20);
    let store = FileStore::open(&image, FileBackingOptions::default()).expect("an image");
    let store = Arc::new(FaultyStore::new(Arc::new(store)));
    let options = runtime().throttle_deadline(Duration::from_millis(300));
    let pool = Pool::create(&place.options().runtime(options.clone())).expect("create");
    let volume = pool
        .attach(Backing::from_store(store.clone()))
        .expect("attach");
    store.fail_writes(u64::MAX);
    let mut written = 0;
    while volume.write(written, &bytes(written)).is_ok() {
        written += 1;
    }
    // As after a kill.
    drop((volume, pool));
    let options = options.background(false);
    let pool = Pool::open_with(&[place.path()], options).expect("open");
    let volume = pool
        .attach(Backing::from_store(store.clone()))
        .expect("attach");
    for block in 0..20 {
        volume.write(block, &bytes(block + 1)).expect("room");
    }
    store.fail_writes(0);
    volume.flush().expect("flush");
    for block in 0..written {
        let shift = u64::from(block < 20);
        assert_eq!(read(&volume, block), bytes(block + shift), "block {block}");
    }
    drop(volume);
    pool.close().expect("close");
}
