//! A disk in memory with a volatile cache: what was not synced may be lost by a power cut.
//!
//! Each *sector* of an unsynced write survives a power cut or not, whatever becomes of its neighbours and
//! in whatever order the writes came: it holds what was last synced or any version written since. Writes
//! and syncs can be made to fail; what a failed sync leaves is said by [`FailedSync`]. What a cut may leave
//! is taken aside by [`VolatileDisk::crash_state`] and drawn from a seed by [`DiskState::sample`].

mod content;
mod mark;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::{BackingCounters, BackingIdentity, BackingRun, BackingStore, MarkPlace, WriteRun};

pub use content::Content;
pub use mark::MarkState;
use mark::VolatileMark;

/// What survives for itself, as on most disks.
const SECTOR_BYTES: usize = 512;

/// What a disk is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskEvent {
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

/// What is called around everything that a disk does.
pub type DiskHook = Arc<dyn Fn(DiskEvent) + Send + Sync>;

/// What a failed sync leaves of the sectors that it was to make durable. A later sync never makes up for
/// it: a kernel that could not write a page drops it, or takes it for clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedSync {
    /// Half of them read as they last were on the medium, at once; any version may be on the medium.
    Forgets,
    /// All of them read as written until the power fails, and none is on the medium.
    Pretends,
}

/// Versions of sectors, oldest first.
type Versions = BTreeMap<u64, Vec<Arc<[u8]>>>;

/// What a power cut at one moment could leave of a disk: each sector is durable or one of its versions.
#[derive(Clone, Debug)]
pub struct DiskState {
    size_bytes: u64,
    sector_bytes: usize,
    current: Content,
    durable: Content,
    versions: Versions,
    /// The mark beside it.
    pub mark: MarkState,
}

impl DiskState {
    /// What survives in any case.
    #[must_use]
    pub fn durable(&self) -> Vec<u8> {
        self.durable.to_vec(self.size_bytes as usize)
    }

    /// Size of the disk.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What reads saw at that moment.
    #[must_use]
    pub fn current(&self) -> &Content {
        &self.current
    }

    /// How many sectors had been written and not synced.
    #[must_use]
    pub fn unsynced_sectors(&self) -> usize {
        self.versions.len()
    }

    /// One of the contents that the cut could leave: of three kinds of power cut nothing, everything, or
    /// anything survives.
    pub fn sample(&self, rng: &mut fastrand::Rng) -> Content {
        match rng.u8(..3) {
            0 => self.durable.clone(),
            1 => self.choose(|versions| versions),
            _ => self.sample_apart(rng),
        }
    }

    /// As [`DiskState::sample`], where each sector survives or does not by itself.
    pub fn sample_apart(&self, rng: &mut fastrand::Rng) -> Content {
        self.choose(|versions| rng.usize(..=versions))
    }

    /// As [`DiskState::sample`], as plain bytes.
    pub fn sample_bytes(&self, rng: &mut fastrand::Rng) -> Vec<u8> {
        self.sample(rng).to_vec(self.size_bytes as usize)
    }

    /// Of so many versions of each sector the one with the chosen number, from 1 on; 0 is the durable one.
    fn choose(&self, mut choice: impl FnMut(usize) -> usize) -> Content {
        let mut content = self.durable.clone();
        for (sector, versions) in &self.versions {
            if let Some(chosen) = choice(versions.len()).checked_sub(1) {
                content.write(sector * self.sector_bytes as u64, &versions[chosen]);
            }
        }
        content
    }
}

struct State {
    /// What reads see.
    current: Content,
    durable: Content,
    /// Versions that the next sync makes durable.
    pending: Versions,
    /// Versions that no later sync makes durable.
    failed: Versions,
    writes_to_fail: u32,
    syncs_to_fail: u32,
    counters: BackingCounters,
    rng: fastrand::Rng,
}

