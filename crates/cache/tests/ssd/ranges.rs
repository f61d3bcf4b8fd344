//! Blocks and ranges that a volume does not have: every call refuses them with the same error, and no other volume is reached.

use std::sync::Arc;

use forebay::{ErrorKind, Medium, MemoryStore, Pool, PoolOptions, Result, Volume};

use crate::rig::*;

const BLOCKS: u64 = 64;
/// More than the numbers that a volume's blocks can have: one of these would be a block of the next volume.
const NEXT_VOLUME: u64 = 1 << 36;

fn is_refused(what: &str, done: Result<()>) {
    match done {
        Err(error) if matches!(error.kind(), ErrorKind::OutOfRange { .. }) => {}
        Err(error) => panic!("{what}: another error: {error}"),
        Ok(()) => panic!("{what}: no error"),
    }
}

/// Every call that takes the number of a block.
fn refuses_block(volume: &Volume, block: u64) {
    let (data, mut out) = ([9; BLOCK], [0; BLOCK]);
    let offset = block.saturating_mul(BLOCK as u64);
    let is_refused = |what: &str, done| is_refused(&format!("{what} of block {block}"), done);
    is_refused("write", volume.write(block, &data));
    is_refused("read", volume.read(block, &mut out));
    is_refused("read_atomic", volume.read_atomic(block, &mut out));
    is_refused("read_at", volume.read_at(offset, &mut out));
    is_refused("flush_blocks", volume.flush_blocks([block]));
    is_refused("flush_blocks", volume.flush_blocks([0, 1, block]));
    is_refused("forget_blocks", volume.forget_blocks([block]));
    is_refused("forget_blocks", volume.forget_blocks([0, block, 1]));
    let mut transaction = volume.begin();
    is_refused("write in one", transaction.write(block, &data));
    is_refused("write_at", transaction.write_at(offset, &data));
    is_refused("append", transaction.append(block, 0, &data));
    is_refused("read in one", transaction.read(block, &mut out));
    is_refused("read_at in one", transaction.read_at(offset, &mut out));
    transaction.commit().expect("it has nothing");
}

/// Every call that takes a range of blocks.
fn refuses_range(volume: &Volume, first: u64, end: u64) {
    let of = |what: &str| format!("{what} of {first}..{end}");
    is_refused(&of("discard"), volume.discard(first..end));
    let mut transaction = volume.begin();
    is_refused(&of("discard in one"), transaction.discard(first..end));
    transaction.commit().expect("it has nothing");
    assert!(!volume.is_resident(first..end) || first >= end);
    let mut visited = 0;
    let states = volume.block_states(first..end, |count, _| {
        visited += count;
        true
    });
    match first < end {
        true => is_refused(&of("block_states"), states),
        // There is nothing to be asked of.
        false => states.expect("an empty range"),
    }
    assert_eq!(visited, 0);
}

/// Two volumes, the second of which has what a number too large for the first would name.
fn refuses_all(pool: &Pool) {
    let stores: [Arc<MemoryStore>; 2] =
        std::array::from_fn(|_| Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64)));
    let volumes = stores
        .each_ref()
        .map(|store| pool.attach(backing(store)).expect("attach"));
    let [volume, next] = &volumes;
    for one in &volumes {
        one.write(0, &bytes(u64::from(one.id()))).expect("write");
        one.write(BLOCKS - 1, &bytes(7)).expect("write");
    }
    for block in [BLOCKS, NEXT_VOLUME, NEXT_VOLUME + BLOCKS - 1, u64::MAX] {
        refuses_block(volume, block);
        refuses_range(volume, block, block.saturating_add(1));
    }
    for (first, end) in [
        (0, BLOCKS + 1),
        (BLOCKS - 1, NEXT_VOLUME + 1),
        (0, NEXT_VOLUME),
        (0, u64::MAX),
        (BLOCKS - 1, u64::MAX),
        (NEXT_VOLUME, NEXT_VOLUME + 1),
        (u64::MAX - 1, u64::MAX),
        // The wrong way round.
        (1, 0),
        (u64::MAX, 0),
    ] {
        refuses_range(volume, first, end);
    }
    // Two blocks of which the second is behind the end, or would wrap.
    for block in [BLOCKS - 1, u64::MAX] {
        let (data, mut out) = ([9; 2 * BLOCK], [0; 2 * BLOCK]);
        is_refused("write of two", volume.write(block, &data));
        is_refused("read of two", volume.read(block, &mut out));
        is_refused("read_atomic of two", volume.read_atomic(block, &mut out));
        let mut transaction = volume.begin();
        is_refused("two in one", transaction.write(block, &data));
        is_refused("two read in one", transaction.read(block, &mut out));
    }
    for offset in [BLOCKS * BLOCK as u64 - 1, u64::MAX - 1, u64::MAX] {
        is_refused("read_at", volume.read_at(offset, &mut [0; 3]));
        is_refused("write_at", volume.begin().write_at(offset, &[0; 3]));
    }
    assert!(!volume.is_ready_for_write(u64::MAX));
    // Nothing was written back, and nothing has gone, of either.
    for (one, store) in volumes.iter().zip(&stores) {
        assert_eq!(one.usage().dirty_blocks, 2);
        assert!(store.snapshot().iter().all(|byte| *byte == 0));
        assert_eq!(read(one, 0), bytes(u64::from(one.id())));
        assert_eq!(read(one, BLOCKS - 1), bytes(7));
    }
    volume
        .flush_blocks((0..BLOCKS).chain([3]))
        .expect("its own");
    assert_eq!(
        (volume.usage().dirty_blocks, next.usage().dirty_blocks),
        (0, 2)
    );
    volume.forget_blocks((0..BLOCKS).rev()).expect("its own");
    assert_eq!(
        (volume.usage().cached_blocks, next.usage().cached_blocks),
        (0, 2)
    );
}

#[test]
fn what_a_volume_does_not_have_is_refused_by_every_call() {
    let Some(place) = Place::find("what_a_volume_does_not_have") else {
        return;
    };
    refuses_all(&Pool::create(&place.options().background(false)).expect("create"));
    let options = PoolOptions::new(place.file("memory"), POOL_BYTES).medium(Medium::Memory);
    refuses_all(&Pool::create(&options.background(false)).expect("create"));
}
