//! Reads that follow one another: what passes the pool by, and what never does.

use std::sync::Arc;

use forebay::{
    Backing, BackingCounters, BackingIdentity, BackingStore, MemoryStore, Volume, WriteRun,
};

use crate::rig::{self, BLOCK, Rig, rig_with};

const BLOCKS: usize = 2048;
const REQUEST_BLOCKS: usize = 64;
const CUTOFF_BLOCKS: usize = 4 * REQUEST_BLOCKS;

/// A pool with this cutoff before a disk of telling blocks.
fn streamed(cutoff_blocks: usize) -> (Rig, Backing, Volume) {
    let rig = rig_with(16 << 20, |options| {
        options
            .background(false)
            .sequential_cutoff_bytes((cutoff_blocks * BLOCK) as u64)
    });
    let bytes = (0..BLOCKS as u64).flat_map(|block| rig::bytes_of(block, 0));
    let backing = Backing::from_store(Arc::new(MemoryStore::from_bytes(bytes.collect())));
    let volume = rig.pool.attach(backing.clone()).unwrap();
    (rig, backing, volume)
}

/// Reads so many blocks from there on in requests, and compares; `version` says which version a block has.
fn read(volume: &Volume, first: usize, count: usize, version: impl Fn(u64) -> u64) {
    for start in (first..first + count).step_by(REQUEST_BLOCKS) {
        let end = (start + REQUEST_BLOCKS).min(first + count);
        let mut out = vec![0; (end - start) * BLOCK];
        volume.read(start as u64, &mut out).unwrap();
        for (block, bytes) in (start as u64..).zip(out.chunks(BLOCK)) {
            assert!(
                bytes == rig::bytes_of(block, version(block)),
                "block {block}"
            );
        }
    }
}

#[test]
fn a_run_passes_by_once_it_has_come_beyond_the_cutoff() {
    let (rig, backing, volume) = streamed(CUTOFF_BLOCKS);
    let before = (backing.counters(), rig.pool.counters().fences);
    read(&volume, 0, 16 * REQUEST_BLOCKS, |_| 0);
    let totals = rig.pool.stats().totals;
    let all = (16 * REQUEST_BLOCKS) as u64;
    assert_eq!(totals.read_misses, all);
    assert_eq!(totals.fills, CUTOFF_BLOCKS as u64, "as long as the cutoff");
    assert_eq!(totals.passed_by, all - CUTOFF_BLOCKS as u64);
    let asked = backing.counters() - before.0;
    assert_eq!((asked.reads, asked.bytes_read), (16, all * BLOCK as u64));
    let fences = rig.pool.counters().fences - before.1;
    assert_eq!(fences, 4, "what passes by needs none");
    // What was brought in is served by the pool, and what was not is not there.
    let hits = || rig.pool.stats().totals.read_hits;
    read(&volume, 0, CUTOFF_BLOCKS, |_| 0);
    assert_eq!(hits(), CUTOFF_BLOCKS as u64);
    assert!(!volume.is_resident(CUTOFF_BLOCKS as u64..CUTOFF_BLOCKS as u64 + 1));
}

#[test]
fn what_is_cached_or_dirty_in_a_run_that_passes_by_came_from_the_backing() {
    let (rig, _backing, volume) = streamed(REQUEST_BLOCKS);
    // Dirty, clean since a write, and clean since a read.
    let (dirty, clean, filled) = (300, 400, 501);
    rig::put(&volume, clean, 1);
    volume.flush().unwrap();
    rig::put(&volume, dirty, 1);
    assert_eq!(rig::get(&volume, filled), rig::bytes_of(filled, 0));
    let before = rig.pool.stats().totals;
    let version = |block| u64::from([dirty, clean].contains(&block));
    read(&volume, 0, 10 * REQUEST_BLOCKS, version);
    let totals = rig.pool.stats().totals;
    assert_eq!(totals.read_hits - before.read_hits, 3);
    assert!(totals.passed_by > 0 && rig.pool.stats().dirty_blocks == 1);
    // A write into the run stays the pool's, and the next read has it.
    rig::put(&volume, 350, 2);
    let version = |block| u64::from([dirty, clean].contains(&block)) + 2 * u64::from(block == 350);
    read(&volume, 256, 128, version);
}

#[test]
fn blocks_that_are_read_here_and_there_are_brought_in_beside_a_run() {
    let (rig, _backing, volume) = streamed(CUTOFF_BLOCKS);
    let mut apart = (1100..2048).step_by(300).map(|block| block as u64);
    for start in (0..1024).step_by(REQUEST_BLOCKS) {
        read(&volume, start, REQUEST_BLOCKS, |_| 0);
        if let Some(block) = apart.next() {
            assert_eq!(rig::get(&volume, block), rig::bytes_of(block, 0));
            assert!(volume.is_resident(block..block + 1), "block {block}");
        }
    }
    assert!(rig.pool.stats().totals.passed_by > 0);
}

