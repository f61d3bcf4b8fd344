//! A store that fails on command, or works as slowly as it is told, for tests of what the cache does
//! about it.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{BackingCounters, BackingIdentity, BackingRun, BackingStore, MarkPlace, WriteRun};

/// Passes everything to another store, except for as many requests as it was told to fail.
pub struct FaultyStore {
    inner: Arc<dyn BackingStore>,
    failing_reads: AtomicU64,
    failing_writes: AtomicU64,
    failing_syncs: AtomicU64,
    errno: AtomicI32,
    write_bytes_per_s: AtomicU64,
    delay_us: AtomicU64,
    /// When the device is done with what it was given so far.
    busy_until: Mutex<Option<Instant>>,
}

impl FaultyStore {
    /// A store that behaves as `inner` until told otherwise.
    #[must_use]
    pub fn new(inner: Arc<dyn BackingStore>) -> Self {
        Self {
            inner,
            failing_reads: AtomicU64::new(0),
            failing_writes: AtomicU64::new(0),
            failing_syncs: AtomicU64::new(0),
            errno: AtomicI32::new(libc::EIO),
            write_bytes_per_s: AtomicU64::new(0),
            delay_us: AtomicU64::new(0),
            busy_until: Mutex::new(None),
        }
    }

    /// The next `count` reads fail; `u64::MAX` until told otherwise.
    pub fn fail_reads(&self, count: u64) {
        self.failing_reads.store(count, Ordering::SeqCst);
    }

    /// The next `count` write runs fail and do not reach the store.
    pub fn fail_writes(&self, count: u64) {
        self.failing_writes.store(count, Ordering::SeqCst);
    }

    /// The next `count` syncs fail and do not reach the store.
    pub fn fail_syncs(&self, count: u64) {
        self.failing_syncs.store(count, Ordering::SeqCst);
    }

    /// What requests that are to fail fail with; EIO until told otherwise.
    pub fn fail_with(&self, errno: i32) {
        self.errno.store(errno, Ordering::SeqCst);
    }

    /// Takes no more than `bytes_per_s` bytes a second from now on; 0 means as fast as it can.
    pub fn limit_write_rate(&self, bytes_per_s: u64) {
        self.write_bytes_per_s.store(bytes_per_s, Ordering::SeqCst);
    }

    /// From now on every request takes at least so long, however many there are at a time: a disk's
    /// latency without a disk's queue.
    pub fn delay_requests(&self, delay: Duration) {
        let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.delay_us.store(delay_us, Ordering::SeqCst);
    }

    fn delay(&self) {
        match self.delay_us.load(Ordering::SeqCst) {
            0 => {}
            delay_us => std::thread::sleep(Duration::from_micros(delay_us)),
        }
    }

    fn fails(remaining: &AtomicU64) -> bool {
        remaining
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
                0 => None,
                u64::MAX => Some(u64::MAX),
                left => Some(left - 1),
            })
            .is_ok()
    }

    fn failure(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno.load(Ordering::SeqCst))
    }

    /// Keeps the caller for as long as a device of that rate would be busy with the bytes.
    fn take_time(&self, len: usize) {
        let rate = self.write_bytes_per_s.load(Ordering::SeqCst);
        if rate == 0 {
            return;
        }
        let took = Duration::from_secs_f64(len as f64 / rate as f64);
        let now = Instant::now();
        let done = {
            let mut busy = self
                .busy_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let done = busy.map_or(now, |busy| busy.max(now)) + took;
            *busy.insert(done)
        };
        std::thread::sleep(done - now);
    }
}

impl BackingStore for FaultyStore {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn refresh_size(&self) -> io::Result<u64> {
        self.inner.refresh_size()
    }

    fn identity(&self) -> BackingIdentity {
        self.inner.identity()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.delay();
        if Self::fails(&self.failing_reads) {
            return Err(self.failure());
        }
        self.inner.read_at(offset, out)
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        self.delay();
        self.take_time(runs.iter().map(|run| run.bytes.len()).sum());
        runs.iter()
            .map(|run| {
                if Self::fails(&self.failing_writes) {
                    return Err(self.failure());
                }
                self.inner.write_runs(std::slice::from_ref(run)).remove(0)
            })
            .collect()
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.delay();
        if Self::fails(&self.failing_writes) {
            return Err(self.failure());
        }
        self.inner.zero_range(offset, len_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.delay();
        if Self::fails(&self.failing_syncs) {
            return Err(self.failure());
        }
        self.inner.sync()
    }

    fn forget_cached(&self) -> Vec<Range<u64>> {
        self.inner.forget_cached()
    }

    fn run_at(&self, offset: u64, len_bytes: u64) -> BackingRun {
        self.inner.run_at(offset, len_bytes)
    }

    fn counters(&self) -> BackingCounters {
        self.inner.counters()
    }

    fn transport(&self) -> String {
        self.inner.transport()
    }

    fn holds_pool(&self) -> bool {
        self.inner.holds_pool()
    }

    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        self.inner.mark_place()
    }

    fn front_mark_place(&self) -> Option<&dyn MarkPlace> {
        self.inner.front_mark_place()
    }
}
