//! Write-back: what reaches the backing, in how many writes, and when it counts as clean.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::rig::{BLOCK, behind, bytes_of, faulty, put, rig, wait_until};
use forebay::{
    Backing, BackingCounters, BackingIdentity, BackingStore, ErrorKind, MemoryStore, Pool, WriteRun,
};

#[test]
fn neighbours_written_in_any_order_reach_the_backing_as_one_write_and_one_sync() {
    let rig = rig(8 << 20, false);
    let (memory, _, backing) = faulty(1000);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    for step in 0..200u64 {
        put(&volume, 300 + step * 77 % 200, 1);
    }
    volume.flush().unwrap();
    let counters = backing.counters();
    assert_eq!(
        (counters.writes, counters.blocks_written, counters.syncs),
        (1, 200, 2),
        "a sync when attached, another after the write"
    );
    assert_eq!(rig.pool.stats().dirty_blocks, 0);
    for block in 300..500 {
        assert_eq!(behind(&memory, block), bytes_of(block, 1));
    }
}

#[test]
fn gaps_and_the_longest_run_part_writes() {
    let rig = rig(16 << 20, false);
    let (_, _, backing) = faulty(2000);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    for block in (0..10).chain(20..30).chain(1000..1600) {
        put(&volume, block, 1);
    }
    volume.flush().unwrap();
    // Ten, ten, and 600 blocks in runs of 1 MiB.
    let counters = backing.counters();
    assert_eq!(
        (counters.writes, counters.blocks_written, counters.syncs),
        (2 + 3, 620, 2)
    );
}

#[test]
fn a_block_overwritten_while_dirty_is_written_back_once() {
    let rig = rig(8 << 20, false);
    let (memory, _, backing) = faulty(100);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    for version in 0..50 {
        put(&volume, 7, version);
    }
    volume.flush().unwrap();
    volume.flush().unwrap();
    assert_eq!(
        backing.counters().blocks_written,
        1,
        "and a clean one not at all"
    );
    assert_eq!(behind(&memory, 7), bytes_of(7, 49));
}

#[test]
fn small_writes_and_discards_are_written_back_as_they_read() {
    let rig = rig(8 << 20, false);
    let (memory, _, backing) = faulty(100);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    for block in 0..6 {
        put(&volume, block, 1);
    }
    volume.flush().unwrap();
    let mut transaction = volume.begin();
    transaction
        .write_at(BLOCK as u64 + 100, b"a few bytes")
        .unwrap();
    transaction.discard(3..5).unwrap();
    transaction.append(9, 0, b"the start of a block").unwrap();
    transaction.commit().unwrap();
    volume.flush().unwrap();
    let mut expected = bytes_of(1, 1);
    expected[100..111].copy_from_slice(b"a few bytes");
    assert_eq!(behind(&memory, 1), expected);
    assert_eq!(behind(&memory, 3), vec![0; BLOCK]);
    assert_eq!(behind(&memory, 4), vec![0; BLOCK]);
    assert_eq!(behind(&memory, 5), bytes_of(5, 1));
    let mut appended = vec![0; BLOCK];
    appended[..20].copy_from_slice(b"the start of a block");
    assert_eq!(behind(&memory, 9), appended);
    assert_eq!(
        backing.counters().zeroings,
        1,
        "neighbouring zero blocks are zeroed together"
    );
    assert_eq!(backing.counters().blocks_written, 6 + 2);
}

#[test]
fn the_tail_of_an_odd_sized_backing_is_clipped() {
    let rig = rig(8 << 20, false);
    let memory = Arc::new(MemoryStore::new(10 * BLOCK as u64 + 100));
    let volume = rig
        .pool
        .attach(Backing::from_store(memory.clone()))
        .unwrap();
    put(&volume, 9, 1);
    put(&volume, 10, 1);
    volume.flush().unwrap();
    assert_eq!(memory.snapshot()[9 * BLOCK..10 * BLOCK], bytes_of(9, 1));
    assert_eq!(memory.snapshot()[10 * BLOCK..], bytes_of(10, 1)[..100]);
}

#[test]
fn a_real_file_ends_up_with_every_byte_and_the_next_life_goes_on_from_there() {
    const BLOCKS: u64 = 2500;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = folder.path().join("disk");
    let odd_tail = 700;
    std::fs::write(&disk, vec![0; BLOCKS as usize * BLOCK + odd_tail]).unwrap();
    let rig = rig(4 << 20, true);
    let volume = rig.pool.attach(Backing::file(&disk).unwrap()).unwrap();
    for block in 0..=BLOCKS {
        put(&volume, block, 1);
    }
    for block in (0..=BLOCKS).step_by(3) {
        put(&volume, block, 2);
    }
    drop(volume);
    rig.pool.close().unwrap();
    // Much of it is dirty still, and its backing comes back after the pool.
    let pool = Pool::open(&[&rig.path]).unwrap();
    assert!(pool.stats().dirty_blocks > 0);
    let volume = pool.attach(Backing::file(&disk).unwrap()).unwrap();
    volume.flush().unwrap();
    assert_eq!(pool.stats().dirty_blocks, 0);
    let content = std::fs::read(&disk).unwrap();
    for (block, bytes) in (0..).zip(content.chunks(BLOCK)) {
        let version = if block % 3 == 0 { 2 } else { 1 };
        assert_eq!(
            bytes,
            &bytes_of(block, version)[..bytes.len()],
            "block {block}"
        );
    }
}