#[test]
fn the_cutoff_can_be_changed_while_a_run_goes_on() {
    let (rig, _backing, volume) = streamed(0);
    read(&volume, 0, 512, |_| 0);
    let totals = || rig.pool.stats().totals;
    assert_eq!((totals().fills, totals().passed_by), (512, 0));
    rig.pool.set_sequential_cutoff(BLOCK as u64);
    assert_eq!(rig.pool.tuning().sequential_cutoff_bytes, BLOCK as u64);
    read(&volume, 512, 128, |_| 0);
    assert_eq!((totals().fills, totals().passed_by), (512, 128));
    rig.pool.set_sequential_cutoff(0);
    read(&volume, 640, 128, |_| 0);
    assert_eq!((totals().fills, totals().passed_by), (640, 128));
}

const AHEAD_BLOCKS: usize = 4 * REQUEST_BLOCKS;

/// The same with read-ahead, and threads that do it or not.
fn read_ahead(background: bool) -> (Rig, Backing, Volume) {
    let rig = rig_with(32 << 20, |options| {
        options
            .background(background)
            .read_ahead_bytes((AHEAD_BLOCKS * BLOCK) as u64)
    });
    let bytes = (0..BLOCKS as u64).flat_map(|block| rig::bytes_of(block, 0));
    let backing = Backing::from_store(Arc::new(MemoryStore::from_bytes(bytes.collect())));
    let volume = rig.pool.attach(backing.clone()).unwrap();
    (rig, backing, volume)
}

fn turn(rig: &Rig) {
    forebay::unstable::background_turn(&rig.pool, 3).unwrap();
}

#[test]
fn what_a_run_wants_next_is_read_ahead_once_and_taken_from_there() {
    let (rig, backing, volume) = read_ahead(false);
    let before = backing.counters();
    let asked = || backing.counters() - before;
    let ahead = || rig.pool.stats().totals.read_ahead;
    read(&volume, 0, REQUEST_BLOCKS, |_| 0);
    assert_eq!(asked().reads, 1);
    // As much as was read: one window.
    (0..9).for_each(|_| turn(&rig));
    assert_eq!(asked().reads, 2);
    read(&volume, 64, REQUEST_BLOCKS, |_| 0);
    assert_eq!((asked().reads, ahead()), (2, 64));
    // Two now, then four at most.
    (0..9).for_each(|_| turn(&rig));
    assert_eq!(asked().reads, 4);
    read(&volume, 128, 2 * REQUEST_BLOCKS, |_| 0);
    (0..9).for_each(|_| turn(&rig));
    assert_eq!((asked().reads, ahead()), (8, 192));
    // Every block once, and brought in by the reader alone.
    assert_eq!(asked().bytes_read, (8 * REQUEST_BLOCKS * BLOCK) as u64);
    assert_eq!(rig.pool.stats().totals.fills, 256);
    assert!(!volume.is_resident(256..257));
    // A window that no thread has begun to read: the reader does.
    read(&volume, 256, 8 * REQUEST_BLOCKS, |_| 0);
    assert_eq!(asked().bytes_read, (12 * REQUEST_BLOCKS * BLOCK) as u64);
    assert_eq!(ahead(), 192 + 256);
}

#[test]
fn a_block_that_was_written_or_zeroed_since_was_read_as_it_was_read_ahead() {
    for zeroes in [false, true] {
        let (rig, _backing, volume) = read_ahead(false);
        read(&volume, 0, REQUEST_BLOCKS, |_| 0);
        turn(&rig);
        if zeroes {
            volume.discard(70..71).unwrap();
        } else {
            // It comes, goes to the backing, and leaves.
            rig::put(&volume, 70, 1);
            volume.flush().unwrap();
            volume.forget_blocks([70]).unwrap();
        }
        assert!(!volume.is_resident(70..71));
        let wanted = match zeroes {
            true => vec![0; BLOCK],
            false => rig::bytes_of(70, 1),
        };
        assert!(rig::get(&volume, 70) == wanted, "zeroes: {zeroes}");
        assert_eq!(rig.pool.stats().totals.read_ahead, 0, "it is stale");
    }
}

#[test]
fn a_block_that_is_cached_is_read_from_the_pool_and_not_from_ahead() {
    let (rig, _backing, volume) = read_ahead(false);
    rig::put(&volume, 70, 1);
    read(&volume, 0, REQUEST_BLOCKS, |_| 0);
    turn(&rig);
    rig::put(&volume, 80, 2);
    let version = |block| match block {
        70 => 1,
        80 => 2,
        _ => 0,
    };
    read(&volume, 64, REQUEST_BLOCKS, version);
    assert_eq!(rig.pool.stats().totals.read_ahead, 62);
}

