//! A backing in memory that loses what was not synced.
//!
//! Each *sector* (512 bytes, 64 for tiny blocks) of an unsynced write survives a power cut or not,
//! whatever happens to its neighbours and in whatever order the writes came. After a failed sync
//! nothing pending ever becomes durable by a later one, and part of it is already forgotten:
//! a kernel that could not write a page drops it.

use crate::mark::{CrashMark, MarkCrashState};
use forebay::{BackingCounters, BackingIdentity, BackingStore, MarkPlace, WriteRun};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a store is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// Before a read and after it.
    Read,
    /// Before a write or zeroing takes effect.
    Write,
    /// Before a sync.
    Sync,
    /// After a sync that succeeded, of the mark too.
    Synced,
    /// Before it forgets what it has of failed syncs.
    Forget,
    /// Before the mark is set, and before that is synced.
    Mark,
}

/// What is called around everything a store does.
pub type StoreHook = Arc<dyn Fn(StoreEvent) + Send + Sync>;

/// What survives of a store in a crash at one moment: each sector is durable or one of its versions.
#[derive(Clone, Debug, Default)]
pub struct StoreCrashState {
    durable: Vec<u8>,
    versions: BTreeMap<usize, Vec<Box<[u8]>>>,
    sector_bytes: usize,
    /// The mark beside.
    pub mark: MarkCrashState,
}

impl StoreCrashState {
    /// A store whose every byte is durable.
    pub fn settled(image: Vec<u8>, sector_bytes: usize) -> StoreCrashState {
        StoreCrashState {
            durable: image,
            versions: BTreeMap::new(),
            sector_bytes,
            mark: MarkCrashState::default(),
        }
    }

    /// What survives in any case.
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// A random image into `image`.
    pub fn sample(&self, rng: &mut fastrand::Rng, image: &mut Vec<u8>) {
        image.clear();
        image.extend_from_slice(&self.durable);
        // Three kinds of power cut: nothing, everything, anything survives.
        let kind = rng.u8(..3);
        for (&sector, versions) in &self.versions {
            let choice = match kind {
                0 => 0,
                1 => versions.len(),
                _ => rng.usize(..=versions.len()),
            };
            if choice > 0 {
                let start = sector * self.sector_bytes;
                let bytes = &versions[choice - 1];
                image[start..start + bytes.len()].copy_from_slice(bytes);
            }
        }
    }
}

struct State {
    /// What reads see.
    current: Vec<u8>,
    crash: StoreCrashState,
    /// Versions that no later sync makes durable.
    failed: BTreeMap<usize, Vec<Box<[u8]>>>,
    writes_to_fail: u32,
    syncs_to_fail: u32,
    counters: BackingCounters,
    rng: fastrand::Rng,
}

/// See the [module](self).
pub struct CrashStore {
    name: PathBuf,
    sector_bytes: usize,
    state: Mutex<State>,
    hook: Mutex<Option<StoreHook>>,
    pub mark: CrashMark,
}

impl CrashStore {
    /// A store that holds `image`, all durable. `name` is what it calls itself, `seed` decides
    /// what a failed sync forgets.
    pub fn new(name: &str, image: Vec<u8>, sector_bytes: usize, seed: u64) -> CrashStore {
        CrashStore {
            name: PathBuf::from(name),
            sector_bytes,
            state: Mutex::new(State {
                current: image.clone(),
                crash: StoreCrashState::settled(image, sector_bytes),
                failed: BTreeMap::new(),
                writes_to_fail: 0,
                syncs_to_fail: 0,
                counters: BackingCounters::default(),
                rng: fastrand::Rng::with_seed(seed),
            }),
            hook: Mutex::new(None),
            mark: CrashMark::default(),
        }
    }

    /// The same with a mark, which is durable; empty for none.
    pub fn marked(self, mark: Vec<u8>) -> CrashStore {
        CrashStore {
            mark: CrashMark::settled(mark),
            ..self
        }
    }

    /// What a crash now could leave.
    pub fn crash_state(&self) -> StoreCrashState {
        let state = self.lock();
        let mut crash = state.crash.clone();
        crash.mark = self.mark.crash_state();
        for (sector, versions) in &state.failed {
            let all = crash.versions.entry(*sector).or_default();
            all.extend(versions.iter().cloned());
        }
        crash
    }

