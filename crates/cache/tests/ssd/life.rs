//! One life after the other: what was acknowledged is there, in the pool and then on the backing.

use std::sync::Arc;

use forebay::{BackingStore, MemoryStore};

use crate::rig::*;

#[test]
fn what_was_written_is_there_after_a_close_and_after_an_end_without_one() {
    let Some(place) = Place::find("what_was_written_is_there_after_a_close") else {
        return;
    };
    let store = Arc::new(MemoryStore::new(1 << 20).marked());
    let pool = place.create();
    let volume = pool.attach(backing(&store)).expect("attach");
    assert_eq!((volume.block_size(), volume.blocks()), (BLOCK, 256));
    volume.write(3, &bytes(3)).expect("write");
    let mut transaction = volume.begin();
    transaction.write(4, &bytes(4)).expect("write");
    transaction
        .write_at(5 * 4096 + 10, &[7; 5000])
        .expect("a part");
    let mut seen = vec![0; 2 * BLOCK];
    transaction.read(5, &mut seen).expect("its own");
    assert_eq!((seen[9], seen[10], seen[5009], seen[5010]), (0, 7, 7, 0));
    transaction.commit().expect("commit");
    pool.close().expect("close");
    assert!(volume.write(3, &bytes(9)).is_err(), "the pool is closed");

    let pool = place.open();
    let volume = pool.attach(backing(&store)).expect("attach again");
    assert_eq!(read(&volume, 3), bytes(3));
    assert_eq!(read(&volume, 4), bytes(4));
    let mut parts = vec![0; 2 * BLOCK];
    volume.read_atomic(5, &mut parts).expect("read");
    assert_eq!(
        (parts[9], parts[10], parts[5009], parts[5010]),
        (0, 7, 7, 0)
    );
    let mut appended = volume.begin();
    appended.append(5, 20, &[8; 4]).expect("append");
    appended.commit().expect("commit");
    assert_eq!(&read(&volume, 5)[18..26], &[7, 7, 8, 8, 8, 8, 0, 0]);
    // As a kill leaves it.
    drop((volume, pool));

    let pool = place.open();
    let volume = pool.attach(backing(&store)).expect("attach a third time");
    assert_eq!(&read(&volume, 5)[18..26], &[7, 7, 8, 8, 8, 8, 0, 0]);
    assert_eq!(store.snapshot()[3 * BLOCK], 0, "not written back yet");
    volume.flush().expect("flush");
    assert_eq!(&store.snapshot()[3 * BLOCK..4 * BLOCK], &bytes(3));
    assert_eq!(volume.usage().dirty_blocks, 0);
    pool.detach(volume).expect("detach");
    assert!(pool.volumes().is_empty());
    pool.close().expect("close");
}

#[test]
fn a_discard_reads_as_zeroes_at_once_and_on_the_backing_later() {
    let Some(place) = Place::find("a_discard_reads_as_zeroes") else {
        return;
    };
    let store = Arc::new(MemoryStore::from_bytes(vec![9; 1 << 20]));
    let pool = place.create();
    let volume = pool.attach(backing(&store)).expect("attach");
    volume.write(10, &bytes(1)).expect("write");
    volume.discard(5..200).expect("discard");
    assert_eq!(read(&volume, 10), vec![0; BLOCK]);
    assert_eq!(read(&volume, 4), vec![9; BLOCK]);
    let mut part = volume.begin();
    part.write_at(11 * 4096 + 1, &[3])
        .expect("a part of what is zero");
    part.commit().expect("commit");
    drop((volume, pool));
    let pool = place.open();
    let volume = pool.attach(backing(&store)).expect("attach");
    assert_eq!(read(&volume, 199), vec![0; BLOCK]);
    assert_eq!(&read(&volume, 11)[..3], &[0, 3, 0]);
    volume.flush().expect("flush");
    let snapshot = store.snapshot();
    assert!(
        snapshot[5 * BLOCK..11 * BLOCK]
            .iter()
            .all(|byte| *byte == 0)
    );
    assert_eq!(snapshot[11 * BLOCK + 1], 3);
    assert_eq!((snapshot[4 * BLOCK], snapshot[200 * BLOCK]), (9, 9));
}

#[test]
fn what_is_read_twice_is_brought_in() {
    let Some(place) = Place::find("what_is_read_twice_is_brought_in") else {
        return;
    };
    let store = Arc::new(MemoryStore::from_bytes(vec![5; 1 << 20]));
    let pool = place.create();
    let volume = pool.attach(backing(&store)).expect("attach");
    for _ in 0..200 {
        assert_eq!(read(&volume, 7), vec![5; BLOCK]);
        if pool.stats().totals.fills > 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(volume.usage().cached_blocks, 1);
    let reads = store.counters().reads;
    assert_eq!(read(&volume, 7), vec![5; BLOCK]);
    assert_eq!(store.counters().reads, reads, "the pool has it");
    let totals = pool.stats().totals;
    assert!(totals.fills == 1 && totals.read_hits > 0, "{totals:?}");
}

#[test]
fn a_pool_is_found_by_what_it_says_of_itself() {
    let Some(place) = Place::find("a_pool_is_found_by_what_it_says_of_itself") else {
        return;
    };
    let pool = place.create();
    let stats = pool.stats();
    let ssd = stats.ssd.expect("it is on an SSD");
    assert_eq!((ssd.segments, ssd.segment_bytes), (11, 1 << 20));
    assert!(ssd.flush_cost.is_some_and(|cost| !cost.is_zero()));
    assert!(stats.slots > 0 && stats.dram_bytes > stats.slots * 21);
    assert!(pool.survives().contains("power loss"));
    let uuid = pool.uuid();
    let in_use = forebay::Pool::open(&[place.path()]).expect_err("it is in use");
    assert!(
        in_use.to_string().contains("open in another process"),
        "{in_use}"
    );
    let (found, paths) =
        forebay::Pool::identity(&[place.path()], &Default::default()).expect("who");
    assert_eq!((found, paths), (uuid, vec![place.path()]));
    pool.close().expect("close");
    let (report, stats) = forebay::Pool::dry_run(&[place.path()]).expect("a look");
    assert_eq!((report.blocks, stats.cached_blocks), (0, 0));
}
