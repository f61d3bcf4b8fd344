//! What is under way in a backing while something else comes to its end.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::{
    Backing, BackingCounters, BackingIdentity, BackingStore, MarkPlace, MemoryStore, Pool,
    PoolOptions, RuntimeOptions, Volume, WriteRun,
};
use forebay_pmem::Region;

const BLOCK: usize = 4096;
/// How long a close is given that ought to wait.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It has the bytes, and has not returned them.
    Reads,
    Writes,
    Zeroes,
}

type Hook = Arc<dyn Fn(Step) + Send + Sync>;

/// A store that makes a call in the middle of a request.
struct Watched {
    inner: MemoryStore,
    hook: Mutex<Option<Hook>>,
    mark: Place,
}

#[derive(Default)]
struct Place {
    mark: Mutex<Option<Vec<u8>>>,
    takes_none: AtomicBool,
}

impl MarkPlace for Place {
    fn read(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(self.mark.lock().unwrap().iter().cloned().collect())
    }
    fn write(&self, mark: &[u8]) -> io::Result<()> {
        if self.takes_none.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        *self.mark.lock().unwrap() = Some(mark.to_vec());
        Ok(())
    }
}

impl Watched {
    fn new() -> Arc<Watched> {
        Arc::new(Watched {
            inner: MemoryStore::from_bytes(vec![7; 64 * BLOCK]),
            hook: Mutex::default(),
            mark: Place::default(),
        })
    }

    fn set(&self, hook: impl Fn(Step) + Send + Sync + 'static) {
        *self.hook.lock().unwrap() = Some(Arc::new(hook));
    }

    fn call(&self, step: Step) {
        let hook = self.hook.lock().unwrap().clone();
        if let Some(hook) = hook {
            hook(step);
        }
    }
}

impl BackingStore for Watched {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn identity(&self) -> BackingIdentity {
        self.inner.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, out)?;
        self.call(Step::Reads);
        Ok(())
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        self.call(Step::Writes);
        self.inner.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.call(Step::Zeroes);
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
    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        Some(&self.mark)
    }
}

fn pool_and_volume(store: &Arc<Watched>) -> (Pool, Volume) {
    let options = PoolOptions::default().runtime(
        RuntimeOptions::default()
            .background(false)
            .fill_on_read(false),
    );
    let pool = Pool::create_on(vec![Region::shadow(4 << 20)], &options).unwrap();
    let volume = pool.attach(Backing::from_store(store.clone())).unwrap();
    (pool, volume)
}

/// Closes the pool while `work` is at `step`; what the backing had when that was done.
fn close_at(step: Step, work: fn(&Volume)) -> Vec<u8> {
    let store = Watched::new();
    let (pool, volume) = pool_and_volume(&store);
    volume.write(3, &[3; BLOCK]).unwrap();
    let (begun, has_begun) = channel();
    let (closed, is_closed) = channel::<()>();
    let is_closed = Mutex::new(is_closed);
    let other = volume.clone();
    store.set(move |now| {
        if now == step {
            begun.send(()).unwrap();
            while other.write(40, &[4; BLOCK]).is_ok() {
                std::thread::yield_now();
            }
            // A close that does not wait for us comes to its end here.
            let _ = is_closed.lock().unwrap().recv_timeout(PATIENCE);
        }
    });
    std::thread::scope(|scope| {
        scope.spawn(move || work(&volume));
        has_begun.recv().unwrap();
        pool.close().unwrap();
        let reached = store.inner.snapshot();
        drop(closed);
        reached
    })
}

#[test]
fn a_pool_is_not_closed_while_a_round_of_write_back_writes() {
    let reached = close_at(Step::Writes, |volume| drop(volume.flush()));
    assert_eq!(reached[3 * BLOCK], 3);
}

#[test]
fn a_pool_is_not_closed_while_the_backing_zeroes_blocks() {
    let reached = close_at(Step::Zeroes, |volume| drop(volume.discard(4..8)));
    assert_eq!(reached[5 * BLOCK], 0);
}

#[test]
fn a_reader_of_one_moment_hears_of_a_discard_between_its_two_looks() {
    let store = Watched::new();
    let (_pool, volume) = pool_and_volume(&store);
    volume.write(0, &[1; BLOCK]).unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let (count, other) = (reads.clone(), volume.clone());
    store.set(move |step| {
        if step != Step::Reads {
            return;
        }
        match count.fetch_add(1, Ordering::Relaxed) {
            // No quiet moment: the reader pins its blocks.
            0..64 => other.write(0, &[2; BLOCK]).unwrap(),
            64 => {
                other.discard(1..2).unwrap();
                other.write(0, &[3; BLOCK]).unwrap();
            }
            _ => {}
        }
    });
    let mut out = vec![0; 2 * BLOCK];
    volume.read_atomic(0, &mut out).unwrap();
    assert_eq!(
        (out[0], out[BLOCK]),
        (3, 0),
        "the write came after the discard"
    );
    assert_eq!(reads.load(Ordering::Relaxed), 66, "it read once more");
}

#[test]
fn a_volume_whose_mark_may_say_whole_takes_no_writes_after_its_detach_failed() {
    let store = Watched::new();
    let (pool, volume) = pool_and_volume(&store);
    volume.write(3, &[3; BLOCK]).unwrap();
    store.mark.takes_none.store(true, Ordering::Relaxed);
    pool.detach(volume.clone()).unwrap_err();
    assert_eq!(store.inner.snapshot()[3 * BLOCK], 3);
    volume.write(3, &[4; BLOCK]).unwrap_err();
}