/// See the [crate](self).
pub struct VolatileDisk {
    name: PathBuf,
    size_bytes: u64,
    sector_bytes: usize,
    /// Most of it was never written: zeroing passes that over.
    is_sparse: bool,
    tells_holes: bool,
    prefers_long_rounds: bool,
    failed_sync: FailedSync,
    sync_time: Duration,
    state: Mutex<State>,
    hook: Mutex<Option<DiskHook>>,
    mark: Option<VolatileMark>,
}

impl VolatileDisk {
    /// A disk of `size_bytes` bytes that holds `content`, all durable, in sectors of 512 bytes, most of it never
    /// written.
    #[must_use]
    pub fn sparse(name: &str, size_bytes: u64, content: Content) -> VolatileDisk {
        VolatileDisk {
            name: PathBuf::from(name),
            size_bytes,
            sector_bytes: SECTOR_BYTES,
            is_sparse: true,
            tells_holes: false,
            prefers_long_rounds: false,
            failed_sync: FailedSync::Forgets,
            sync_time: Duration::ZERO,
            state: Mutex::new(State {
                current: content.clone(),
                durable: content,
                pending: Versions::new(),
                failed: Versions::new(),
                writes_to_fail: 0,
                syncs_to_fail: 0,
                counters: BackingCounters::default(),
                rng: fastrand::Rng::with_seed(0),
            }),
            hook: Mutex::new(None),
            mark: None,
        }
    }

    /// A disk that holds `bytes`, all durable, in sectors of `sector_bytes`, a divisor of 4096.
    #[must_use]
    pub fn new(name: &str, bytes: &[u8], sector_bytes: usize) -> VolatileDisk {
        VolatileDisk {
            sector_bytes,
            is_sparse: false,
            ..VolatileDisk::sparse(name, bytes.len() as u64, Content::of(bytes))
        }
    }

    /// The same with a place for a mark, which has this one, durable; empty for none.
    #[must_use]
    pub fn with_mark(self, mark: Vec<u8>) -> VolatileDisk {
        VolatileDisk {
            mark: Some(VolatileMark::new(mark)),
            ..self
        }
    }

