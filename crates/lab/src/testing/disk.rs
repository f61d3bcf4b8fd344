//! A disk in memory that forgets what was not synced.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay::{BackingCounters, BackingIdentity, BackingStore, WriteRun};

/// A disk with a volatile cache: what no later sync covered may be lost, write by write.
#[derive(Default)]
pub(crate) struct VolatileDisk(Mutex<DiskState>);

#[derive(Clone, Default)]
struct DiskState {
    durable: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
    counters: BackingCounters,
    /// Writes and syncs fail while set.
    is_broken: bool,
}

impl VolatileDisk {
    /// A disk that holds `durable`.
    pub(crate) fn new(durable: Vec<u8>) -> Arc<VolatileDisk> {
        Arc::new(VolatileDisk(Mutex::new(DiskState {
            durable,
            ..DiskState::default()
        })))
    }

    /// What a power cut now may leave.
    pub(crate) fn sample(&self, rng: &mut fastrand::Rng) -> Vec<u8> {
        let mut state = self.lock().clone();
        let share = [0, 4, 8][rng.usize(..3)];
        for (start, bytes) in state.pending.drain(..) {
            if rng.u8(..8) < share {
                state.durable[start..start + bytes.len()].copy_from_slice(&bytes);
            }
        }
        state.durable
    }

    /// What a read of the whole disk finds.
    pub(crate) fn content(&self) -> Vec<u8> {
        let mut out = vec![0; self.size_bytes() as usize];
        self.read_at(0, &mut out).expect("reads do not fail");
        out
    }

    /// Makes writes and syncs fail, or work again.
    pub(crate) fn set_broken(&self, is_broken: bool) {
        self.lock().is_broken = is_broken;
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BackingStore for VolatileDisk {
    fn size_bytes(&self) -> u64 {
        self.lock().durable.len() as u64
    }

    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            path: "volatile-disk".into(),
            inode: 1,
            size_bytes: self.size_bytes(),
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let mut state = self.lock();
        state.counters.reads += 1;
        state.counters.bytes_read += out.len() as u64;
        let mut now = state.durable.clone();
        for (start, bytes) in &state.pending {
            now[*start..*start + bytes.len()].copy_from_slice(bytes);
        }
        let from = (offset as usize).min(now.len());
        let inside = out.len().min(now.len() - from);
        let (head, tail) = out.split_at_mut(inside);
        head.copy_from_slice(&now[from..from + inside]);
        tail.fill(0);
        Ok(())
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<std::io::Result<()>> {
        let mut state = self.lock();
        let size = state.durable.len();
        let mut write = |run: &WriteRun<'_>| {
            state.counters.writes += 1;
            if state.is_broken {
                return Err(std::io::Error::other("broken for a test"));
            }
            let start = (run.offset as usize).min(size);
            let bytes = &run.bytes[..run.bytes.len().min(size - start)];
            state.counters.bytes_written += bytes.len() as u64;
            state.pending.push((start, bytes.to_vec()));
            Ok(())
        };
        runs.iter().map(&mut write).collect()
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> std::io::Result<()> {
        let zeroes = vec![0; len_bytes as usize];
        let run = WriteRun {
            offset,
            bytes: &zeroes,
        };
        self.write_runs(&[run]).remove(0)
    }

    fn sync(&self) -> std::io::Result<()> {
        let mut state = self.lock();
        state.counters.syncs += 1;
        if state.is_broken {
            return Err(std::io::Error::other("broken for a test"));
        }
        for (start, bytes) in std::mem::take(&mut state.pending) {
            state.durable[start..start + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn counters(&self) -> BackingCounters {
        self.lock().counters
    }

    fn transport(&self) -> String {
        "a volatile disk".to_owned()
    }
}
