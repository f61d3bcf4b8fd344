//! The disk behind a volume: blocks with a volatile cache. What was written since the last sync may be there after a power cut,
//! block by block.

use forebay_log::{Backing, PAGE_BYTES};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

/// The bytes of a block, shared by all that hold the same.
pub type Bytes = Arc<Vec<u8>>;

/// What a disk holds.
#[derive(Clone)]
pub struct DiskState {
    durable: Vec<Bytes>,
    /// In the order of the writes.
    pending: BTreeMap<usize, Vec<Bytes>>,
}

impl DiskState {
    /// A disk that holds these blocks.
    pub fn new(blocks: Vec<Bytes>) -> DiskState {
        DiskState {
            durable: blocks,
            pending: BTreeMap::new(),
        }
    }

    /// Whether a power cut could leave different states.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether a block is this, whatever power cut comes.
    pub fn has_durably(&self, block: usize, bytes: &[u8]) -> bool {
        let pending = self.pending.get(&block).into_iter().flatten();
        let mut all = pending.chain([&self.durable[block]]);
        all.all(|one| **one == bytes)
    }

    /// What it reads as.
    pub fn visible(&self, block: usize) -> Bytes {
        let pending = self.pending.get(&block).and_then(|all| all.last());
        pending.unwrap_or(&self.durable[block]).clone()
    }

    /// What a power cut leaves.
    pub fn cut(&self, rng: &mut fastrand::Rng) -> DiskState {
        let mut state = DiskState::new(self.durable.clone());
        for (block, candidates) in &self.pending {
            let pick = rng.usize(..=candidates.len());
            if let Some(bytes) = candidates.get(pick) {
                state.durable[*block] = bytes.clone();
            }
        }
        state
    }
}

struct Inner {
    state: DiskState,
    fails: bool,
}

/// The disk as the log uses it.
pub struct Disk(Mutex<Inner>);

impl Disk {
    pub fn new(state: DiskState) -> Disk {
        Disk(Mutex::new(Inner {
            state,
            fails: false,
        }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        let locked = self.0.lock();
        locked.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn state(&self) -> DiskState {
        self.lock().state.clone()
    }

    /// From now on what changes it fails, or not.
    pub fn set_fails(&self, fails: bool) {
        self.lock().fails = fails;
    }

    /// Somebody else writes a block, durably.
    pub fn change(&self, block: usize, bytes: Bytes) {
        let mut inner = self.lock();
        inner.state.pending.remove(&block);
        inner.state.durable[block] = bytes;
    }

    fn put(&self, block: u64, bytes: Bytes) -> io::Result<()> {
        let mut inner = self.lock();
        // Every other block of a disk that fails.
        if inner.fails && block.is_multiple_of(2) {
            return Err(io::Error::other("made to fail"));
        }
        let pending = inner.state.pending.entry(block as usize);
        pending.or_default().push(bytes);
        Ok(())
    }
}

impl Backing for Disk {
    fn read(&self, block: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.lock().state.visible(block as usize));
        Ok(())
    }

    fn write(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        self.put(block, Arc::new(bytes.to_vec()))
    }

    fn zero(&self, first: u64, count: u64) -> io::Result<()> {
        let zeroes = Arc::new(vec![0; PAGE_BYTES]);
        (first..first + count).try_for_each(|block| self.put(block, zeroes.clone()))
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.lock();
        for (block, candidates) in std::mem::take(&mut inner.state.pending) {
            let newest = candidates.last().expect("one at least");
            inner.state.durable[block] = newest.clone();
        }
        Ok(())
    }
}