    /// The same with a seed that decides what a failed sync forgets.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> VolatileDisk {
        self.lock().rng = fastrand::Rng::with_seed(seed);
        self
    }

    /// The same, which says where it was never written.
    #[must_use]
    pub fn telling_holes(self) -> VolatileDisk {
        VolatileDisk {
            tells_holes: true,
            ..self
        }
    }

    /// The same, before which write-back goes in long rounds.
    #[must_use]
    pub fn preferring_long_rounds(self) -> VolatileDisk {
        VolatileDisk {
            prefers_long_rounds: true,
            ..self
        }
    }

    /// The same with syncs that leave this where they fail.
    #[must_use]
    pub fn with_failed_sync(self, failed_sync: FailedSync) -> VolatileDisk {
        VolatileDisk {
            failed_sync,
            ..self
        }
    }

    /// The same with syncs that take so long, in which the power may fail.
    #[must_use]
    pub fn with_sync_time(self, sync_time: Duration) -> VolatileDisk {
        VolatileDisk { sync_time, ..self }
    }

    /// What a power cut now could leave.
    #[must_use]
    pub fn crash_state(&self) -> DiskState {
        let state = self.lock();
        let mut versions = state.pending.clone();
        for (sector, failed) in &state.failed {
            let all = versions.entry(*sector).or_default();
            all.extend(failed.iter().cloned());
        }
        let mark = self.mark.as_ref().map(|mark| mark.lock().clone());
        DiskState {
            size_bytes: self.size_bytes,
            sector_bytes: self.sector_bytes,
            current: state.current.clone(),
            durable: state.durable.clone(),
            versions,
            mark: mark.unwrap_or_default(),
        }
    }

    /// What a read of the whole disk finds.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.lock().current.to_vec(self.size_bytes as usize)
    }

    /// What reads see of these bytes, if a crash would leave just that.
    #[must_use]
    pub fn settled_bytes(&self, bytes: Range<usize>) -> Option<Vec<u8>> {
        let state = self.lock();
        let sectors = self.sectors(bytes.start as u64..bytes.end as u64);
        let mut all = [&state.pending, &state.failed].into_iter();
        let is_settled = all.all(|versions| versions.range(sectors.clone()).next().is_none());
        is_settled.then(|| {
            let mut out = vec![0; bytes.len()];
            state.current.read(bytes.start as u64, &mut out);
            out
        })
    }

    /// Makes the next writes and the next syncs fail: `writes` and `syncs` of them.
    pub fn fail_next(&self, writes: u32, syncs: u32) {
        let mut state = self.lock();
        (state.writes_to_fail, state.syncs_to_fail) = (writes, syncs);
    }

    /// Sets what is called around everything that the disk does.
    pub fn set_hook(&self, hook: Option<DiskHook>) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    fn call_hook(&self, event: DiskEvent) {
        // Not while the lock is held: a hook may stop this thread and let another one come here.
        let hook = {
            let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
            hook.clone()
        };
        if let Some(hook) = hook {
            hook(event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sectors(&self, bytes: Range<u64>) -> Range<u64> {
        let sector_bytes = self.sector_bytes as u64;
        bytes.start / sector_bytes..bytes.end.div_ceil(sector_bytes)
    }

    /// The bytes of a sector that lie within the disk.
    fn bytes_of(&self, sector: u64) -> Range<u64> {
        let start = sector * self.sector_bytes as u64;
        start..(start + self.sector_bytes as u64).min(self.size_bytes)
    }

    fn clip(&self, offset: u64, len_bytes: u64) -> Range<u64> {
        let start = offset.min(self.size_bytes);
        start..start.saturating_add(len_bytes).min(self.size_bytes)
    }

    /// What `current` has of a sector is another version of it.
    fn note_version(&self, state: &mut State, sector: u64) {
        let Range { start, end } = self.bytes_of(sector);
        let mut version = vec![0; (end - start) as usize];
        state.current.read(start, &mut version);
        let versions = state.pending.entry(sector).or_default();
        versions.push(Arc::from(version));
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.call_hook(DiskEvent::Write);
        let mut state = self.lock();
        let Range { start, mut end } = self.clip(offset, bytes.len() as u64);
        let fails = state.writes_to_fail > 0;
        state.writes_to_fail = state.writes_to_fail.saturating_sub(1);
        if fails {
            // A write that fails has done half of its work, in whole sectors.
            let half = start + (end - start) / 2;
            end = (half - half % self.sector_bytes as u64).max(start);
        }
        state.counters.writes += 1;
        state.counters.bytes_written += end - start;
        state.current.write(start, &bytes[..(end - start) as usize]);
        for sector in self.sectors(start..end) {
            self.note_version(&mut state, sector);
        }
        match fails {
            true => Err(io::Error::other("injected write failure")),
            false => Ok(()),
        }
    }

    /// The sector reads as it is on the medium.
    fn revert(&self, state: &mut State, sector: u64) {
        let Range { start, end } = self.bytes_of(sector);
        let mut bytes = vec![0; (end - start) as usize];
        state.durable.read(start, &mut bytes);
        state.current.write(start, &bytes);
    }

    fn succeed_sync(&self, state: &mut State) {
        for (sector, versions) in std::mem::take(&mut state.pending) {
            let newest = versions.last().expect("a written sector has a version");
            state.durable.write(self.bytes_of(sector).start, newest);
            state.failed.remove(&sector);
        }
    }

    fn fail_sync(&self, state: &mut State) {
        let pending = std::mem::take(&mut state.pending);
        if self.failed_sync == FailedSync::Pretends {
            return;
        }
        for (sector, versions) in pending {
            if state.rng.bool() {
                self.revert(state, sector);
            }
            state.failed.entry(sector).or_default().extend(versions);
        }
    }

    /// What a failed sync left in memory alone goes; the medium has any version of it.
    fn forget_failed(&self, state: &mut State) {
        for (sector, versions) in std::mem::take(&mut state.failed) {
            if state.pending.contains_key(&sector) {
                // Written since, and not synced: that stays in memory.
                state.failed.insert(sector, versions);
                continue;
            }
            if let Some(version) = versions.get(state.rng.usize(..=versions.len())) {
                state.durable.write(self.bytes_of(sector).start, version);
            }
            self.revert(state, sector);
        }
    }
}

impl BackingStore for VolatileDisk {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            path: self.name.clone(),
            inode: 0,
            size_bytes: self.size_bytes,
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call_hook(DiskEvent::Read);
        {
            let mut state = self.lock();
            state.counters.reads += 1;
            state.counters.bytes_read += out.len() as u64;
            let Range { start, end } = self.clip(offset, out.len() as u64);
            let (inside, beyond) = out.split_at_mut((end - start) as usize);
            state.current.read(start, inside);
            beyond.fill(0);
        }
        // What was read may be old by the time the caller looks at it.
        self.call_hook(DiskEvent::Read);
        Ok(())
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        runs.iter()
            .map(|run| self.write(run.offset, run.bytes))
            .collect()
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let range = self.clip(offset, len_bytes);
        if !self.is_sparse {
            return self.write(range.start, &vec![0; (range.end - range.start) as usize]);
        }
        self.call_hook(DiskEvent::Write);
        let mut state = self.lock();
        // What is zero already does not change.
        let sectors = self.sectors(range.clone());
        for sector in state.current.written_sectors(sectors, self.sector_bytes) {
            let bytes = self.bytes_of(sector);
            let (from, to) = (bytes.start.max(range.start), bytes.end.min(range.end));
            state.current.write(from, &vec![0; (to - from) as usize]);
            self.note_version(&mut state, sector);
        }
        Ok(())
    }

    fn prefers_long_rounds(&self) -> bool {
        self.prefers_long_rounds
    }

    fn sync(&self) -> io::Result<()> {
        self.call_hook(DiskEvent::Sync);
        std::thread::sleep(self.sync_time);
        {
            let mut state = self.lock();
            state.counters.syncs += 1;
            if state.syncs_to_fail > 0 {
                state.syncs_to_fail -= 1;
                self.fail_sync(&mut state);
                return Err(io::Error::other("injected sync failure"));
            }
            self.succeed_sync(&mut state);
        }
        self.call_hook(DiskEvent::Synced);
        Ok(())
    }

    fn forget_cached(&self) -> Vec<Range<u64>> {
        self.call_hook(DiskEvent::Forget);
        self.forget_failed(&mut self.lock());
        self.call_hook(DiskEvent::Read);
        Vec::new()
    }

    fn run_at(&self, offset: u64, len_bytes: u64) -> BackingRun {
        if !self.tells_holes {
            return BackingRun::unknown(len_bytes);
        }
        let (is_hole, rest_bytes) = self.lock().current.hole_at(offset);
        BackingRun {
            len_bytes: len_bytes.min(rest_bytes),
            is_hole,
        }
    }

    fn counters(&self) -> BackingCounters {
        self.lock().counters
    }

    fn transport(&self) -> String {
        String::from("memory, forgets what was not synced")
    }

    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        self.mark.as_ref().map(|_| self as &dyn MarkPlace)
    }
}

impl VolatileDisk {
    fn marked(&self) -> io::Result<&VolatileMark> {
        let mark = self.mark.as_ref();
        mark.ok_or_else(|| io::Error::other("this disk has no place for a mark"))
    }
}

impl MarkPlace for VolatileDisk {
    fn read(&self) -> io::Result<Vec<Vec<u8>>> {
        let MarkState { durable, pending } = self.marked()?.lock().clone();
        let visible = Some(pending.unwrap_or(durable));
        Ok(visible
            .into_iter()
            .filter(|mark| !mark.is_empty())
            .collect())
    }

    fn write(&self, mark: &[u8]) -> io::Result<()> {
        let place = self.marked()?;
        self.call_hook(DiskEvent::Mark);
        place.lock().pending = Some(mark.to_vec());
        self.call_hook(DiskEvent::Mark);
        {
            let mut state = place.lock();
            if let Some(pending) = state.pending.take() {
                state.durable = pending;
            }
        }
        self.call_hook(DiskEvent::Synced);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
