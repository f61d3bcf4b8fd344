//! Pools of several members, block sizes, odd volumes, many volumes, and volumes that come and go.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::fixtures::{Rig, block_of, get, put, quiet, tiny};
use forebay::{Backing, Error, ErrorKind, MemoryStore, Pool, PoolOptions, Volume};

fn shm() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("/dev/shm")
}

fn attach(pool: &Pool, store: &Arc<MemoryStore>) -> Volume {
    let backing = Backing::from_store(store.clone());
    pool.attach(backing).expect("attach")
}

#[test]
fn every_block_size_over_one_to_three_members() {
    for block_bytes in [4096usize, 16384, 65536] {
        for members in 1..=3 {
            let folder = shm();
            let path = |member| folder.path().join(format!("member{member}"));
            let options = PoolOptions::new(path(0), 4 << 20)
                .members((1..members).map(path))
                .block_bytes(block_bytes as u32)
                .runtime(quiet());
            // An odd size: the last block is cut short.
            let store = Arc::new(MemoryStore::new(100 * block_bytes as u64 - 777));
            let pool = Pool::create(&options).expect("create");
            let slots = pool.stats().slots;
            assert!(slots * block_bytes as u64 > members * (3 << 20), "{slots}");
            write_and_compare(&pool, &store, block_bytes, 1);
            drop(pool);
            let mut paths: Vec<PathBuf> = options.paths().to_vec();
            paths.reverse();
            let pool = Pool::open_with(&paths, quiet()).expect("open");
            let volume = attach(&pool, &store);
            compare(&volume, block_bytes, 1);
            drop(volume);
            pool.close().expect("close");
            let pool = Pool::open_with(&paths, quiet()).expect("open");
            let volume = attach(&pool, &store);
            volume.flush().expect("flush");
            let behind = store.snapshot();
            assert!(behind[..block_bytes] == block_of(block_bytes, 0, 1));
            assert_eq!(pool.check(|_, _| {}).1, []);
        }
    }
}

fn write_and_compare(pool: &Pool, store: &Arc<MemoryStore>, block_bytes: usize, version: u64) {
    let volume = attach(pool, store);
    assert_eq!(volume.blocks(), 100);
    for number in 0..volume.blocks() {
        put(&volume, number, &block_of(block_bytes, number, version));
    }
    compare(&volume, block_bytes, version);
    let beyond = volume.begin().write_at(volume.size_bytes(), b"x");
    assert!(matches!(
        beyond.as_ref().map_err(Error::kind),
        Err(ErrorKind::OutOfRange { .. })
    ));
    let mut transaction = volume.begin();
    let last = block_of(block_bytes, 99, version);
    transaction
        .write_at(volume.size_bytes() - 5, &last[block_bytes - 782..][..5])
        .expect("the last bytes");
    transaction.commit().expect("commit");
}

fn compare(volume: &Volume, block_bytes: usize, version: u64) {
    for number in 0..volume.blocks() {
        let inside = (volume.size_bytes() - number * block_bytes as u64).min(block_bytes as u64);
        let (read, wrote) = (
            get(volume, number).expect("read"),
            block_of(block_bytes, number, version),
        );
        assert!(
            read[..inside as usize] == wrote[..inside as usize],
            "block {number}"
        );
    }
}

#[test]
fn slots_are_spread_over_all_members() {
    let rig = Rig::new(&tiny(), 3);
    let volume = rig.attach();
    let before = rig.images();
    for number in 0..12 {
        put(&volume, number, &crate::fixtures::block(number, 1));
    }
    let after = rig.images();
    let area = crate::fixtures::Plan::of(&after[0]).slot_area;
    for (member, (before, after)) in before.iter().zip(&after).enumerate() {
        let held = (0..12).filter(|number| {
            after[area..]
                .windows(128)
                .any(|bytes| bytes == crate::fixtures::block(*number, 1))
        });
        assert!(held.count() >= 3, "member {member}");
        assert!(
            member == 0 || before[..area] == after[..area],
            "metadata lives on member 0"
        );
    }
}

