//! Blocks that are forgotten are gone for good, also after a crash, dirty or not.

use std::sync::Arc;

use forebay::{Backing, BackingStore, MemoryStore, Pool, PoolOptions, Region, RuntimeOptions};

const BLOCK: usize = 4096;

fn quiet() -> RuntimeOptions {
    RuntimeOptions::default()
        .background(false)
        .fill_on_read(false)
}

#[test]
fn forgotten_blocks_read_as_the_backing_has_them_and_do_not_come_back() {
    let options = PoolOptions::default().runtime(quiet());
    let region = Region::shadow(4 << 20);
    let pool = Pool::create_on(vec![region], &options).expect("create");
    let store = Arc::new(MemoryStore::from_bytes(vec![7; 64 * BLOCK]));
    let backing = Backing::from_store(store.clone());
    let volume = pool.attach(backing.clone()).expect("attach");
    for block in 0..40 {
        volume
            .write(block, &[block as u8 + 100; BLOCK])
            .expect("write");
    }
    volume.flush_blocks(10..20).expect("flush");
    assert_eq!(volume.usage().dirty_blocks, 30);
    assert_eq!(store.snapshot()[10 * BLOCK], 110);
    assert_eq!(store.snapshot()[9 * BLOCK], 7);
    // Clean ones, dirty ones, one twice, and some that are not there.
    volume
        .forget_blocks((5..25).chain([5, 60]))
        .expect("forget");
    let expected = |block: usize| match block {
        10..20 => block as u8 + 100,
        5..25 => 7,
        _ => block as u8 + 100,
    };
    let look = |volume: &forebay::Volume| {
        let mut out = [0; BLOCK];
        for block in 0..40 {
            volume.read(block as u64, &mut out).expect("read");
            assert_eq!(out, [expected(block); BLOCK], "block {block}");
        }
        let mut cached = Vec::new();
        volume.cached_blocks(|block, is_dirty| cached.push((block, is_dirty)));
        cached.sort_unstable();
        let left = (0..5).chain(25..40).map(|block| (block, true));
        assert_eq!(cached, left.collect::<Vec<_>>());
    };
    look(&volume);
    let usage = volume.usage();
    assert_eq!((usage.cached_blocks, usage.dirty_blocks), (20, 20));
    drop((pool, volume));
}

#[test]
fn a_crash_does_not_bring_forgotten_blocks_back() {
    let options = PoolOptions::default().runtime(quiet());
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("pool");
    let pool = Pool::create(&options.member(&path).member_bytes(4 << 20)).expect("create");
    let store = Arc::new(MemoryStore::new(64 * BLOCK as u64));
    let backing = Backing::from_store(store.clone() as Arc<dyn BackingStore>);
    let volume = pool.attach(backing.clone()).expect("attach");
    for block in 0..30 {
        volume.write(block, &[1; BLOCK]).expect("write");
    }
    volume.forget_blocks(0..20).expect("forget");
    // As a kill: nothing is closed.
    drop((pool, volume));
    let pool = Pool::open_with(&[&path], quiet()).expect("open");
    let volume = pool.attach(backing).expect("attach");
    let mut cached = Vec::new();
    volume.cached_blocks(|block, _| cached.push(block));
    cached.sort_unstable();
    assert_eq!(cached, (20..30).collect::<Vec<_>>());
    volume.flush().expect("flush");
    assert_eq!(store.snapshot()[..20 * BLOCK], [0; 20 * BLOCK]);
}
