//! What a backing can do at the edges: a failed sync that is reported to another caller, zeroes that only the
//! page cache has, a device that takes its time.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fixtures::{BLOCK, Rig, block, get, open, put, quiet, tiny};
use forebay::{
    Backing, BackingCounters, BackingIdentity, BackingStore, Error, ErrorKind, Pool, Volume,
    WriteRun,
};

const BLOCKS: usize = 64;
/// How long a test waits for another thread before it calls it stuck.
const PATIENCE: Duration = Duration::from_secs(20);

type Hook = Mutex<Option<Box<dyn FnOnce() + Send>>>;

fn run(hook: &Hook) {
    let hook = hook.lock().unwrap().take();
    if let Some(hook) = hook {
        hook();
    }
}

/// A disk behind a page cache: what a failed sync could not write stays in memory and is clean.
struct Disk {
    cached: Mutex<Vec<u8>>,
    medium: Mutex<Vec<u8>>,
    unsynced: Mutex<BTreeSet<usize>>,
    size_bytes: Mutex<u64>,
    fails_sync: AtomicBool,
    keeps_cached: AtomicBool,
    before_zeroing: Hook,
    before_sync: Hook,
    after_write: Hook,
    after_read: Hook,
}

impl Disk {
    fn new(byte: u8) -> Arc<Disk> {
        let bytes = vec![byte; BLOCKS * BLOCK];
        Arc::new(Disk {
            cached: Mutex::new(bytes.clone()),
            size_bytes: Mutex::new(bytes.len() as u64),
            medium: Mutex::new(bytes),
            unsynced: Mutex::default(),
            fails_sync: AtomicBool::new(false),
            keeps_cached: AtomicBool::new(false),
            before_zeroing: Mutex::default(),
            before_sync: Mutex::default(),
            after_write: Mutex::default(),
            after_read: Mutex::default(),
        })
    }

    fn attach(self: &Arc<Disk>, pool: &Pool) -> Volume {
        pool.attach(Backing::from_store(self.clone())).unwrap()
    }

    fn cut_power(&self) {
        self.unsynced.lock().unwrap().clear();
        *self.cached.lock().unwrap() = self.medium.lock().unwrap().clone();
    }

    fn grow(&self, blocks: usize) {
        let len = (BLOCKS + blocks) * BLOCK;
        self.cached.lock().unwrap().resize(len, 0);
        self.medium.lock().unwrap().resize(len, 0);
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let start = offset as usize;
        let end = start + bytes.len();
        self.cached.lock().unwrap()[start..end].copy_from_slice(bytes);
        let blocks = start / BLOCK..end.div_ceil(BLOCK);
        self.unsynced.lock().unwrap().extend(blocks);
    }

    fn block(&self, number: usize) -> Vec<u8> {
        self.cached.lock().unwrap()[number * BLOCK..][..BLOCK].to_vec()
    }
}

impl BackingStore for Disk {
    fn size_bytes(&self) -> u64 {
        *self.size_bytes.lock().unwrap()
    }
    fn refresh_size(&self) -> io::Result<u64> {
        let found = self.cached.lock().unwrap().len() as u64;
        *self.size_bytes.lock().unwrap() = found;
        Ok(found)
    }
    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            path: "disk".into(),
            inode: 7,
            size_bytes: self.size_bytes(),
        }
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        out.copy_from_slice(&self.cached.lock().unwrap()[start..start + out.len()]);
        run(&self.after_read);
        Ok(())
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        let write = |run: &WriteRun<'_>| self.write(run.offset, run.bytes);
        let results = runs.iter().map(write).map(Ok).collect();
        run(&self.after_write);
        results
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        run(&self.before_zeroing);
        self.write(offset, &vec![0; len_bytes as usize]);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        run(&self.before_sync);
        let unsynced = std::mem::take(&mut *self.unsynced.lock().unwrap());
        if self.fails_sync.swap(false, Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let cached = self.cached.lock().unwrap();
        let mut medium = self.medium.lock().unwrap();
        for number in unsynced {
            let bytes = number * BLOCK..(number + 1) * BLOCK;
            medium[bytes.clone()].copy_from_slice(&cached[bytes]);
        }
        Ok(())
    }
    fn forget_cached(&self) -> Vec<Range<u64>> {
        if self.keeps_cached.load(Ordering::SeqCst) {
            return std::iter::once(0..self.size_bytes()).collect();
        }
        let mut cached = self.cached.lock().unwrap();
        let medium = self.medium.lock().unwrap();
        let unsynced = self.unsynced.lock().unwrap();
        for number in (0..cached.len() / BLOCK).filter(|number| !unsynced.contains(number)) {
            let bytes = number * BLOCK..(number + 1) * BLOCK;
            cached[bytes.clone()].copy_from_slice(&medium[bytes]);
        }
        Vec::new()
    }
    fn counters(&self) -> BackingCounters {
        BackingCounters::default()
    }
    fn transport(&self) -> String {
        "a disk behind a page cache".into()
    }
}