#[test]
fn when_commits_pause_the_log_is_emptied() {
    let rig = rig(8 << 20, true);
    let (_, _, backing) = faulty(100);
    let volume = rig.pool.attach(backing).unwrap();
    for block in 0..50 {
        put(&volume, block, 1);
    }
    wait_until("a checkpoint covers the last commit", || {
        rig.pool.stats().log_used_per_mille == 0
    });
    let checkpoints = rig.pool.stats().checkpoints;
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(
        rig.pool.stats().checkpoints,
        checkpoints,
        "and then there is nothing to do"
    );
}

/// Runs something in the middle of a round.
struct Meddling {
    inner: Arc<MemoryStore>,
    before_write: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    before_sync: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Meddling {
    fn run(hook: &Mutex<Option<Box<dyn FnOnce() + Send>>>) {
        let hook = hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
    }
}

impl BackingStore for Meddling {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn identity(&self) -> BackingIdentity {
        self.inner.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, out)
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        Self::run(&self.before_write);
        self.inner.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.inner.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> io::Result<()> {
        Self::run(&self.before_sync);
        self.inner.sync()
    }
    fn counters(&self) -> BackingCounters {
        self.inner.counters()
    }
    fn transport(&self) -> String {
        self.inner.transport()
    }
}

#[test]
fn a_block_that_changes_during_its_write_back_stays_dirty() {
    for during_sync in [false, true] {
        let rig = rig(8 << 20, false);
        let store = Arc::new(Meddling {
            inner: Arc::new(MemoryStore::new(100 * BLOCK as u64)),
            before_write: Mutex::default(),
            before_sync: Mutex::default(),
        });
        let volume = rig.pool.attach(Backing::from_store(store.clone())).unwrap();
        for block in 0..5 {
            put(&volume, block, 1);
        }
        let meddler = volume.clone();
        let hook: Box<dyn FnOnce() + Send> = Box::new(move || {
            put(&meddler, 2, 2);
            let mut transaction = meddler.begin();
            transaction.write_at(3 * BLOCK as u64, b"in place").unwrap();
            transaction.discard(4..5).unwrap();
            transaction.commit().unwrap();
        });
        let slot = if during_sync {
            &store.before_sync
        } else {
            &store.before_write
        };
        *slot.lock().unwrap() = Some(hook);
        volume.flush().unwrap();
        assert_eq!(rig.pool.stats().dirty_blocks, 3);
        assert_eq!(
            behind(&store.inner, 2),
            bytes_of(2, 1),
            "the version that was copied out"
        );
        rig.pool.write_back_once().unwrap();
        assert_eq!(rig.pool.stats().dirty_blocks, 0);
        let mut third = bytes_of(3, 1);
        third[..8].copy_from_slice(b"in place");
        assert_eq!(behind(&store.inner, 2), bytes_of(2, 2));
        assert_eq!(behind(&store.inner, 3), third);
        assert_eq!(behind(&store.inner, 4), vec![0; BLOCK]);
    }
}

#[test]
fn a_corrupt_block_never_reaches_the_backing() {
    let rig = rig(4 << 20, false);
    let (memory, _, backing) = faulty(100);
    let volume = rig.pool.attach(backing).unwrap();
    for block in 0..5 {
        put(&volume, block, 1);
    }
    flip_a_byte_of(&rig.path, &bytes_of(3, 1));
    let error = volume.flush().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Corrupt { block: 3, .. }),
        "{error}"
    );
    assert_eq!(rig.pool.stats().dirty_blocks, 1);
    assert_eq!(behind(&memory, 3), vec![0; BLOCK]);
    assert_eq!(behind(&memory, 4), bytes_of(4, 1), "its neighbours do");
    assert!(
        !rig.pool.stats().volumes[0].degraded,
        "the backing did nothing wrong"
    );
    put(&volume, 3, 2);
    rig.pool.write_back_once().unwrap();
    assert_eq!(rig.pool.stats().dirty_blocks, 0);
    assert_eq!(behind(&memory, 3), bytes_of(3, 2));
}

/// Changes one byte of the block with this content, in the pool's memory.
fn flip_a_byte_of(path: &std::path::Path, content: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let pool = std::fs::read(path).unwrap();
    let at = pool
        .chunks(BLOCK)
        .position(|block| block == content)
        .expect("the block is in the pool once")
        * BLOCK;
    file.write_all_at(&[!content[500]], at as u64 + 500)
        .unwrap();
}
