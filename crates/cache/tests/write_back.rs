//! Write-back: what reaches the backing, when it counts as clean, and what failures cost (nothing).

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay::{
    Backing, BackingCounters, BackingIdentity, BackingStore, Error, FaultyStore, MemoryStore, Pool,
    PoolOptions, Volume, WriteRun,
};

const BLOCK: usize = 4096;
/// How long a test waits for background threads before it calls them stuck.
const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
    pool: Pool,
}

fn rig(pool_bytes: u64, background: bool) -> Rig {
    rig_with(pool_bytes, |options| {
        options.runtime.background = background
    })
}

fn rig_with(pool_bytes: u64, adjust: impl FnOnce(&mut PoolOptions)) -> Rig {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let mut options = PoolOptions::new(&path, pool_bytes);
    adjust(&mut options);
    let pool = Pool::create(&options).unwrap();
    Rig {
        _folder: folder,
        path,
        pool,
    }
}

/// A store that fails when told to, and the memory behind it.
fn faulty(blocks: usize) -> (Arc<MemoryStore>, Arc<FaultyStore>, Backing) {
    let memory = Arc::new(MemoryStore::new((blocks * BLOCK) as u64));
    let faulty = Arc::new(FaultyStore::new(memory.clone()));
    let backing = Backing::from_store(faulty.clone());
    (memory, faulty, backing)
}

/// Bytes that no other block and no other version has.
fn bytes_of(block: u64, version: u64) -> Vec<u8> {
    let seed = block << 32 | version;
    (0..BLOCK as u64)
        .map(|at| {
            ((seed.wrapping_mul(0x9E37_79B9) ^ at).wrapping_mul(0xFF51_AFD7_ED55_8CCD) >> 40) as u8
        })
        .collect()
}

fn put(volume: &Volume, block: u64, version: u64) {
    try_put(volume, block, version).unwrap();
}

fn try_put(volume: &Volume, block: u64, version: u64) -> forebay::Result<()> {
    let mut transaction = volume.begin();
    transaction.write(block, &bytes_of(block, version))?;
    transaction.commit()
}

fn get(volume: &Volume, block: u64) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    volume.read(block, &mut out).unwrap();
    out
}

