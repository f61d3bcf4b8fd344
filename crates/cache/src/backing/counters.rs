//! What a backing was asked to do, counted where it happens.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};

/// Unit in which [`BackingCounters::blocks_written`] counts, in bytes.
pub const BACKING_BLOCK_BYTES: u64 = 4096;

/// Totals since the backing was opened. Failed requests count too: the device saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackingCounters {
    /// Read requests.
    pub reads: u64,
    /// Bytes they asked for, clipped to the backing's size.
    pub bytes_read: u64,
    /// Write runs, each counted once however it was split or resumed.
    pub writes: u64,
    /// Bytes they carried, clipped to the backing's size.
    pub bytes_written: u64,
    /// 4 KiB blocks they touched ([`BACKING_BLOCK_BYTES`]).
    pub blocks_written: u64,
    /// Ranges zeroed.
    pub zeroings: u64,
    /// Syncs.
    pub syncs: u64,
}

impl Sub for BackingCounters {
    type Output = BackingCounters;

    /// What was added since `before`.
    fn sub(self, before: BackingCounters) -> BackingCounters {
        BackingCounters {
            reads: self.reads - before.reads,
            bytes_read: self.bytes_read - before.bytes_read,
            writes: self.writes - before.writes,
            bytes_written: self.bytes_written - before.bytes_written,
            blocks_written: self.blocks_written - before.blocks_written,
            zeroings: self.zeroings - before.zeroings,
            syncs: self.syncs - before.syncs,
        }
    }
}

/// The counters while they count.
#[derive(Default)]
pub(crate) struct LiveCounters {
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    blocks_written: AtomicU64,
    zeroings: AtomicU64,
    syncs: AtomicU64,
}

impl LiveCounters {
    pub(crate) fn count_read(&self, len: usize) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(len as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_write(&self, offset: u64, len: usize) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes_written.fetch_add(len as u64, Ordering::Relaxed);
        if len > 0 {
            let first = offset / BACKING_BLOCK_BYTES;
            let last = (offset + len as u64 - 1) / BACKING_BLOCK_BYTES;
            self.blocks_written
                .fetch_add(last - first + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_zeroing(&self) {
        self.zeroings.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> BackingCounters {
        BackingCounters {
            reads: self.reads.load(Ordering::Relaxed),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            blocks_written: self.blocks_written.load(Ordering::Relaxed),
            zeroings: self.zeroings.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }
}