fn hook(slot: &Hook, run: impl FnOnce() + Send + 'static) {
    *slot.lock().unwrap() = Some(Box::new(run));
}

/// Runs something on a thread of its own and says when it is done.
fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        // The test may have ended by an assertion.
        let _ = sender.send(work());
    });
    receiver
}

fn heard<T>(receiver: &Receiver<T>, what: &str) -> T {
    let told = receiver.recv_timeout(PATIENCE);
    told.unwrap_or_else(|_| panic!("never happened: {what}"))
}

/// Evicts what is clean, so that reads show what the backing has.
fn evict_all(pool: &Pool) {
    while pool.reclaim_once(64).unwrap() > 0 {}
}

#[test]
fn a_failed_sync_of_a_growing_volume_is_heard_by_the_round_that_had_written_before() {
    let rig = Rig::new(&tiny(), 1);
    let disk = Disk::new(0);
    let volume = disk.attach(&rig.pool);
    put(&volume, 3, &block(3, 1));
    let (written, has_written) = channel::<()>();
    let (go, may_go) = channel::<()>();
    hook(&disk.after_write, move || {
        written.send(()).unwrap();
        heard(&may_go, "the volume has grown, or not");
    });
    std::thread::scope(|scope| {
        let round = scope.spawn(|| rig.pool.write_back_once());
        heard(&has_written, "a write");
        disk.grow(4);
        disk.fails_sync.store(true, Ordering::SeqCst);
        assert!(rig.pool.grow_volume(&volume).is_err());
        go.send(()).unwrap();
        // The round's own sync succeeds, but what it wrote is lost.
        assert!(round.join().unwrap().is_err());
    });
    assert_eq!(rig.pool.stats().dirty_blocks, 1);
    evict_all(&rig.pool);
    disk.cut_power();
    assert!(get(&volume, 3).unwrap() == block(3, 1));
}

/// A pool that was killed after a discard whose sync failed: the disk has the old bytes, the page cache
/// zeroes, which no later sync writes.
fn after_a_failed_discard(keeps_cached: bool) -> (Arc<Disk>, Pool, Volume) {
    let rig = Rig::new(&tiny(), 1);
    let disk = Disk::new(7);
    let volume = disk.attach(&rig.pool);
    disk.fails_sync.store(true, Ordering::SeqCst);
    assert!(volume.discard(4..8).is_err());
    let images = rig.images();
    drop((volume, rig));
    disk.keeps_cached.store(keeps_cached, Ordering::SeqCst);
    let pool = open(&images, quiet()).unwrap();
    let volume = disk.attach(&pool);
    (disk, pool, volume)
}

#[test]
fn zeroes_of_a_discard_whose_sync_failed_are_not_believed_after_a_restart() {
    let (disk, pool, volume) = after_a_failed_discard(false);
    let before = get(&volume, 5).unwrap();
    disk.cut_power();
    evict_all(&pool);
    assert!(get(&volume, 5).unwrap() == before);
}

#[test]
fn what_stays_in_the_page_cache_is_read_but_never_filled() {
    let (_disk, pool, volume) = after_a_failed_discard(true);
    assert!(get(&volume, 5).unwrap() == [0; BLOCK]);
    assert!(get(&volume, 50).unwrap() == [7; BLOCK]);
    assert_eq!(pool.stats().totals.fills, 0);
}

#[test]
fn a_backing_that_takes_its_time_to_zero_holds_up_no_writer_of_other_blocks() {
    let rig = Rig::new(&tiny(), 1);
    let disk = Disk::new(7);
    let volume = disk.attach(&rig.pool);
    let writer = volume.clone();
    hook(&disk.before_zeroing, move || {
        let written =
            aside(move || (32..BLOCKS as u64).try_for_each(|n| writer.write(n, &block(n, 1))));
        heard(&written, "writes while the backing zeroes").unwrap();
    });
    volume.discard(0..32).unwrap();
    for number in 32..BLOCKS as u64 {
        assert!(get(&volume, number).unwrap() == block(number, 1));
    }
    assert!(get(&volume, 31).unwrap() == [0; BLOCK]);
}

