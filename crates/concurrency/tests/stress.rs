//! Threads that write, read, discard, flush and evict the same few blocks at once: for ThreadSanitizer (`make tsan`),
//! and without it for what the reads show.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use forebay::{Backing, Error, Pool, PoolOptions, Volume};

const BLOCK_BYTES: usize = 4096;
/// More than the pool holds, so that blocks come and go.
const BLOCKS: u64 = 1536;
/// Blocks that all threads contend for.
const HOT_BLOCKS: u64 = 8;
const ROUNDS: u64 = 1500;

/// A small generator of its own for each thread.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn pattern(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK_BYTES / 8)
}

/// All eight-byte words of the block are the same.
fn uniform(block: &[u8]) -> Option<u64> {
    let first = &block[..8];
    block
        .chunks_exact(8)
        .all(|word| word == first)
        .then(|| u64::from_le_bytes(first.try_into().unwrap()))
}

/// Writes pairs (block, block + 1) with one value each transaction, sometimes as a delta, sometimes a discard.
fn write_pairs(volume: &Volume, seed: u64) -> Result<(), Error> {
    let mut random = Random(seed);
    for round in 0..ROUNDS {
        let block = if round % 2 == 0 {
            random.below(HOT_BLOCKS / 2) * 2
        } else {
            random.below(BLOCKS / 2) * 2
        };
        let data = pattern(seed << 32 | round);
        let mut transaction = volume.begin();
        if random.below(16) == 0 {
            transaction.discard(block..block + 2)?;
        } else {
            transaction.write(block, &data)?;
            transaction.write(block + 1, &data)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

fn read_pairs(volume: &Volume, seed: u64, done: &AtomicBool) -> Result<u64, Error> {
    let mut random = Random(seed);
    let mut pair = vec![0; 2 * BLOCK_BYTES];
    let mut looks = 0;
    while !done.load(Ordering::Relaxed) {
        let block = if looks % 4 == 0 {
            random.below(BLOCKS / 2) * 2
        } else {
            random.below(HOT_BLOCKS / 2) * 2
        };
        if looks % 2 == 0 {
            volume.read(block, &mut pair)?;
            for half in pair.chunks_exact(BLOCK_BYTES) {
                assert!(uniform(half).is_some(), "block near {block} is torn");
            }
        } else {
            volume.read_atomic(block, &mut pair)?;
            assert!(
                uniform(&pair).is_some(),
                "pair {block} is half of a transaction"
            );
        }
        looks += 1;
    }
    Ok(looks)
}

fn everybody_at_once() {
    // In memory if there is a memory file system: a fence is an instruction there, not a sync.
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let backing = folder.path().join("backing");
    std::fs::File::create(&backing)
        .unwrap()
        .set_len(BLOCKS * BLOCK_BYTES as u64)
        .unwrap();
    let pool = Pool::create(&PoolOptions::new(folder.path().join("pool"), 6 << 20)).unwrap();
    let volume = pool.attach(Backing::file(&backing).unwrap()).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let readers: Vec<_> = (10..12)
            .map(|seed| {
                scope.spawn({
                    let (volume, done) = (&volume, &done);
                    move || read_pairs(volume, seed, done)
                })
            })
            .collect();
        let writers: Vec<_> = (1..3)
            .map(|seed| {
                scope.spawn({
                    let volume = &volume;
                    move || write_pairs(volume, seed)
                })
            })
            .collect();
        let keeper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                volume.flush().unwrap();
                pool.checkpoint().unwrap();
                thread::yield_now();
            }
        });
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        for outcome in written {
            outcome.unwrap().unwrap();
        }
        for reader in readers {
            assert!(reader.join().unwrap().unwrap() > 0);
        }
        keeper.join().unwrap();
    });
    drop(volume);
    pool.close().unwrap();
}

/// With `FOREBAY_PLANT_RACE` set, two threads race on purpose: ThreadSanitizer has to say so.
fn planted_race() {
    #![allow(unsafe_code)] // A race on purpose cannot be written without it.
    struct Shared(std::cell::UnsafeCell<u64>);
    // SAFETY: not so, and on purpose; the test returns before it is used unless that is asked for.
    unsafe impl Sync for Shared {}
    if std::env::var_os("FOREBAY_PLANT_RACE").is_none() {
        return;
    }
    let shared = Shared(std::cell::UnsafeCell::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            let shared = &shared;
            scope.spawn(move || {
                for _ in 0..1000 {
                    // SAFETY: a race on purpose, see above.
                    unsafe { *shared.0.get() += 1 };
                }
            });
        }
    });
}

fn main() {
    planted_race();
    everybody_at_once();
    println!("stress: nothing torn, nothing by half");
}
