//! The file beside the pool: large, mostly empty, and forgetful.

use crate::store::StoreEvent;
use forebay::{BackingCounters, BackingIdentity, BackingStore, WriteRun};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What survives for itself.
const SECTOR_BYTES: usize = 512;
type Sector = [u8; SECTOR_BYTES];

/// Sectors that are not zero.
pub type Sectors = BTreeMap<u64, Arc<Sector>>;

/// Puts a sector where only those that are not zero are.
fn put(sectors: &mut Sectors, number: u64, sector: &Arc<Sector>) {
    match **sector == [0; SECTOR_BYTES] {
        true => drop(sectors.remove(&number)),
        false => drop(sectors.insert(number, Arc::clone(sector))),
    }
}

/// What a crash could leave.
#[derive(Clone, Debug, Default)]
pub struct SideState {
    /// What readers see.
    newest: Sectors,
    durable: Sectors,
    pending: BTreeMap<u64, Vec<Arc<Sector>>>,
}

impl SideState {
    /// What was written, whether it is durable or not.
    pub fn newest(&self) -> Sectors {
        self.newest.clone()
    }

    /// A random image.
    pub fn sample(&self, rng: &mut fastrand::Rng) -> Sectors {
        let mut image = self.durable.clone();
        let mood = rng.u8(..3);
        for (sector, versions) in &self.pending {
            let choice = match mood {
                0 => 0,
                1 => versions.len(),
                _ => rng.usize(..=versions.len()),
            };
            if choice > 0 {
                put(&mut image, *sector, &versions[choice - 1]);
            }
        }
        image
    }
}

/// What is called around everything a store does.
type Hook = Arc<dyn Fn(StoreEvent) + Send + Sync>;

impl SideState {
    fn put(&mut self, number: u64, sector: Arc<Sector>) {
        put(&mut self.newest, number, &sector);
        self.pending.entry(number).or_default().push(sector);
    }
}

/// See the [module](self).
pub struct Side {
    len: u64,
    state: Mutex<SideState>,
    fails_next_sync: AtomicBool,
    hook: Mutex<Option<Hook>>,
}

impl Side {
    /// A file of `len` bytes that holds `image`, all durable.
    pub fn new(len: u64, image: Sectors) -> Side {
        let state = SideState {
            newest: image.clone(),
            durable: image,
            pending: BTreeMap::new(),
        };
        Side {
            len,
            state: Mutex::new(state),
            fails_next_sync: AtomicBool::new(false),
            hook: Mutex::new(None),
        }
    }

    /// What a crash now could leave.
    pub fn crash_state(&self) -> SideState {
        self.lock().clone()
    }

    /// Whether the next sync fails.
    pub fn fail_next_sync(&self, fails: bool) {
        self.fails_next_sync.store(fails, Ordering::Relaxed);
    }

    /// Sets what is called before each write and sync.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    fn call_hook(&self, event: StoreEvent) {
        let hook = {
            let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
            hook.clone()
        };
        if let Some(hook) = hook {
            hook(event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SideState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.call_hook(StoreEvent::Write);
        let mut state = self.lock();
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (sector, within) = (at / SECTOR_BYTES as u64, at as usize % SECTOR_BYTES);
            let len = (SECTOR_BYTES - within).min(bytes.len() - done);
            let mut new = state
                .newest
                .get(&sector)
                .map_or([0; SECTOR_BYTES], |old| **old);
            new[within..within + len].copy_from_slice(&bytes[done..done + len]);
            state.put(sector, Arc::new(new));
            done += len;
        }
    }
}

impl BackingStore for Side {
    fn size_bytes(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            path: PathBuf::from("side"),
            inode: 0,
            size_bytes: self.len,
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        let state = self.lock();
        let end = offset + out.len() as u64;
        let first = offset / SECTOR_BYTES as u64;
        for (sector, bytes) in state.newest.range(first..end.div_ceil(SECTOR_BYTES as u64)) {
            let start = sector * SECTOR_BYTES as u64;
            let from = start.max(offset);
            let to = (start + SECTOR_BYTES as u64).min(end);
            let source = &bytes[(from - start) as usize..(to - start) as usize];
            out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
        }
        Ok(())
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        runs.iter()
            .map(|run| {
                self.write(run.offset, run.bytes);
                Ok(())
            })
            .collect()
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let sector_bytes = SECTOR_BYTES as u64;
        assert!(
            offset.is_multiple_of(sector_bytes) && len_bytes.is_multiple_of(sector_bytes),
            "whole sectors are zeroed"
        );
        self.call_hook(StoreEvent::Write);
        let mut state = self.lock();
        let range = offset / sector_bytes..(offset + len_bytes) / sector_bytes;
        // What is zero already does not change.
        let numbers: Vec<u64> = state.newest.range(range).map(|(at, _)| *at).collect();
        let zeroes = Arc::new([0; SECTOR_BYTES]);
        for number in numbers {
            state.put(number, Arc::clone(&zeroes));
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.call_hook(StoreEvent::Sync);
        let pending = std::mem::take(&mut self.lock().pending);
        if self.fails_next_sync.swap(false, Ordering::Relaxed) {
            // Pages that could not be written are clean from now on, and one caller is told.
            return Err(rustix::io::Errno::IO.into());
        }
        for (number, versions) in pending {
            let newest = versions.last().expect("it was written");
            put(&mut self.lock().durable, number, newest);
        }
        self.call_hook(StoreEvent::Synced);
        Ok(())
    }

    fn counters(&self) -> BackingCounters {
        BackingCounters::default()
    }

    fn transport(&self) -> String {
        String::from("memory, forgets what was not synced")
    }
}
