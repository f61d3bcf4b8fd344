//! Less than a block: equal blocks share a slot, blocks that differ little are stored as what differs.

use std::sync::Arc;

use crate::rig::{BLOCK, Rig, rig_with};
use forebay::{Backing, MemoryStore, Pool, RuntimeOptions, Volume};

const POOL_BYTES: u64 = 8 << 20;

/// A pool that looks at every block, and a volume of it.
fn pool() -> (Rig, Arc<MemoryStore>, Volume) {
    let rig = rig_with(POOL_BYTES, |options| options.runtime(runtime()));
    let store = Arc::new(MemoryStore::new(512 * BLOCK as u64));
    let volume = attach(&rig.pool, &store);
    (rig, store, volume)
}

fn runtime() -> RuntimeOptions {
    RuntimeOptions::default()
        .background(false)
        .always_compare(true)
}

fn attach(pool: &Pool, store: &Arc<MemoryStore>) -> Volume {
    let backing = Backing::from_store(store.clone());
    pool.attach(backing).expect("attach")
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| rng.u8(..)).collect()
}

/// Closes the pool and keeps its file.
fn closed(rig: Rig, volume: Volume) -> impl Sized {
    drop(volume);
    rig.into_folder()
}

fn read(volume: &Volume, block: u64) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    volume.read(block, &mut out).expect("read");
    out
}

/// Lines that a write makes durable before it returns.
fn lines_of(pool: &Pool, write: impl FnOnce()) -> u64 {
    let before = pool.counters();
    write();
    let after = pool.counters();
    assert_eq!(
        after.fences - before.fences,
        1,
        "one fence, whatever is stored"
    );
    (after.lines_streamed + after.lines_flushed) - (before.lines_streamed + before.lines_flushed)
}

#[test]
fn an_equal_block_costs_a_record_and_no_slot() {
    let (rig, _store, volume) = pool();
    let pool = &rig.pool;
    let data = noise(1, BLOCK);
    volume.write(1, &data).expect("write");
    let free = pool.stats().free_slots;
    assert_eq!(
        lines_of(pool, || volume.write(300, &data).expect("write")),
        1
    );
    let stats = pool.stats();
    assert_eq!((stats.free_slots, stats.shared_slots), (free, 1));
    assert_eq!(stats.totals.blocks_shared, 1);
    // Each of them is a block of its own.
    volume.write(1, &noise(2, BLOCK)).expect("write");
    assert_eq!(
        (read(&volume, 1), read(&volume, 300)),
        (noise(2, BLOCK), data)
    );
    assert_eq!(pool.stats().shared_slots, 0);
}

#[test]
fn bytes_of_a_shared_block_change_in_a_copy() {
    let (_rig, _store, volume) = pool();
    let data = noise(1, BLOCK);
    volume.write(1, &data).expect("write");
    volume.write(2, &data).expect("write");
    let mut transaction = volume.begin();
    transaction
        .write_at(BLOCK as u64 + 100, b"changed")
        .expect("write");
    transaction.commit().expect("commit");
    let mut changed = data.clone();
    changed[100..107].copy_from_slice(b"changed");
    assert_eq!((read(&volume, 1), read(&volume, 2)), (changed, data));
}

#[test]
fn few_new_bytes_are_a_delta_and_few_bytes_at_all_are_packed() {
    let (rig, _store, volume) = pool();
    let pool = &rig.pool;
    let mut block = noise(1, BLOCK);
    volume.write(1, &block).expect("write");
    block[100] ^= 1;
    block[3000] ^= 1;
    // Header, two elements, two bytes; the patched lines wait for the checkpoint.
    assert_eq!(
        lines_of(pool, || volume.write(1, &block).expect("write")),
        2
    );
    assert_eq!(read(&volume, 1), block);
    let mut sparse = vec![0; BLOCK];
    sparse[..40].fill(7);
    sparse[BLOCK - 4..].fill(9);
    // The header of the packed block, two of its lines, the record.
    assert_eq!(
        lines_of(pool, || volume.write(2, &sparse).expect("write")),
        4
    );
    assert_eq!(read(&volume, 2), sparse);
    let totals = pool.stats().totals;
    assert_eq!((totals.deltas_found, totals.blocks_packed), (1, 1));
}

#[test]
fn each_of_many_blocks_in_a_transaction_is_compared() {
    let (rig, _store, volume) = pool();
    let mut data = noise(1, 8 * BLOCK);
    volume.write(0, &data).expect("write");
    for block in data.chunks_exact_mut(BLOCK) {
        block[100] ^= 1;
    }
    let write = || {
        let mut transaction = volume.begin();
        transaction.write(0, &data).expect("write");
        transaction.commit().expect("commit");
    };
    // A header, two elements and one byte of each block.
    let lines = lines_of(&rig.pool, write);
    assert!(lines <= 13, "{lines} lines");
    assert_eq!(rig.pool.stats().totals.deltas_found, 8);
    assert_eq!(read(&volume, 7), data[7 * BLOCK..]);
}

#[test]
fn a_block_like_another_is_packed_on_it_and_outlives_it() {
    let (rig, store, volume) = pool();
    let pool = &rig.pool;
    let free = pool.stats().free_slots;
    let first = noise(1, BLOCK);
    volume.write(1, &first).expect("write");
    let mut second = first.clone();
    second[700] ^= 1;
    assert_eq!(
        lines_of(pool, || volume.write(2, &second).expect("write")),
        3
    );
    let mut third = second.clone();
    third[1500] ^= 1;
    assert_eq!(
        lines_of(pool, || volume.write(3, &third).expect("write")),
        4
    );
    volume.write(1, &noise(9, BLOCK)).expect("write");
    volume.write(4, &third).expect("write");
    assert_eq!(read(&volume, 2), second);
    let path = rig.path.clone();
    let _folder = closed(rig, volume);
    let pool = Pool::open_with(&[path], runtime()).expect("open");
    let volume = attach(&pool, &store);
    assert_eq!(
        (read(&volume, 2), read(&volume, 3), read(&volume, 4)),
        (second, third.clone(), third)
    );
    volume.discard(0..8).expect("discard");
    let stats = pool.stats();
    assert_eq!((stats.free_slots, stats.shared_slots), (free, 0));
}

