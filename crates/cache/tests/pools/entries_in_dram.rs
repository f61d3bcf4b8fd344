//! A pool that keeps its entries in DRAM: the medium's table is written by checkpoints alone, and the pool opens
//! as any other, whatever was lost.

use std::sync::Arc;

use crate::rig::{Rig, bytes_of, get, put, rig_with};
use forebay::{Backing, MemoryStore, Pool, RuntimeOptions, Volume};

const BLOCKS: u64 = 64;

fn begin(in_dram: bool) -> (Rig, Arc<MemoryStore>, Volume) {
    let rig = rig_with(4 << 20, |options| {
        options.background(false).entries_in_dram(in_dram)
    });
    let store = Arc::new(MemoryStore::new(BLOCKS * crate::rig::BLOCK as u64));
    let volume = rig.pool.attach(Backing::from_store(store.clone()));
    (rig, store, volume.expect("attach"))
}

/// What the medium has of the entry table.
fn table(rig: &Rig) -> Vec<u8> {
    let bytes = forebay::unstable::table_bytes(&rig.pool);
    std::fs::read(&rig.path).expect("read")[bytes.start as usize..bytes.end as usize].to_vec()
}

/// Opens a copy of the file as a kill would leave it.
fn after_a_kill(
    rig: &Rig,
    store: &Arc<MemoryStore>,
    in_dram: bool,
) -> (tempfile::TempDir, Pool, Volume) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let copy = folder.path().join("pool");
    std::fs::copy(&rig.path, &copy).expect("copy");
    let options = RuntimeOptions::default()
        .background(false)
        .accept_stale(true)
        .entries_in_dram(in_dram);
    let pool = Pool::open_with(&[&copy], options).expect("open");
    let volume = pool.attach(Backing::from_store(store.clone()));
    let volume = volume.expect("attach");
    (folder, pool, volume)
}

#[test]
fn commits_leave_the_table_of_the_medium_alone_and_checkpoints_write_it() {
    let (rig, _store, volume) = begin(true);
    let empty = table(&rig);
    (0..BLOCKS).for_each(|block| put(&volume, block, 1));
    assert!(table(&rig) == empty, "a commit stored to the table");
    rig.pool.checkpoint().expect("checkpoint");
    let written = table(&rig);
    let entries = |table: &[u8]| {
        let all = table.chunks(16);
        all.filter(|entry| entry.iter().any(|byte| *byte != 0))
            .count()
    };
    assert_eq!(entries(&written), BLOCKS as usize);
    rig.pool.write_back_once().expect("write back");
    assert!(table(&rig) == written, "a clean mark went by itself");
    rig.pool.checkpoint().expect("checkpoint");
    assert!(table(&rig) != written, "clean marks go, too");
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill_whichever_way_the_pool_is_opened() {
    for before in [false, true] {
        let (rig, store, volume) = begin(before);
        for version in 1..4 {
            (0..BLOCKS)
                .filter(|block| block % version == 0)
                .for_each(|block| put(&volume, block, version));
            if version == 2 {
                rig.pool.checkpoint().expect("checkpoint");
                rig.pool.write_back_once().expect("write back");
                rig.pool.reclaim_once(5).expect("reclaim");
            }
        }
        for after in [false, true] {
            let (_folder, _pool, volume) = after_a_kill(&rig, &store, after);
            for block in 0..BLOCKS {
                let version = (1..4).rev().find(|version| block % version == 0);
                let expected = bytes_of(block, version.expect("one"));
                assert!(get(&volume, block) == expected, "block {block}");
            }
        }
    }
}

#[test]
fn a_checkpoint_leaves_clean_blocks_clean() {
    let (rig, store, volume) = begin(true);
    (0..BLOCKS).for_each(|block| put(&volume, block, 1));
    while rig.pool.write_back_once().expect("write back") > 0 {}
    drop(volume);
    rig.pool.checkpoint().expect("checkpoint");
    let (_folder, pool, volume) = after_a_kill(&rig, &store, true);
    assert_eq!(pool.stats().dirty_blocks, 0);
    assert_eq!(volume.usage().cached_blocks, BLOCKS);
}

#[test]
fn the_entries_are_counted_as_dram() {
    let (in_dram, _, _) = begin(true);
    let (on_medium, _, _) = begin(false);
    let more = in_dram.pool.stats().dram_bytes - on_medium.pool.stats().dram_bytes;
    let slots = in_dram.pool.stats().slots;
    assert!((16 * slots..19 * slots).contains(&more), "{more} bytes");
}
