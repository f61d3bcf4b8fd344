//! Marks: a backing's newest data is in one pool, and no other takes it meanwhile.

use std::sync::Arc;
use std::time::Duration;

use forebay::{ErrorKind, FaultyStore, Medium, MemoryStore, Pool, PoolOptions};

use crate::rig::*;

fn second(place: &Place) -> Pool {
    let options = PoolOptions::new(place.file("second"), POOL_BYTES).medium(Medium::Ssd);
    Pool::create(&options).expect("create")
}

#[test]
fn a_backing_whose_newest_data_is_in_one_pool_is_refused_by_another() {
    let Some(place) = Place::find("a_backing_whose_newest_data_is_in_one_pool") else {
        return;
    };
    let path = place.image("disk", 1 << 20);
    let (pool, other) = (place.create(), second(&place));
    let volume = pool.attach(image(&path)).expect("attach");
    volume.write(1, &bytes(1)).expect("write");
    drop((volume, pool));
    let error = other
        .attach(image(&path))
        .expect_err("its newest data is elsewhere");
    assert!(matches!(error.kind(), ErrorKind::Stale { .. }), "{error}");
    let pool = place.open();
    let volume = pool.attach(image(&path)).expect("it is this one's");
    assert_eq!(read(&volume, 1), bytes(1));
    volume.flush().expect("flush");
    pool.close().expect("close");
    drop(volume);
    // It has everything now, and its mark says so.
    let volume = other.attach(image(&path)).expect("whole");
    assert_eq!(read(&volume, 1), bytes(1));
    volume.write(1, &bytes(2)).expect("write");
    other.detach(volume).expect("detach");
    let pool = place.open();
    let error = pool.attach(image(&path)).expect_err("another pool had it");
    assert!(matches!(error.kind(), ErrorKind::Stale { .. }), "{error}");
    let volume = pool.attach_stale(image(&path)).expect("as it is");
    assert_eq!(read(&volume, 1), bytes(2), "the clean block went");
}

#[test]
fn a_volume_that_was_whole_at_the_close_has_nothing_dirty_afterwards() {
    let Some(place) = Place::find("a_volume_that_was_whole_at_the_close") else {
        return;
    };
    let path = place.image("disk", 1 << 20);
    let pool = place.create();
    let volume = pool.attach(image(&path)).expect("attach");
    for block in 0..100 {
        volume.write(block, &bytes(block)).expect("write");
    }
    volume.flush().expect("flush");
    pool.close().expect("close");
    drop(volume);
    let (report, _) = Pool::dry_run(&[place.path()]).expect("a look");
    assert_eq!((report.blocks, report.dirty_blocks), (100, 0));
}

#[test]
fn another_file_of_the_same_name_is_refused() {
    let Some(place) = Place::find("another_file_of_the_same_name") else {
        return;
    };
    let path = place.image("disk", 1 << 20);
    let pool = place.create();
    let volume = pool.attach(image(&path)).expect("attach");
    volume.write(1, &bytes(1)).expect("write");
    volume.write(2, &bytes(2)).expect("write");
    pool.close().expect("close");
    drop(volume);
    let kept = place.file("kept");
    std::fs::rename(&path, kept).expect("move");
    place.image("disk", 1 << 20);
    let pool = place.open();
    let error = pool.attach(image(&path)).expect_err("another file");
    assert!(error.to_string().contains("it is another file"), "{error}");
    let volume = pool.attach_stale(image(&path)).expect("to go on with it");
    assert_eq!(read(&volume, 1), bytes(1), "dirty blocks stay");
    volume.flush().expect("flush");
}

#[test]
fn closes_leave_the_segments_that_recycling_goes_on_with() {
    let Some(place) = Place::find("closes_leave_the_segments") else {
        return;
    };
    let path = place.image("disk", 1 << 20);
    let memory = Arc::new(MemoryStore::new(32 << 20));
    let store = Arc::new(FaultyStore::new(memory.clone()));
    let short = || {
        let runtime = runtime().background(false);
        runtime.throttle_deadline(Duration::from_millis(50))
    };
    let pool = Pool::create(&place.options().runtime(short())).expect("create");
    drop(pool.attach(image(&path)).expect("attach"));
    let full = pool.attach(backing(&store)).expect("attach");
    store.fail_writes(u64::MAX);
    let mut written = 0;
    while full.write(written, &bytes(written)).is_ok() {
        written += 1;
    }
    drop((full, pool));
    // A record of each, in a segment of its own, would take what is left.
    for _ in 0..4 {
        let pool = Pool::open_with(&[place.path()], short()).expect("open");
        let volume = pool.attach(image(&path)).expect("attach");
        drop(volume);
        pool.close().expect("the marks stay open");
    }
    store.fail_writes(0);
    let pool = place.open();
    let full = pool.attach(backing(&store)).expect("attach");
    full.write(written, &bytes(written)).expect("room is made");
    full.flush().expect("flush");
    let snapshot = memory.snapshot();
    for block in 0..=written {
        let found = &snapshot[block as usize * BLOCK..][..BLOCK];
        assert!(found == bytes(block), "block {block}");
    }
}
