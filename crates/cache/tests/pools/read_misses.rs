//! Reads of several blocks of which some are cached.

use forebay::{Backing, MemoryStore, Pool, PoolOptions, Region};
use std::sync::Arc;

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 600;

fn byte_of(block: u64) -> u8 {
    block as u8 | 1
}

#[test]
fn neighbours_that_are_not_cached_come_with_one_request() {
    let mut bytes = Vec::new();
    for block in 0..BLOCKS {
        bytes.extend(std::iter::repeat_n(byte_of(block), BLOCK_BYTES));
    }
    let backing = Backing::from_store(Arc::new(MemoryStore::from_bytes(bytes)));
    let options = PoolOptions::default().background(false);
    let pool = Pool::create_on(vec![Region::shadow(16 << 20)], &options).unwrap();
    let volume = pool.attach(backing.clone()).unwrap();
    let reads_before = backing.counters().reads;
    let fences = || pool.counters().fences;
    let read = |first: u64, count: usize| {
        let mut out = vec![0; count * BLOCK_BYTES];
        volume.read(first, &mut out).unwrap();
        for (block, bytes) in (first..).zip(out.chunks(BLOCK_BYTES)) {
            let wanted = if block == 20 { 0xEE } else { byte_of(block) };
            assert!(bytes.iter().all(|&byte| byte == wanted), "block {block}");
        }
        backing.counters().reads - reads_before
    };
    volume.write(20, &[0xEE; BLOCK_BYTES]).unwrap();
    // What lies before the cached block, and what lies behind it.
    let before = fences();
    assert_eq!(read(10, 30), 2);
    assert_eq!(fences() - before, 2, "one for all that a request brings in");
    // All of it is cached now.
    assert_eq!(read(10, 30), 2);
    // A long read comes in requests of 256 blocks.
    let before = fences();
    assert_eq!(read(40, 560), 2 + 3);
    assert_eq!(fences() - before, 3);
    assert_eq!(read(0, 600), 2 + 3 + 1);
    assert_eq!(pool.stats().totals.read_misses, 29 + 560 + 10);
}
