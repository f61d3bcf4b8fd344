//! A backing in memory, for tests and for the crash checker's small pools.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::counters::LiveCounters;
use super::store::clipped_len;
use super::{BackingCounters, BackingIdentity, BackingStore, MarkPlace, WriteRun};

/// Bytes under a lock. Everything written is durable at once.
pub struct MemoryStore {
    bytes: Mutex<Vec<u8>>,
    /// What callers may use of them: the store may have grown since the last refresh.
    size_bytes: AtomicU64,
    number: u64,
    counters: LiveCounters,
    /// Only if it was asked for: what is in memory is not there any more when a pool could be lost.
    mark: Option<MemoryMark>,
    front_mark: Option<MemoryMark>,
}

/// A mark in memory.
#[derive(Default)]
struct MemoryMark(Mutex<Option<Vec<u8>>>);

impl MarkPlace for MemoryMark {
    fn read(&self) -> io::Result<Vec<Vec<u8>>> {
        let mark = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(mark.iter().cloned().collect())
    }

    fn write(&self, mark: &[u8]) -> io::Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(mark.to_vec());
        Ok(())
    }
}

/// Tells one memory store of this process from another in their identities.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

impl MemoryStore {
    /// An all-zero store of `size_bytes`.
    ///
    /// # Panics
    /// Where `size_bytes` does not fit the address space.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        let len = usize::try_from(size_bytes).expect("a memory backing fits in memory");
        Self::from_bytes(vec![0; len])
    }

    /// A store that holds `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self {
            size_bytes: AtomicU64::new(bytes.len() as u64),
            bytes: Mutex::new(bytes),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            counters: LiveCounters::default(),
            mark: None,
            front_mark: None,
        }
    }

    /// Has the store keep a mark, and that of a pool in front.
    #[must_use]
    pub fn marked(self) -> Self {
        Self {
            mark: Some(MemoryMark::default()),
            front_mark: Some(MemoryMark::default()),
            ..self
        }
    }

    /// A copy of the whole content.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        self.lock().clone()
    }

    /// Gives it another size: it keeps its content as far as that reaches, and is zero beyond. No
    /// caller uses what it gains before [`BackingStore::refresh_size`].
    pub fn resize(&self, size_bytes: u64) {
        self.lock().resize(size_bytes as usize, 0);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        // Bytes have no invariant that a panicking holder could have broken.
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BackingStore for MemoryStore {
    fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    fn refresh_size(&self) -> io::Result<u64> {
        let found = self.lock().len() as u64;
        self.size_bytes.fetch_max(found, Ordering::Relaxed);
        Ok(found)
    }

    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            path: PathBuf::from(format!("memory-{}", self.number)),
            inode: self.number,
            size_bytes: self.size_bytes(),
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inside = clipped_len(self.size_bytes(), offset, out.len());
        self.counters.count_read(inside);
        let (head, tail) = out.split_at_mut(inside);
        if inside > 0 {
            let start = offset as usize;
            head.copy_from_slice(&self.lock()[start..start + inside]);
        }
        tail.fill(0);
        Ok(())
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        let mut bytes = self.lock();
        runs.iter()
            .map(|run| {
                let inside = clipped_len(self.size_bytes(), run.offset, run.bytes.len());
                self.counters.count_write(run.offset, inside);
                if inside > 0 {
                    let start = run.offset as usize;
                    bytes[start..start + inside].copy_from_slice(&run.bytes[..inside]);
                }
                Ok(())
            })
            .collect()
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.counters.count_zeroing();
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        let inside = clipped_len(self.size_bytes(), offset, len);
        if inside > 0 {
            let start = offset as usize;
            self.lock()[start..start + inside].fill(0);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.counters.count_sync();
        Ok(())
    }

    fn counters(&self) -> BackingCounters {
        self.counters.read()
    }

    fn transport(&self) -> String {
        "memory".to_owned()
    }

    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        Some(self.mark.as_ref()?)
    }

    fn front_mark_place(&self) -> Option<&dyn MarkPlace> {
        Some(self.front_mark.as_ref()?)
    }
}