#[test]
fn a_block_that_is_written_while_the_backing_zeroes_it_is_not_zeroed_after_its_write_back() {
    let rig = Rig::new(&tiny(), 1);
    let disk = Disk::new(7);
    let volume = disk.attach(&rig.pool);
    let (flushed, is_flushed) = channel();
    let writer = volume.clone();
    hook(&disk.before_zeroing, move || {
        let written = aside({
            let writer = writer.clone();
            move || writer.write(3, &block(3, 1))
        });
        heard(&written, "a write of a block that is being zeroed").unwrap();
        let flush = aside(move || writer.flush());
        // However long it takes, the flush is not done before the zeroes are written.
        assert!(flush.recv_timeout(Duration::from_millis(200)).is_err());
        flushed.send(flush).unwrap();
    });
    volume.discard(0..8).unwrap();
    let flush = heard(&is_flushed, "the zeroing");
    heard(&flush, "a flush after the zeroing").unwrap();
    assert!(disk.block(3) == block(3, 1) && disk.block(4) == [0; BLOCK]);
    evict_all(&rig.pool);
    assert!(get(&volume, 3).unwrap() == block(3, 1));
}

#[test]
fn a_part_of_a_block_that_is_written_while_the_backing_zeroes_it_keeps_nothing_old() {
    let rig = Rig::new(&tiny(), 1);
    let disk = Disk::new(7);
    let volume = disk.attach(&rig.pool);
    let (begun, has_begun) = channel();
    let writer = volume.clone();
    hook(&disk.before_zeroing, move || {
        let written = aside(move || {
            let mut transaction = writer.begin();
            transaction.write_at(3 * BLOCK as u64, b"new")?;
            transaction.commit()
        });
        assert!(written.recv_timeout(Duration::from_millis(200)).is_err());
        begun.send(written).unwrap();
    });
    volume.discard(0..8).unwrap();
    let written = heard(&has_begun, "the zeroing");
    heard(&written, "a write after the zeroing").unwrap();
    let mut expected = vec![0; BLOCK];
    expected[..3].copy_from_slice(b"new");
    assert!(get(&volume, 3).unwrap() == expected);
}

#[test]
fn what_was_read_before_the_backing_zeroed_it_is_not_brought_in_after_the_discard() {
    let rig = Rig::new(&tiny(), 1);
    let disk = Disk::new(7);
    let volume = disk.attach(&rig.pool);
    let (discarded, is_discarded) = channel::<()>();
    let (begun, has_begun) = channel();
    let reader = volume.clone();
    let reads = disk.clone();
    hook(&disk.before_zeroing, move || {
        let (read, has_read) = channel::<()>();
        hook(&reads.after_read, move || {
            read.send(()).unwrap();
            heard(&is_discarded, "the end of the discard");
        });
        let old = aside(move || get(&reader, 3));
        heard(&has_read, "a read of the backing");
        begun.send(old).unwrap();
    });
    volume.discard(0..8).unwrap();
    discarded.send(()).unwrap();
    let read = heard(&has_begun, "the zeroing");
    heard(&read, "the read").unwrap();
    assert!(get(&volume, 3).unwrap() == [0; BLOCK]);
}

#[test]
fn a_volume_is_not_detached_while_the_backing_zeroes_blocks_of_it() {
    let rig = Arc::new(Rig::new(&tiny(), 1));
    let disk = Disk::new(7);
    let volume = disk.attach(&rig.pool);
    let (begun, has_begun) = channel();
    let (pool, other) = (rig.clone(), volume.clone());
    hook(&disk.before_zeroing, move || {
        let gone = aside(move || pool.pool.detach(other));
        assert!(gone.recv_timeout(Duration::from_millis(200)).is_err());
        begun.send(gone).unwrap();
    });
    let discarded = volume.discard(0..8);
    let gone = heard(&has_begun, "the zeroing");
    heard(&gone, "a detach after the zeroing").unwrap();
    assert!(
        discarded.is_ok()
            || matches!(
                discarded.as_ref().map_err(Error::kind),
                Err(ErrorKind::Volume(_))
            )
    );
}