#[test]
fn sixty_four_volumes_keep_their_blocks_apart() {
    let folder = shm();
    let options = PoolOptions::new(folder.path().join("pool"), 4 << 20).runtime(quiet());
    let pool = Pool::create(&options).expect("create");
    let stores: Vec<Arc<MemoryStore>> = (0..65)
        .map(|_| Arc::new(MemoryStore::new(64 << 10)))
        .collect();
    for (number, store) in (0..).zip(&stores[..64]) {
        put(&attach(&pool, store), 3, &block_of(4096, number, 1));
    }
    let error = pool
        .attach(Backing::from_store(stores[64].clone()))
        .expect_err("the table is full");
    assert!(
        error.to_string().contains("64 volumes is full; detach one"),
        "{error}"
    );
    drop(pool);
    let pool = Pool::open_with(options.paths(), quiet()).expect("open");
    let ids: HashSet<u32> = pool.volumes().iter().map(Volume::id).collect();
    assert_eq!(ids.len(), 64);
    for (number, store) in (0..).zip(&stores[..64]) {
        let volume = attach(&pool, store);
        assert!(get(&volume, 3).expect("read") == block_of(4096, number, 1));
        assert!(get(&volume, 4).expect("read").iter().all(|byte| *byte == 0));
    }
    pool.detach(pool.volumes().remove(9)).expect("detach");
    attach(&pool, &stores[64]);
}

#[test]
fn no_block_of_a_detached_backing_is_ever_seen_again() {
    let rig = Rig::new(&tiny(), 2);
    let mut ids = HashSet::new();
    let mut images = rig.images();
    for round in 0..20 {
        // A backing full of its own round's blocks, of which the pool changes some.
        let mut bytes: Vec<u8> = (0..32)
            .flat_map(|n| crate::fixtures::block(n, round))
            .collect();
        let store = Arc::new(MemoryStore::from_bytes(bytes.clone()));
        let pool = if round % 3 == 2 {
            Some(crate::fixtures::open(&images, quiet()).expect("open"))
        } else {
            None
        };
        let pool = pool.as_ref().unwrap_or(&rig.pool);
        let volume = attach(pool, &store);
        assert!(
            round % 3 == 2 || ids.insert(volume.id()),
            "ids are not used again"
        );
        for number in 0..32 {
            assert!(get(&volume, number).expect("read") == crate::fixtures::block(number, round));
        }
        put(&volume, 7, &crate::fixtures::block(100, round));
        volume.discard(8..10).expect("discard");
        bytes[7 * 128..8 * 128].copy_from_slice(&crate::fixtures::block(100, round));
        bytes[8 * 128..10 * 128].fill(0);
        pool.detach(volume).expect("detach");
        assert_eq!(pool.stats().cached_blocks, 0);
        assert!(store.snapshot() == bytes, "everything was written back");
        images = rig.images();
    }
}

#[test]
fn a_backing_that_changed_is_refused_and_a_volume_in_use_is_not_attached_twice() {
    let folder = shm();
    let disk = folder.path().join("disk");
    std::fs::write(&disk, vec![5; 64 << 10]).expect("disk");
    let options = PoolOptions::new(folder.path().join("pool"), 4 << 20).runtime(quiet());
    let pool = Pool::create(&options).expect("create");
    let volume = pool
        .attach(Backing::file(&disk).expect("backing"))
        .expect("attach");
    put(&volume, 1, &block_of(4096, 1, 1));
    drop((volume, pool));
    std::fs::remove_file(&disk).expect("remove");
    std::fs::write(&disk, vec![6; 32 << 10]).expect("another disk");
    let pool = Pool::open_with(options.paths(), quiet()).expect("open");
    let error = pool
        .attach(Backing::file(&disk).expect("backing"))
        .expect_err("changed");
    let said = error.to_string();
    assert!(
        said.contains("disk") && said.contains("32768") && said.contains("65536"),
        "{said}"
    );
    // Still served from the pool, and still dirty.
    let volume = pool.volumes().remove(0);
    assert!(get(&volume, 1).expect("read") == block_of(4096, 1, 1));
    assert!(get(&volume, 2).is_err() && volume.flush().is_err());
    assert_eq!(pool.stats().dirty_blocks, 1);
}
