//! The disk behind both pools: what is written to it is there, its marks as well.

use forebay::{BackingCounters, BackingIdentity, BackingStore, MarkPlace, WriteRun};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the disk holds.
#[derive(Clone)]
pub struct DiskState {
    pub bytes: Vec<u8>,
    marks: [Option<Vec<u8>>; 2],
}

impl DiskState {
    pub fn new(bytes: Vec<u8>) -> DiskState {
        DiskState {
            bytes,
            marks: [None, None],
        }
    }
}

type Shared = Arc<Mutex<DiskState>>;

fn lock(state: &Shared) -> MutexGuard<'_, DiskState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Mark {
    state: Shared,
    which: usize,
}

impl MarkPlace for Mark {
    fn read(&self) -> io::Result<Vec<Vec<u8>>> {
        let state = lock(&self.state);
        Ok(state.marks[self.which].iter().cloned().collect())
    }

    fn write(&self, mark: &[u8]) -> io::Result<()> {
        lock(&self.state).marks[self.which] = Some(mark.to_vec());
        Ok(())
    }
}

/// The disk in use.
pub struct Disk {
    state: Shared,
    mark: Mark,
    front_mark: Mark,
}

impl Disk {
    pub fn new(state: DiskState) -> Disk {
        let state = Arc::new(Mutex::new(state));
        let mark = |which| Mark {
            state: state.clone(),
            which,
        };
        Disk {
            mark: mark(0),
            front_mark: mark(1),
            state: state.clone(),
        }
    }

    pub fn state(&self) -> DiskState {
        lock(&self.state).clone()
    }
}

impl BackingStore for Disk {
    fn size_bytes(&self) -> u64 {
        lock(&self.state).bytes.len() as u64
    }

    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            path: PathBuf::from("disk"),
            inode: 1,
            size_bytes: self.size_bytes(),
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = lock(&self.state);
        let rest = state.bytes.get(offset as usize..).unwrap_or_default();
        let inside = rest.len().min(out.len());
        out[..inside].copy_from_slice(&rest[..inside]);
        out[inside..].fill(0);
        Ok(())
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        let mut state = lock(&self.state);
        let write = |run: &WriteRun<'_>| {
            let place = state.bytes.get_mut(run.offset as usize..);
            let place = place.unwrap_or_default();
            let inside = place.len().min(run.bytes.len());
            place[..inside].copy_from_slice(&run.bytes[..inside]);
            Ok(())
        };
        runs.iter().map(write).collect()
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let mut state = lock(&self.state);
        let size = state.bytes.len() as u64;
        let end = offset.saturating_add(len_bytes).min(size);
        if offset < end {
            state.bytes[offset as usize..end as usize].fill(0);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn counters(&self) -> BackingCounters {
        BackingCounters::default()
    }

    fn transport(&self) -> String {
        String::from("memory")
    }

    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        Some(&self.mark)
    }

    fn front_mark_place(&self) -> Option<&dyn MarkPlace> {
        Some(&self.front_mark)
    }
}
