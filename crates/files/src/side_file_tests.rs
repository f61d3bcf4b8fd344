//! The file beside the pool where a sync of it failed: the system keeps the pages that it could not write,
//! shows them to the next process, and writes them no more.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forebay::{Backing, BackingCounters, BackingIdentity, BackingStore, MemoryStore, WriteRun};

use crate::buffer::{FileBuffer, FileBufferParts};
use crate::cuts::{Cuts, SIDE_BYTES};
use crate::facts::SyncKind;
use crate::testing::{Rig, open_file};

const PAGE_BYTES: u64 = 4096;

/// A file, and what the system keeps of it in memory.
struct Cached {
    kept: MemoryStore,
    medium: MemoryStore,
    dirty: Mutex<BTreeSet<u64>>,
    fails_next_sync: AtomicBool,
    /// Whether another process's mapping keeps the pages in memory.
    is_mapped: bool,
}

impl Cached {
    fn new(is_mapped: bool) -> Arc<Cached> {
        Arc::new(Cached {
            kept: MemoryStore::new(SIDE_BYTES),
            medium: MemoryStore::new(SIDE_BYTES),
            dirty: Mutex::default(),
            fails_next_sync: AtomicBool::new(false),
            is_mapped,
        })
    }

    /// The next one that has something to write.
    fn fail_next_sync(&self) {
        self.fails_next_sync.store(true, Ordering::Relaxed);
    }

    /// What a power cut leaves.
    fn after_power_cut(&self) -> Backing {
        Backing::from_store(Arc::new(MemoryStore::from_bytes(self.medium.snapshot())))
    }

    fn note(&self, offset: u64, len_bytes: u64) {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        dirty.extend(offset / PAGE_BYTES..(offset + len_bytes).div_ceil(PAGE_BYTES));
    }

    fn copy(from: &MemoryStore, to: &MemoryStore, page: u64) {
        let mut bytes = [0; PAGE_BYTES as usize];
        let offset = page * PAGE_BYTES;
        let len = (SIDE_BYTES - offset).min(PAGE_BYTES) as usize;
        from.read_at(offset, &mut bytes[..len]).expect("read");
        let bytes = &bytes[..len];
        for written in to.write_runs(&[WriteRun { offset, bytes }]) {
            written.expect("write");
        }
    }
}

impl BackingStore for Cached {
    fn size_bytes(&self) -> u64 {
        SIDE_BYTES
    }
    fn identity(&self) -> BackingIdentity {
        self.kept.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.kept.read_at(offset, out)
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        for run in runs {
            self.note(run.offset, run.bytes.len() as u64);
        }
        self.kept.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.note(offset, len_bytes);
        self.kept.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> io::Result<()> {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        let dirty = std::mem::take(&mut *dirty);
        if !dirty.is_empty() && self.fails_next_sync.swap(false, Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        for page in dirty {
            Cached::copy(&self.kept, &self.medium, page);
        }
        Ok(())
    }
    fn forget_cached(&self) -> Vec<Range<u64>> {
        if self.is_mapped {
            return vec![0..SIDE_BYTES];
        }
        let dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        let clean = |page: &u64| !dirty.contains(page);
        for page in (0..SIDE_BYTES.div_ceil(PAGE_BYTES)).filter(clean) {
            Cached::copy(&self.medium, &self.kept, page);
        }
        Vec::new()
    }
    fn counters(&self) -> BackingCounters {
        self.kept.counters()
    }
    fn transport(&self) -> String {
        self.kept.transport()
    }
}

#[test]
fn a_pool_was_refused_after_a_power_cut_where_only_memory_had_whose_its_side_file_is() {
    for is_mapped in [false, true] {
        let rig = Rig::new(4 << 20);
        let side = Cached::new(is_mapped);
        let parts = || FileBufferParts {
            side: Backing::from_store(side.clone()),
            ..rig.parts()
        };
        // That of the owner's name.
        side.fail_next_sync();
        FileBuffer::open_on(parts()).expect_err("the disk failed");
        let buffer = FileBuffer::open_on(parts()).expect("it is well again");
        let file = buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
        file.sync(SyncKind::Data).expect("sync");
        file.append(b"acknowledged\n", true).expect("append");
        drop((file, buffer));
        let parts = FileBufferParts {
            side: side.after_power_cut(),
            ..rig.parts()
        };
        drop(FileBuffer::open_on(parts).expect("the pool's own side file"));
        let found = std::fs::read(rig.path("file")).expect("read");
        assert_eq!(found, b"acknowledged\n");
    }
}

#[test]
fn a_cut_was_made_again_over_newer_data_where_only_memory_had_its_mark() {
    for is_mapped in [false, true] {
        let rig = Rig::new(4 << 20);
        let cached = Cached::new(is_mapped);
        let side = Backing::from_store(cached.clone());
        let parts = FileBufferParts {
            side: side.clone(),
            ..rig.parts()
        };
        drop(FileBuffer::open_on(parts).expect("open"));
        let cuts = Cuts::open(&side).expect("open");
        let epoch = cuts.next_epoch();
        cached.fail_next_sync();
        cuts.done(3, epoch).expect_err("the disk failed");
        // The next process goes on from what it finds; a power cut must not take that back.
        let parts = FileBufferParts {
            side: side.clone(),
            ..rig.parts()
        };
        drop(FileBuffer::open_on(parts).expect("open"));
        let believed = Cuts::open(&side).expect("open").is_done(3, epoch);
        let durable = Cuts::open(&cached.after_power_cut()).expect("open");
        assert_eq!(durable.is_done(3, epoch), believed, "{is_mapped}");
    }
}
