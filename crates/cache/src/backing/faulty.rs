//! A store that fails on command, for tests of what the cache does about it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BackingCounters, BackingIdentity, BackingStore, WriteRun};

/// Passes everything to another store, except for as many requests as it was told to fail.
pub struct FaultyStore {
    inner: Arc<dyn BackingStore>,
    failing_reads: AtomicU64,
    failing_writes: AtomicU64,
    failing_syncs: AtomicU64,
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
        }
    }

    /// The next `count` reads fail with EIO; `u64::MAX` until told otherwise.
    pub fn fail_reads(&self, count: u64) {
        self.failing_reads.store(count, Ordering::SeqCst);
    }

    /// The next `count` write runs fail with EIO and do not reach the store.
    pub fn fail_writes(&self, count: u64) {
        self.failing_writes.store(count, Ordering::SeqCst);
    }

    /// The next `count` syncs fail with EIO and do not reach the store.
    pub fn fail_syncs(&self, count: u64) {
        self.failing_syncs.store(count, Ordering::SeqCst);
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

    fn eio() -> io::Error {
        io::Error::from_raw_os_error(libc::EIO)
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
        if Self::fails(&self.failing_reads) {
            return Err(Self::eio());
        }
        self.inner.read_at(offset, out)
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        runs.iter()
            .map(|run| {
                if Self::fails(&self.failing_writes) {
                    return Err(Self::eio());
                }
                self.inner.write_runs(std::slice::from_ref(run)).remove(0)
            })
            .collect()
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        if Self::fails(&self.failing_writes) {
            return Err(Self::eio());
        }
        self.inner.zero_range(offset, len_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        if Self::fails(&self.failing_syncs) {
            return Err(Self::eio());
        }
        self.inner.sync()
    }

    fn counters(&self) -> BackingCounters {
        self.inner.counters()
    }

    fn transport(&self) -> String {
        self.inner.transport()
    }
}