/// A discard that still had to sync when its volume went was told of the failure that concerned what the
/// next volume of the same backing had written.
#[test]
fn a_discard_does_not_take_a_failed_sync_from_the_next_volume_of_its_backing() {
    let rig = Arc::new(Rig::new(&tiny(), 1));
    let disk = Disk::new(7);
    let volume = disk.attach(&rig.pool);
    // Another discard's sync takes its time from our zeroing on, so that ours finds itself waiting.
    let (go, may_go) = channel::<()>();
    let (started, other) = channel();
    let (slow, volume_of_other) = (disk.clone(), volume.clone());
    hook(&disk.before_zeroing, move || {
        let (begun, has_begun) = channel();
        hook(&slow.before_sync, move || {
            begun.send(()).unwrap();
            heard(&may_go, "our discard waits");
        });
        let other = aside(move || volume_of_other.discard(40..41));
        heard(&has_begun, "the other sync");
        started.send(other).unwrap();
    });
    let (pool, old) = (rig.clone(), volume.clone());
    let (stuck, went) = channel();
    let meanwhile = move || {
        go.send(()).unwrap();
        let other = other.recv().unwrap();
        heard(&other, "the other discard").unwrap();
        let gone = aside(move || pool.pool.detach(old));
        // Otherwise the next volume of this backing could write before our sync fails.
        let early = gone.recv_timeout(Duration::from_millis(200));
        assert!(early.is_err(), "the detach does not wait for our sync");
        stuck.send(gone).unwrap();
    };
    let meanwhile = std::cell::Cell::new(Some(meanwhile));
    forebay_pmem::set_yield_hook(Some(Box::new(move |pause| {
        let waits = pause == forebay_pmem::Pause::Wait;
        match waits.then(|| meanwhile.take()).flatten() {
            Some(meanwhile) => meanwhile(),
            None => std::thread::yield_now(),
        }
    })));
    let discarded = volume.discard(0..8);
    forebay_pmem::set_yield_hook(None);
    let gone = heard(&went, "a sync that has to wait");
    heard(&gone, "the detach").unwrap();
    discarded.unwrap();
}

/// Writes until the pool refuses; returns why, and how many blocks it took.
fn fill_up(volume: &Volume) -> (Error, u64) {
    let mut written = 0;
    loop {
        match volume.write(written, &block(written, 1)) {
            Ok(()) => written += 1,
            Err(error) => return (error, written),
        }
        assert!(written < 4000, "the pool cannot hold that much");
    }
}

fn small_pool_in_the_background(store: Arc<dyn BackingStore>) -> (Pool, Volume) {
    let options = tiny()
        .background(true)
        .throttle_deadline(Duration::from_millis(100))
        .answer_deadline(Duration::from_millis(1));
    let pool = Pool::create_on(vec![forebay::Region::shadow(16 << 10)], &options).unwrap();
    let volume = pool.attach(Backing::from_store(store)).unwrap();
    (pool, volume)
}

#[test]
fn a_backing_that_hangs_is_degraded_and_is_not_called_full() {
    let memory = Arc::new(forebay::MemoryStore::new(4000 * BLOCK as u64));
    let store = Arc::new(Hanging {
        inner: memory,
        hangs: Mutex::new(true),
    });
    let (pool, volume) = small_pool_in_the_background(store.clone());
    let is_degraded = |pool: &Pool| pool.stats().volumes[0].degraded;
    assert!(!is_degraded(&pool));
    let (error, written) = fill_up(&volume);
    assert!(matches!(error.kind(), ErrorKind::Stalled { .. }), "{error}");
    assert!(
        error.to_string().contains("a write has had no answer"),
        "{error}"
    );
    let stats = pool.stats().volumes.remove(0);
    assert!(stats.degraded && stats.failures == 0);
    assert_eq!(stats.waiting_for.map(|wait| wait.request), Some("write"));
    assert!(
        stats
            .last_error
            .unwrap()
            .starts_with("a write has had no answer")
    );
    *store.hangs.lock().unwrap() = false;
    volume.flush().unwrap();
    assert!(!is_degraded(&pool) && written > 0);
}

#[test]
fn only_a_backing_that_says_so_is_called_full_and_its_failure_is_remembered() {
    let memory = Arc::new(forebay::MemoryStore::new(4000 * BLOCK as u64));
    let store = Arc::new(forebay::FaultyStore::new(memory));
    for (errno, is_full) in [(libc::ENOSPC, true), (libc::EIO, false)] {
        let (pool, volume) = small_pool_in_the_background(store.clone());
        store.fail_with(errno);
        store.fail_writes(u64::MAX);
        let (error, _) = fill_up(&volume);
        assert_eq!(
            matches!(error.kind(), ErrorKind::NoSpace { .. }),
            is_full,
            "{error}"
        );
        store.fail_writes(0);
        volume.flush().unwrap();
        let stats = pool.stats().volumes.remove(0);
        assert!(!stats.degraded && stats.last_error.is_none());
        assert!(stats.failures > 0 && stats.last_failure.is_some());
    }
}

/// Answers no write while it hangs.
struct Hanging {
    inner: Arc<forebay::MemoryStore>,
    hangs: Mutex<bool>,
}

impl BackingStore for Hanging {
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
        while *self.hangs.lock().unwrap() {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.inner.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.inner.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
    fn counters(&self) -> BackingCounters {
        self.inner.counters()
    }
    fn transport(&self) -> String {
        self.inner.transport()
    }
}
