//! A pool that is closed while a caller still holds a volume of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::{Backing, Error, ErrorKind, MemoryStore, Pool, PoolOptions, Volume};

const BLOCK: usize = 4096;

fn pool_and_volume(
    store: &Arc<MemoryStore>,
) -> (tempfile::TempDir, std::path::PathBuf, Pool, Volume) {
    pool_and_volume_with(store, |options| options)
}

fn pool_and_volume_with(
    store: &Arc<MemoryStore>,
    adjust: impl FnOnce(PoolOptions) -> PoolOptions,
) -> (tempfile::TempDir, std::path::PathBuf, Pool, Volume) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let options = adjust(PoolOptions::new(&path, 8 << 20));
    let pool = Pool::create(&options).unwrap();
    let volume = pool.attach(Backing::from_store(store.clone())).unwrap();
    (folder, path, pool, volume)
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn closed<T>(result: forebay::Result<T>) {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::Closed { .. }) => {}
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("no error"),
    }
}

#[test]
fn a_closed_pool_is_unlocked_and_refuses_volumes_that_are_still_held() {
    for in_dram in [false, true] {
        closed_with_a_held_volume(in_dram);
    }
}

fn closed_with_a_held_volume(in_dram: bool) {
    let store = Arc::new(MemoryStore::new(100 * BLOCK as u64));
    let with = |options: PoolOptions| options.entries_in_dram(in_dram);
    let (_folder, path, pool, volume) = pool_and_volume_with(&store, with);
    volume.write(3, &[3; BLOCK]).unwrap();
    volume.write(4, &[4; BLOCK]).unwrap();
    // A zero block has an entry and no slot.
    volume.write(60, &[6; BLOCK]).unwrap();
    volume.discard(60..61).unwrap();
    let mut out = vec![0; BLOCK];
    volume.read(50, &mut out).unwrap();
    let mut begun = volume.begin();
    begun.write(5, &[5; BLOCK]).unwrap();
    pool.close().unwrap();

    closed(begun.write(6, &[6; BLOCK]));
    closed(begun.commit());
    closed(volume.write(3, &[9; BLOCK]));
    closed(volume.discard(0..9));
    closed(volume.flush());
    closed(volume.flush_blocks([3]));
    closed(volume.forget_blocks([3]));
    for block in [3, 50, 60] {
        closed(volume.read(block, &mut out));
        closed(volume.read_atomic(block, &mut out));
    }
    closed(volume.read(3, &mut vec![0; 2 * BLOCK]));
    let mut part = volume.begin();
    closed(part.write_at(7, b"part").and_then(|()| part.commit()));

    let pool = Pool::open(&[&path]).expect("it is unlocked");
    let again = pool.attach(Backing::from_store(store)).unwrap();
    closed(volume.write(3, &[9; BLOCK]));
    again.write(4, &[44; BLOCK]).unwrap();
    closed(volume.read(4, &mut out));
    for (block, byte) in [(3, 3), (4, 44), (5, 0)] {
        again.read(block, &mut out).unwrap();
        assert!(out == [byte; BLOCK], "block {block}");
    }
    drop(volume);
    again.read(3, &mut out).unwrap();
    assert!(
        out == [3; BLOCK],
        "the last volume of a closed pool took nothing along"
    );
}

#[test]
fn writers_of_a_pool_that_is_closed_under_them_lose_nothing_and_reach_nothing_afterwards() {
    let store = Arc::new(MemoryStore::new(1000 * BLOCK as u64));
    let (_folder, path, pool, volume) = pool_and_volume(&store);
    let stops = AtomicBool::new(false);
    let acknowledged: Vec<u8> = std::thread::scope(|scope| {
        // Also when an assertion fails.
        let stop = Stop(&stops);
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let volume = volume.clone();
                let stops = &stops;
                scope.spawn(move || {
                    let mut last = 0;
                    let mut out = vec![0; BLOCK];
                    while !stops.load(Ordering::Relaxed) {
                        let next = last % 200 + 1;
                        match volume.write(writer, &[next; BLOCK]) {
                            Ok(()) => last = next,
                            Err(error) => closed::<()>(Err(error)),
                        }
                        if let Err(error) = volume.read(writer + 100, &mut out) {
                            closed::<()>(Err(error));
                        }
                        if let Err(error) = volume.flush() {
                            closed::<()>(Err(error));
                        }
                    }
                    last
                })
            })
            .collect();
        while volume.usage().dirty_blocks + pool.stats().totals.write_backs < 20 {
            std::thread::yield_now();
        }
        pool.close().unwrap();
        let pool = Pool::open(&[&path]).expect("it is unlocked");
        let again = pool.attach(Backing::from_store(store)).unwrap();
        for block in 10..500 {
            again.write(block, &[block as u8; BLOCK]).unwrap();
        }
        drop(stop);
        let acknowledged = writers.into_iter().map(|writer| writer.join().unwrap());
        let acknowledged = acknowledged.collect();
        let (_, bad) = pool.check(|_, _| {});
        assert_eq!(bad, []);
        let mut out = vec![0; BLOCK];
        for block in 10..500 {
            again.read(block, &mut out).unwrap();
            assert!(out == [block as u8; BLOCK], "block {block}");
        }
        acknowledged
    });
    let pool = Pool::open(&[&path]).unwrap();
    let volume = pool.volumes().remove(0);
    let mut out = vec![0; BLOCK];
    for (block, byte) in acknowledged.into_iter().enumerate() {
        // Clean ones may be on the backing only.
        if volume.read(block as u64, &mut out).is_ok() {
            assert!(out == [byte; BLOCK], "block {block} of writer {block}");
        }
    }
}
