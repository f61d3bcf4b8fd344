//! Reads of several blocks: what lies in the pool, in a range of zeroes and behind it, each block for itself.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use forebay::{ErrorKind, MemoryStore, Pool, Volume};

use crate::rig::*;

/// Flips a bit of the pool's copy of a block.
fn damage(pool: &Path, block: u64) {
    let all = std::fs::read(pool).expect("read");
    let wanted = bytes(block);
    let mut pages = all.chunks_exact(BLOCK);
    let page = pages.position(|page| page == wanted).expect("its page");
    let file = std::fs::File::options().write(true).open(pool);
    let file = file.expect("the pool");
    let offset = (page * BLOCK + 100) as u64;
    let byte = [wanted[100] ^ 1];
    file.write_all_at(&byte, offset).expect("damage");
    file.sync_all().expect("sync");
}

/// Reads blocks by each of the calls that read several, into memory that is aligned or not.
fn read_run(volume: &Volume, first: u64, count: usize) -> Result<Vec<u8>, forebay::Error> {
    let mut out = vec![0xA5; count * BLOCK + 1];
    volume.read_atomic(first, &mut out[1..])?;
    let atomic = out.split_off(1);
    let mut pages = forebay_log::Pages::zeroed(count);
    volume.read(first, &mut pages)?;
    assert!(atomic == *pages);
    let mut out = vec![0xA5; count * BLOCK + 1];
    volume.read(first, &mut out[1..])?;
    assert!(out[1..] == atomic);
    Ok(atomic)
}

#[test]
fn a_run_is_read_from_wherever_its_blocks_are() {
    let Some(place) = Place::find("a_run_is_read_from_wherever") else {
        return;
    };
    let behind: Vec<u8> = (0..512).flat_map(|block| bytes(block + 1000)).collect();
    let store = Arc::new(MemoryStore::from_bytes(behind));
    let pool = Pool::create(&place.options().background(false)).expect("create");
    let volume = pool.attach(backing(&store)).expect("attach");
    let mut expected: Vec<Vec<u8>> = (0..512).map(|block| bytes(block + 1000)).collect();
    let mut rng = fastrand::Rng::with_seed(5);
    for number in 0..300 {
        let block = rng.u64(..512);
        match rng.u8(..4) {
            0 => {
                volume.discard(block..block + 1).expect("discard");
                expected[block as usize] = vec![0; BLOCK];
            }
            _ => {
                volume.write(block, &bytes(number)).expect("write");
                expected[block as usize] = bytes(number);
            }
        }
    }
    for (first, count) in [(0, 512), (0, 1), (3, 2), (100, 300), (509, 3)] {
        let found = read_run(&volume, first, count).expect("read");
        let blocks = (first..).zip(found.chunks_exact(BLOCK));
        for (block, found) in blocks {
            assert!(found == expected[block as usize], "block {block}");
        }
    }
}

#[test]
fn a_bad_copy_within_a_run_is_an_error_only_where_nothing_else_has_the_block() {
    let Some(place) = Place::find("a_bad_copy_within_a_run") else {
        return;
    };
    let store = Arc::new(MemoryStore::new(64 * BLOCK as u64));
    let pool = Pool::create(&place.options().background(false)).expect("create");
    let volume = pool.attach(backing(&store)).expect("attach");
    let all = |blocks: std::ops::Range<u64>| blocks.flat_map(bytes).collect::<Vec<u8>>();
    volume.write(0, &all(0..32)).expect("write");
    volume.flush().expect("flush");
    volume.write(32, &all(32..48)).expect("write");
    // What was written last is in memory, too, until the pool is closed.
    drop(volume);
    pool.close().expect("close");
    let pool = Pool::open_with(&[place.path()], runtime().background(false)).expect("open");
    let volume = pool.attach(backing(&store)).expect("attach");
    damage(&place.path(), 5);
    assert_eq!(
        read_run(&volume, 0, 48).expect("the backing has it"),
        all(0..48)
    );
    damage(&place.path(), 40);
    let error = read_run(&volume, 0, 48).expect_err("the only copy is bad");
    let ErrorKind::Corrupt { block, .. } = error.kind() else {
        panic!("another error: {error}");
    };
    assert_eq!(*block, 40);
    assert_eq!(read_run(&volume, 0, 40).expect("good"), all(0..40));
    assert_eq!(read_run(&volume, 41, 7).expect("good"), all(41..48));
}