fn behind(memory: &MemoryStore, block: u64) -> Vec<u8> {
    memory.snapshot()[block as usize * BLOCK..][..BLOCK].to_vec()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

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
        (1, 200, 1)
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
        (2 + 3, 620, 1)
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
fn a_backing_that_fails_costs_nothing_and_is_drained_when_it_returns() {
    let rig = rig(8 << 20, false);
    let (memory, store, backing) = faulty(100);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    store.fail_writes(u64::MAX);
    for block in 0..10 {
        put(&volume, block, 1);
    }
    let error = volume.flush().unwrap_err();
    assert!(matches!(error, Error::Backing { .. }), "{error}");
    let stats = rig.pool.stats();
    assert_eq!(stats.dirty_blocks, 10);
    assert!(stats.volumes[0].degraded);
    assert!(stats.totals.write_back_errors > 0);
    put(&volume, 3, 2);
    assert_eq!(
        get(&volume, 3),
        bytes_of(3, 2),
        "served from the pool meanwhile"
    );
    store.fail_writes(0);
    rig.pool.write_back_once().unwrap();
    assert_eq!(rig.pool.stats().dirty_blocks, 0);
    assert!(!rig.pool.stats().volumes[0].degraded);
    assert_eq!(behind(&memory, 3), bytes_of(3, 2));
    assert_eq!(behind(&memory, 9), bytes_of(9, 1));
}

#[test]
fn a_failed_sync_leaves_the_whole_batch_dirty() {
    let rig = rig(8 << 20, false);
    let (memory, store, backing) = faulty(100);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    for block in 0..10 {
        put(&volume, block, 1);
    }
    store.fail_syncs(1);
    assert!(volume.flush().is_err());
    assert_eq!(rig.pool.stats().dirty_blocks, 10);
    // What the system may have dropped is written again, all of it.
    volume.flush().unwrap();
    assert_eq!(backing.counters().blocks_written, 20);
    assert_eq!(rig.pool.stats().dirty_blocks, 0);
    assert_eq!(behind(&memory, 5), bytes_of(5, 1));
}

#[test]
fn one_write_that_fails_leaves_the_whole_batch_dirty() {
    let rig = rig(8 << 20, false);
    let (_, store, backing) = faulty(100);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    for block in [1, 2, 3, 50, 51, 52] {
        put(&volume, block, 1);
    }
    store.fail_writes(1);
    assert!(volume.flush().is_err());
    assert_eq!(rig.pool.stats().dirty_blocks, 6);
    assert_eq!(backing.counters().syncs, 0);
    volume.flush().unwrap();
    assert_eq!(rig.pool.stats().dirty_blocks, 0);
}

#[test]
fn a_failing_volume_does_not_hold_up_another() {
    let rig = rig(8 << 20, false);
    let (_, broken, broken_backing) = faulty(100);
    let (memory, _, sound_backing) = faulty(100);
    let broken_volume = rig.pool.attach(broken_backing).unwrap();
    let sound_volume = rig.pool.attach(sound_backing).unwrap();
    broken.fail_writes(u64::MAX);
    for block in 0..10 {
        put(&broken_volume, block, 1);
        put(&sound_volume, block, 2);
    }
    assert!(rig.pool.write_back_once().is_err());
    assert_eq!(rig.pool.stats().dirty_blocks, 10);
    sound_volume.flush().unwrap();
    assert_eq!(behind(&memory, 4), bytes_of(4, 2));
    let degraded: Vec<bool> = rig
        .pool
        .stats()
        .volumes
        .iter()
        .map(|v| v.degraded)
        .collect();
    assert_eq!(degraded, [true, false]);
}

#[test]
fn background_threads_drain_a_backing_that_returns_without_being_asked() {
    let rig = rig_with(8 << 20, |options| options.runtime.dirty_high_per_mille = 5);
    let (memory, store, backing) = faulty(1000);
    let volume = rig.pool.attach(backing).unwrap();
    store.fail_writes(u64::MAX);
    for block in 0..100 {
        put(&volume, block, 1);
    }
    wait_until("the volume is degraded", || {
        rig.pool.stats().volumes[0].degraded
    });
    store.fail_writes(0);
    store.fail_syncs(1);
    wait_until("everything is written back", || {
        rig.pool.stats().dirty_blocks == 0
    });
    assert!(!rig.pool.stats().volumes[0].degraded);
    for block in 0..100 {
        assert_eq!(behind(&memory, block), bytes_of(block, 1));
    }
}

/// Writes many times the pool's room and checks every byte, cached, evicted and behind the cache.
fn overcommit(background: bool) {
    const BLOCKS: u64 = 4000;
    let rig = rig(4 << 20, background);
    let (memory, store, backing) = faulty(BLOCKS as usize);
    let volume = rig.pool.attach(backing).unwrap();
    let threads = if background { 2 } else { 1 };
    let versions: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (volume, store) = (volume.clone(), store.clone());
                scope.spawn(move || {
                    let mut versions = vec![0; BLOCKS as usize];
                    let mut random = 99 + thread;
                    for step in 1..=8000u64 {
                        random = (random ^ step)
                            .wrapping_mul(0xFF51_AFD7_ED55_8CCD)
                            .rotate_left(29);
                        let block = random % BLOCKS / threads * threads + thread;
                        put(&volume, block, step);
                        versions[block as usize] = step;
                        if background && step % 1000 == 0 {
                            store.fail_writes(3);
                            store.fail_syncs(2);
                        }
                    }
                    versions
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    let expected = |block: u64| match versions[(block % threads) as usize][block as usize] {
        0 => vec![0; BLOCK],
        version => bytes_of(block, version),
    };
    store.fail_writes(0);
    store.fail_syncs(0);
    for block in 0..BLOCKS {
        assert_eq!(
            get(&volume, block),
            expected(block),
            "block {block} through the cache"
        );
    }
    volume.flush().unwrap();
    let stats = rig.pool.stats();
    assert_eq!(stats.dirty_blocks, 0);
    assert!(stats.totals.evictions > BLOCKS, "{stats:?}");
    let snapshot = memory.snapshot();
    for block in 0..BLOCKS {
        let at = block as usize * BLOCK;
        assert_eq!(
            snapshot[at..at + BLOCK],
            expected(block),
            "block {block} behind the cache"
        );
    }
}

#[test]
fn a_writer_past_capacity_loses_nothing_when_it_drives_the_stages_itself() {
    overcommit(false);
}

#[test]
fn writers_past_capacity_lose_nothing_with_background_threads_and_a_flapping_backing() {
    overcommit(true);
}

#[test]
fn a_full_pool_in_front_of_a_dead_backing_refuses_writes_and_keeps_what_it_has() {
    for background in [false, true] {
        let rig = rig_with(2 << 20, |options| {
            options.runtime.background = background;
            options.runtime.throttle_deadline = Duration::from_millis(50);
        });
        let (memory, store, backing) = faulty(4000);
        let volume = rig.pool.attach(backing).unwrap();
        store.fail_writes(u64::MAX);
        let mut written = 0;
        let error = loop {
            match try_put(&volume, written, 1) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 4000, "the pool cannot hold that much");
        };
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
        assert_eq!(rig.pool.stats().dirty_blocks, written);
        for block in 0..written {
            assert_eq!(get(&volume, block), bytes_of(block, 1));
        }
        store.fail_writes(0);
        wait_until("the backing is asked again", || {
            try_put(&volume, written, 1).is_ok()
        });
        volume.flush().unwrap();
        for block in 0..=written {
            assert_eq!(behind(&memory, block), bytes_of(block, 1));
        }
    }
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
    assert!(matches!(error, Error::Corrupt { block: 3, .. }), "{error}");
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

#[test]
fn dropping_a_pool_stops_its_threads_in_the_middle_of_everything() {
    for _ in 0..10 {
        let rig = rig_with(4 << 20, |options| options.runtime.dirty_high_per_mille = 5);
        let (_, store, backing) = faulty(2000);
        let volume = rig.pool.attach(backing).unwrap();
        store.fail_writes(5);
        for block in 0..600 {
            put(&volume, block, 1);
        }
        drop(volume);
        drop(rig);
    }
}