#[test]
fn a_volume_that_is_detached_has_nothing_read_ahead_and_another_process_may_have_its_backing() {
    let (rig, backing, volume) = read_ahead(false);
    read(&volume, 0, REQUEST_BLOCKS, |_| 0);
    turn(&rig);
    let left = volume.clone();
    rig.pool.detach(volume).unwrap();
    left.read(64, &mut vec![0; BLOCK]).expect_err("it is gone");
    let volume = rig.pool.attach(backing.clone()).unwrap();
    let before = backing.counters().reads;
    read(&volume, 64, REQUEST_BLOCKS, |_| 0);
    assert_eq!(backing.counters().reads - before, 1);
}

#[test]
fn threads_read_ahead_of_a_run_and_end_with_the_pool() {
    let (rig, backing, volume) = read_ahead(true);
    read(&volume, 0, BLOCKS, |_| 0);
    let totals = rig.pool.stats().totals;
    assert_eq!(totals.read_misses, BLOCKS as u64);
    let asked = backing.counters().bytes_read;
    assert!(asked >= (BLOCKS * BLOCK) as u64);
    // A reader that was faster than the threads, read itself what they had just begun.
    assert!(asked <= (2 * BLOCKS * BLOCK) as u64, "{asked}");
    drop(volume);
    rig.pool.close().unwrap();
}

/// A store that has something done while it is asked for a block.
struct Meanwhile {
    memory: MemoryStore,
    act: std::sync::Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl BackingStore for Meanwhile {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }
    fn identity(&self) -> BackingIdentity {
        self.memory.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let done = self.memory.read_at(offset, out);
        let act = self.act.lock().unwrap().take();
        if let Some(mut act) = act {
            act();
        }
        done
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<std::io::Result<()>> {
        self.memory.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> std::io::Result<()> {
        self.memory.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.memory.sync()
    }
    fn counters(&self) -> BackingCounters {
        self.memory.counters()
    }
    fn transport(&self) -> String {
        self.memory.transport()
    }
}

#[test]
fn a_block_whose_stripe_another_one_left_meanwhile_was_read_again_by_itself() {
    let rig = rig_with(16 << 20, |options| options.background(false));
    let bytes = (0..BLOCKS as u64).flat_map(|block| rig::bytes_of(block, 0));
    let store = Arc::new(Meanwhile {
        memory: MemoryStore::from_bytes(bytes.collect()),
        act: std::sync::Mutex::default(),
    });
    let volume = rig.pool.attach(Backing::from_store(store.clone())).unwrap();
    read(&volume, 0, 1024, |_| 0);
    // All of these leave while the backing is asked for others: most stripes change.
    let leaving = volume.clone();
    let leave = move || leaving.forget_blocks(0..1024).unwrap();
    *store.act.lock().unwrap() = Some(Box::new(leave));
    let before = (store.counters().reads, rig.pool.stats().totals.fills);
    read(&volume, 1024, REQUEST_BLOCKS, |_| 0);
    assert_eq!(store.counters().reads - before.0, 1);
    assert_eq!(
        rig.pool.stats().totals.fills - before.1,
        REQUEST_BLOCKS as u64
    );
    // One of its own blocks was written, and left again: the backing's answer is from before that.
    let writing = volume.clone();
    let write = move || {
        rig::put(&writing, 1500, 1);
        writing.flush().unwrap();
        writing.forget_blocks([1500]).unwrap();
    };
    *store.act.lock().unwrap() = Some(Box::new(write));
    read(&volume, 1472, REQUEST_BLOCKS, |block| {
        u64::from(block == 1500)
    });
}

#[test]
fn a_lone_miss_at_the_end_of_a_read_counted_twice_for_its_run() {
    const CUTOFF_BLOCKS: usize = 4;
    let (rig, _backing, volume) = streamed(CUTOFF_BLOCKS);
    let passed_by = || rig.pool.stats().totals.passed_by;
    // Every other block is cached.
    for block in (1..10).step_by(2) {
        rig::put(&volume, block, 1);
    }
    let read_two = |first: u64| {
        let mut out = vec![0; 2 * BLOCK];
        volume.read(first, &mut out).unwrap();
        assert!(out[..BLOCK] == rig::bytes_of(first, 1));
        assert!(out[BLOCK..] == rig::bytes_of(first + 1, 0));
    };
    (1..9).step_by(2).for_each(read_two);
    assert_eq!(passed_by(), 0, "four blocks are as long as the cutoff");
    read_two(9);
    assert_eq!(passed_by(), 1);
}