    /// What reads see of these bytes, if a crash would leave just that.
    pub fn settled_bytes(&self, bytes: Range<usize>) -> Option<Vec<u8>> {
        let state = self.lock();
        let sectors = bytes.start / self.sector_bytes..bytes.end.div_ceil(self.sector_bytes);
        let is_open = |versions: &BTreeMap<usize, _>| {
            let mut open = versions.range(sectors.clone());
            open.next().is_some()
        };
        let is_settled = !is_open(&state.crash.versions) && !is_open(&state.failed);
        is_settled.then(|| state.current[bytes].to_vec())
    }

    /// Makes the next writes and the next syncs fail, so many of each.
    pub fn fail_next(&self, writes: u32, syncs: u32) {
        let mut state = self.lock();
        state.writes_to_fail = writes;
        state.syncs_to_fail = syncs;
    }

    /// Sets what is called around everything the store does.
    pub fn set_hook(&self, hook: Option<StoreHook>) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    pub fn call_hook(&self, event: StoreEvent) {
        let hook = self
            .hook
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(hook) = hook {
            hook(event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.call_hook(StoreEvent::Write);
        let mut state = self.lock();
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(state.current.len());
        let end = start.saturating_add(bytes.len()).min(state.current.len());
        let fails = state.writes_to_fail > 0;
        state.writes_to_fail = state.writes_to_fail.saturating_sub(1);
        state.counters.writes += 1;
        // A write that fails has done half of its work, in whole sectors.
        let half = (start + (end - start) / 2) / self.sector_bytes * self.sector_bytes;
        let end = if fails { half.max(start) } else { end };
        state.current[start..end].copy_from_slice(&bytes[..end - start]);
        for sector in start / self.sector_bytes..end.div_ceil(self.sector_bytes) {
            let from = sector * self.sector_bytes;
            let to = (from + self.sector_bytes).min(state.current.len());
            let version = Box::from(&state.current[from..to]);
            state
                .crash
                .versions
                .entry(sector)
                .or_default()
                .push(version);
        }
        if fails {
            Err(io::Error::other("injected write failure"))
        } else {
            Ok(())
        }
    }
}

impl State {
    fn succeed_sync(&mut self, sector_bytes: usize) {
        for (sector, versions) in std::mem::take(&mut self.crash.versions) {
            let start = sector * sector_bytes;
            let end = (start + sector_bytes).min(self.current.len());
            let newest = versions.last().expect("a written sector has a version");
            self.crash.durable[start..end].copy_from_slice(newest);
            self.failed.remove(&sector);
        }
    }

    fn fail_sync(&mut self, sector_bytes: usize) {
        for (sector, versions) in std::mem::take(&mut self.crash.versions) {
            if self.rng.bool() {
                let start = sector * sector_bytes;
                let end = (start + sector_bytes).min(self.current.len());
                self.current[start..end].copy_from_slice(&self.crash.durable[start..end]);
            }
            self.failed.entry(sector).or_default().extend(versions);
        }
    }
}

impl State {
    /// What a failed sync left in memory alone goes; the medium has any version of it.
    fn forget_failed(&mut self, sector_bytes: usize) {
        for (sector, versions) in std::mem::take(&mut self.failed) {
            if self.crash.versions.contains_key(&sector) {
                // Written since, and not synced: that stays in memory.
                self.failed.insert(sector, versions);
                continue;
            }
            let start = sector * sector_bytes;
            let end = (start + sector_bytes).min(self.current.len());
            if let Some(version) = versions.get(self.rng.usize(..=versions.len())) {
                self.crash.durable[start..end].copy_from_slice(version);
            }
            self.current[start..end].copy_from_slice(&self.crash.durable[start..end]);
        }
    }
}

impl BackingStore for CrashStore {
    fn size_bytes(&self) -> u64 {
        self.lock().current.len() as u64
    }

    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            path: self.name.clone(),
            inode: 0,
            size_bytes: self.size_bytes(),
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call_hook(StoreEvent::Read);
        {
            let mut state = self.lock();
            state.counters.reads += 1;
            out.fill(0);
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            if let Some(rest) = state.current.get(start..) {
                let len = rest.len().min(out.len());
                out[..len].copy_from_slice(&rest[..len]);
            }
        }
        // What was read may be old by the time an actor looks at it.
        self.call_hook(StoreEvent::Read);
        Ok(())
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        runs.iter()
            .map(|run| self.write(run.offset, run.bytes))
            .collect()
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        let len = len.min(self.lock().current.len());
        self.write(offset, &vec![0; len])
    }

    fn sync(&self) -> io::Result<()> {
        self.call_hook(StoreEvent::Sync);
        {
            let mut state = self.lock();
            state.counters.syncs += 1;
            if state.syncs_to_fail > 0 {
                state.syncs_to_fail -= 1;
                state.fail_sync(self.sector_bytes);
                return Err(io::Error::other("injected sync failure"));
            }
            state.succeed_sync(self.sector_bytes);
        }
        self.call_hook(StoreEvent::Synced);
        Ok(())
    }

    fn forget_cached(&self) -> Vec<Range<u64>> {
        self.call_hook(StoreEvent::Forget);
        self.lock().forget_failed(self.sector_bytes);
        self.call_hook(StoreEvent::Read);
        Vec::new()
    }

    fn counters(&self) -> BackingCounters {
        self.lock().counters
    }

    fn transport(&self) -> String {
        String::from("memory, forgets what was not synced")
    }

    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn store() -> CrashStore {
        CrashStore::new("test", vec![0; 4], 2, 1)
    }

    fn write(store: &CrashStore, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let results = store.write_runs(&[WriteRun { offset, bytes }]);
        results.into_iter().collect()
    }

    fn outcomes(store: &CrashStore) -> BTreeSet<Vec<u8>> {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut image = Vec::new();
        let state = store.crash_state();
        let outcomes = (0..300).map(|_| {
            state.sample(&mut rng, &mut image);
            image.clone()
        });
        outcomes.collect()
    }

    fn all(images: &[[u8; 4]]) -> BTreeSet<Vec<u8>> {
        images.iter().map(|image| image.to_vec()).collect()
    }

    #[test]
    fn unsynced_sectors_survive_each_for_itself_and_in_any_order() {
        let store = store();
        write(&store, 0, &[1; 4]).unwrap();
        write(&store, 0, &[2; 2]).unwrap();
        let expected = [
            [0; 4],
            [1, 1, 0, 0],
            [2, 2, 0, 0],
            [0, 0, 1, 1],
            [1; 4],
            [2, 2, 1, 1],
        ];
        assert_eq!(outcomes(&store), all(&expected));
        store.sync().unwrap();
        assert_eq!(outcomes(&store), all(&[[2, 2, 1, 1]]));
    }

    #[test]
    fn a_failed_sync_is_never_made_good_by_a_later_one() {
        let store = store();
        write(&store, 0, &[1; 4]).unwrap();
        store.fail_next(0, 1);
        assert!(store.sync().is_err());
        store.sync().unwrap();
        assert_eq!(outcomes(&store).len(), 4);
        write(&store, 0, &[3; 4]).unwrap();
        store.sync().unwrap();
        assert_eq!(outcomes(&store), all(&[[3; 4]]));
    }

    #[test]
    fn what_a_failed_sync_left_in_memory_is_forgotten_for_what_the_medium_has() {
        for seed in 0..20 {
            let store = CrashStore::new("test", vec![0; 4], 2, seed);
            write(&store, 0, &[1; 4]).unwrap();
            store.fail_next(0, 1);
            assert!(store.sync().is_err());
            store.sync().unwrap();
            assert!(store.forget_cached().is_empty());
            let mut out = vec![9; 4];
            store.read_at(0, &mut out).unwrap();
            assert_eq!(outcomes(&store), BTreeSet::from([out]));
        }
    }

    #[test]
    fn a_failed_write_does_half_of_its_work() {
        let store = store();
        store.fail_next(1, 0);
        assert!(write(&store, 0, &[1; 4]).is_err());
        let mut out = [9; 6];
        store.read_at(0, &mut out).unwrap();
        assert_eq!(out, [1, 1, 0, 0, 0, 0]);
    }
}