#[test]
fn the_same_bytes_again_write_nothing_in_place() {
    let (rig, _store, volume) = pool();
    let pool = &rig.pool;
    let data = noise(1, BLOCK);
    volume.write(1, &data).expect("write");
    let free = pool.stats().free_slots;
    for _ in 0..1000 {
        volume.write(1, &data).expect("write");
    }
    let stats = pool.stats();
    assert_eq!((stats.free_slots, stats.shared_slots), (free, 0));
    assert_eq!(read(&volume, 1), data);
}

#[test]
fn switched_off_every_block_goes_whole() {
    let (rig, _store, volume) = pool();
    let pool = &rig.pool;
    pool.set_share_duplicates(false);
    pool.set_compare_writes(false);
    let data = vec![0; BLOCK];
    for block in 0..4 {
        assert_eq!(
            lines_of(pool, || volume.write(block, &data).expect("write")),
            65
        );
    }
    assert_eq!(pool.stats().shared_slots, 0);
}

#[test]
fn a_slot_is_shared_by_hundreds_and_no_further() {
    let (rig, _store, volume) = pool();
    let pool = &rig.pool;
    let data = noise(1, BLOCK);
    for block in 0..400 {
        volume.write(block, &data).expect("write");
    }
    assert!(pool.stats().totals.blocks_shared >= 390);
    for block in 0..400 {
        assert_eq!(read(&volume, block), data);
    }
    volume.discard(0..400).expect("discard");
    assert_eq!(pool.stats().shared_slots, 0);
}

#[test]
fn what_the_media_changed_to_is_written_when_it_is_what_comes() {
    let rig = rig_with(POOL_BYTES, |options| {
        options.test_pool(true).runtime(runtime())
    });
    let store = Arc::new(MemoryStore::new(512 * BLOCK as u64));
    let volume = attach(&rig.pool, &store);
    let mut data = noise(1, BLOCK);
    volume.write(3, &data).expect("write");
    volume.flush().expect("flush");
    for mask in 0..8 {
        rig.pool.flip_bit(&volume, 3, 72 + mask).expect("flip");
        data[9] ^= 1 << mask;
        volume.write(3, &data).expect("write");
        assert_eq!(read(&volume, 3), data);
    }
}

#[test]
fn entries_that_sharing_used_up_are_freed_for_reads() {
    let rig = rig_with(POOL_BYTES, |options| {
        options.runtime(RuntimeOptions::default().always_compare(true))
    });
    let store = Arc::new(MemoryStore::new(16384 * BLOCK as u64));
    let volume = attach(&rig.pool, &store);
    for block in 0..2 * rig.pool.stats().slots {
        volume.write(block, &[0; BLOCK]).expect("write");
    }
    volume.flush().expect("flush");
    let started = std::time::Instant::now();
    // Of each round at least the blocks that the round before left out are brought in.
    while rig.pool.stats().totals.fills < 100 {
        assert!(
            started.elapsed() < crate::rig::PATIENCE,
            "misses fill the pool"
        );
        (10_000..10_100).for_each(|block| drop(read(&volume, block)));
        std::thread::yield_now();
    }
}

#[test]
fn whole_blocks_beside_parts_of_others_are_looked_at_too() {
    let (rig, store, volume) = pool();
    let (first, second) = (noise(1, BLOCK), noise(2, BLOCK));
    volume.write(0, &first).expect("write");
    volume.write(1, &second).expect("write");
    volume.write(2, &noise(3, BLOCK)).expect("write");
    let mut changed = first.clone();
    changed[100..108].fill(7);
    let lines = lines_of(&rig.pool, || {
        let mut transaction = volume.begin();
        // Few bytes differ from what is cached; equal to another one; a part of a third.
        transaction.write(0, &changed).expect("write");
        transaction.write(3, &second).expect("write");
        transaction
            .write_at(2 * BLOCK as u64 + 5, &[9; 8])
            .expect("write");
        transaction.commit().expect("commit");
    });
    assert!(lines <= 6, "{lines} lines");
    let totals = rig.pool.stats().totals;
    assert_eq!((totals.deltas_found, totals.blocks_shared), (1, 1));
    // The same slot cannot be patched for one block and shared by another.
    let mut transaction = volume.begin();
    transaction
        .write_at(2 * BLOCK as u64, &[1; 8])
        .expect("write");
    let mut third = noise(3, BLOCK);
    third[5..13].fill(9);
    transaction.write(4, &third).expect("write");
    transaction.write(5, &second).expect("write");
    transaction.write_at(BLOCK as u64, &[1; 8]).expect("write");
    transaction.commit().expect("commit");
    let check = |volume: &Volume| {
        let mut patched = [second.clone(), third.clone()];
        patched.iter_mut().for_each(|block| block[..8].fill(1));
        let wanted = [&changed, &patched[0], &patched[1], &second, &third, &second];
        for (block, wanted) in wanted.into_iter().enumerate() {
            assert_eq!(&read(volume, block as u64), wanted, "block {block}");
        }
    };
    check(&volume);
    let path = rig.path.clone();
    let _folder = closed(rig, volume);
    let pool = Pool::open_with(&[path], runtime()).expect("open");
    check(&attach(&pool, &store));
}
