//! What a device was asked: exact where times are noisy.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers since the device was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Writes.
    pub writes: u64,
    /// Pages written.
    pub pages_written: u64,
    /// Writes that were to be durable, and flushes.
    pub flushes: u64,
    /// Reads.
    pub reads: u64,
    /// Pages read.
    pub pages_read: u64,
    /// System calls that these took, where there are any.
    pub read_calls: u64,
}

impl DeviceCounters {
    /// What came since `before`.
    #[must_use]
    pub fn since(&self, before: &DeviceCounters) -> DeviceCounters {
        DeviceCounters {
            writes: self.writes - before.writes,
            pages_written: self.pages_written - before.pages_written,
            flushes: self.flushes - before.flushes,
            reads: self.reads - before.reads,
            pages_read: self.pages_read - before.pages_read,
            read_calls: self.read_calls - before.read_calls,
        }
    }

    /// This and what another device was asked.
    #[must_use]
    pub fn and(&self, other: &DeviceCounters) -> DeviceCounters {
        DeviceCounters {
            writes: self.writes + other.writes,
            pages_written: self.pages_written + other.pages_written,
            flushes: self.flushes + other.flushes,
            reads: self.reads + other.reads,
            pages_read: self.pages_read + other.pages_read,
            read_calls: self.read_calls + other.read_calls,
        }
    }
}

/// The numbers while they are counted.
#[derive(Debug, Default)]
pub struct Counters {
    writes: AtomicU64,
    pages_written: AtomicU64,
    flushes: AtomicU64,
    reads: AtomicU64,
    pages_read: AtomicU64,
    read_calls: AtomicU64,
}

impl Counters {
    /// A write of so many pages.
    pub fn note_write(&self, pages: u64, is_durable: bool) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.pages_written.fetch_add(pages, Ordering::Relaxed);
        self.flushes
            .fetch_add(u64::from(is_durable), Ordering::Relaxed);
    }

    /// A flush.
    pub fn note_flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// A read of so many pages.
    pub fn note_read(&self, pages: u64) {
        self.note_reads(1, pages, 1);
    }

    /// Reads of so many pages by so many system calls.
    pub fn note_reads(&self, reads: u64, pages: u64, calls: u64) {
        self.reads.fetch_add(reads, Ordering::Relaxed);
        self.pages_read.fetch_add(pages, Ordering::Relaxed);
        self.read_calls.fetch_add(calls, Ordering::Relaxed);
    }

    /// As they are now.
    pub fn get(&self) -> DeviceCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeviceCounters {
            writes: load(&self.writes),
            pages_written: load(&self.pages_written),
            flushes: load(&self.flushes),
            reads: load(&self.reads),
            pages_read: load(&self.pages_read),
            read_calls: load(&self.read_calls),
        }
    }
}
