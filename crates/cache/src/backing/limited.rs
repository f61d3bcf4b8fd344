//! A store of which only the first bytes belong to the volume.
//!
//! A backing may be larger than its volume: it grew, and the volume has not been grown yet. What lies
//! beyond the volume's end is not the pool's until then, and no write-back may touch it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::held_stripes;

use super::aligned::is_range_aligned;
use super::store::clipped_len;
use super::waits::{BackingWait, Waiting, Waits};
use super::{
    Backing, BackingCounters, BackingIdentity, BackingRun, BackingStore, FailedDomains,
    FaultDomain, MarkPlace, WriteRun,
};

/// The first bytes of a store.
pub(crate) struct Limited {
    inner: Backing,
    limit_bytes: AtomicU64,
    waits: Waits,
}

impl Limited {
    /// The first `limit_bytes` of `inner`.
    pub(crate) fn new(inner: Backing, limit_bytes: u64) -> Limited {
        Limited {
            inner,
            limit_bytes: AtomicU64::new(limit_bytes),
            waits: Waits::default(),
        }
    }

    /// What the store was asked longest ago of what it has not answered.
    pub(crate) fn waits_for(&self) -> Option<BackingWait> {
        self.waits.longest()
    }

    fn ask(&self, request: &'static str) -> Waiting {
        held_stripes::assert_none();
        self.waits.begin(request)
    }

    /// Whether a read may be queued with the kernel, on the store's direct file: it has one, and the read ends within what is used.
    pub(crate) fn takes_queued(&self, offset: u64, len: usize) -> bool {
        let used_bytes = self.size_bytes().min(self.inner.size_bytes());
        let end = offset.checked_add(len as u64);
        end.is_some_and(|end| end <= used_bytes)
            && is_range_aligned(offset, len)
            && self.inner.direct_file().is_some()
    }

    /// A read that may be queued is: it is counted, and has no answer until what is returned is dropped.
    pub(crate) fn begin_queued(&self, len: usize) -> Waiting {
        self.inner.count_queued_read(len);
        self.ask("read")
    }

    /// Lets more of the store be used.
    pub(crate) fn raise(&self, limit_bytes: u64) {
        self.limit_bytes.fetch_max(limit_bytes, Ordering::Relaxed);
    }
}

impl BackingStore for Limited {
    fn size_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    fn refresh_size(&self) -> io::Result<u64> {
        self.inner.refresh_size()
    }

    fn identity(&self) -> BackingIdentity {
        self.inner.identity()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let _asked = self.ask("read");
        let (inside, beyond) = out.split_at_mut(clipped_len(self.size_bytes(), offset, out.len()));
        beyond.fill(0);
        self.inner.read_at(offset, inside)
    }

    fn direct_file(&self) -> Option<&File> {
        self.inner.direct_file()
    }

    fn count_queued_read(&self, len: usize) {
        self.inner.count_queued_read(len);
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        let _asked = self.ask("write");
        let size_bytes = self.size_bytes();
        let is_inside = |run: &WriteRun<'_>| run.offset + run.bytes.len() as u64 <= size_bytes;
        if runs.iter().all(is_inside) {
            return self.inner.write_runs(runs);
        }
        let clipped = runs.iter().map(|run| WriteRun {
            offset: run.offset,
            bytes: &run.bytes[..clipped_len(size_bytes, run.offset, run.bytes.len())],
        });
        self.inner.write_runs(&clipped.collect::<Vec<_>>())
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let _asked = self.ask("zeroing");
        let inside = len_bytes.min(self.size_bytes().saturating_sub(offset));
        self.inner.zero_range(offset, inside)
    }

    fn sync(&self) -> io::Result<()> {
        let _asked = self.ask("sync");
        self.inner.sync()
    }

    fn domain_at(&self, offset: u64) -> FaultDomain {
        self.inner.domain_at(offset)
    }

    fn sync_domains(&self) -> FailedDomains {
        let _asked = self.ask("sync");
        self.inner.sync_domains()
    }

    fn domain_name(&self, domain: FaultDomain) -> Option<String> {
        self.inner.domain_name(domain)
    }

    fn prefers_long_rounds(&self) -> bool {
        self.inner.prefers_long_rounds()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backing::MemoryStore;

    #[test]
    fn nothing_beyond_the_limit_is_read_or_written_until_it_is_raised() {
        let store = Arc::new(MemoryStore::from_bytes(vec![7; 10]));
        let limited = Limited::new(Backing::from_store(store.clone()), 6);
        let mut out = [9; 4];
        limited.read_at(4, &mut out).expect("read");
        assert_eq!(out, [7, 7, 0, 0]);
        let run = |bytes| WriteRun { offset: 4, bytes };
        limited
            .write_runs(&[run(&[1; 4])])
            .remove(0)
            .expect("write");
        assert_eq!(store.snapshot(), [7, 7, 7, 7, 1, 1, 7, 7, 7, 7]);
        limited.zero_range(5, 5).expect("zero");
        assert_eq!(store.snapshot(), [7, 7, 7, 7, 1, 0, 7, 7, 7, 7]);
        limited.raise(8);
        limited
            .write_runs(&[run(&[2; 6])])
            .remove(0)
            .expect("write");
        assert_eq!(store.snapshot(), [7, 7, 7, 7, 2, 2, 2, 2, 7, 7]);
    }
}
