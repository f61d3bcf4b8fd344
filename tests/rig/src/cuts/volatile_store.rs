//! A backing with a volatile cache of its own: what was not synced may be lost by a power cut.
//!
//! Each sector of 512 bytes stands for itself: after a cut it holds what was last synced or any one of
//! the versions written since, whatever became of its neighbours and in whatever order they came. The
//! store takes memory for what was written only, and a moment of it costs no copy of the whole.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use forebay::{BackingCounters, BackingIdentity, BackingRun, BackingStore, WriteRun};

const SECTOR_BYTES: usize = 512;
const CHUNK_BYTES: usize = 64 << 10;
const CHUNK_SECTORS: u64 = (CHUNK_BYTES / SECTOR_BYTES) as u64;

/// A disk's sync takes its time, in which the power may fail.
const SYNC_TIME: Duration = Duration::from_millis(2);

type Sector = [u8; SECTOR_BYTES];

/// The bytes of a disk; those of chunks that are not there are zero. Clones share chunks until
/// one of them changes.
#[derive(Clone, Default)]
struct Content(HashMap<u64, Arc<[u8; CHUNK_BYTES]>>);

impl Content {
    fn sector(&self, number: u64) -> Sector {
        let Some(chunk) = self.0.get(&(number / CHUNK_SECTORS)) else {
            return [0; SECTOR_BYTES];
        };
        let start = (number % CHUNK_SECTORS) as usize * SECTOR_BYTES;
        let bytes = &chunk[start..start + SECTOR_BYTES];
        bytes.try_into().expect("a sector's slice has its size")
    }

    fn set_sector(&mut self, number: u64, sector: &Sector) {
        let zeroes = || Arc::new([0; CHUNK_BYTES]);
        let chunk = self.0.entry(number / CHUNK_SECTORS).or_insert_with(zeroes);
        let start = (number % CHUNK_SECTORS) as usize * SECTOR_BYTES;
        Arc::make_mut(chunk)[start..start + SECTOR_BYTES].copy_from_slice(sector);
    }

    fn has_chunk_of(&self, sector: u64) -> bool {
        self.0.contains_key(&(sector / CHUNK_SECTORS))
    }
}

/// Versions of sectors written since the last sync, oldest first.
type Unsynced = BTreeMap<u64, Vec<Box<Sector>>>;

/// What a power cut at one moment could leave of a store.
pub struct VolatileState {
    size_bytes: u64,
    synced: Content,
    unsynced: Unsynced,
}

impl VolatileState {
    /// How many sectors had been written and not synced.
    pub fn unsynced_sectors(&self) -> usize {
        self.unsynced.len()
    }

    /// One of the stores that the cut could leave. It has the identity that the one before had.
    pub fn sample(&self, rng: &mut Rng) -> VolatileStore {
        // Nothing of the cache survives, all of it, or anything.
        let kind = rng.u32(..4);
        self.sample_kind(kind, rng)
    }

    /// As [`VolatileState::sample`], where each sector of the cache survives or does not by itself.
    pub fn sample_apart(&self, rng: &mut Rng) -> VolatileStore {
        self.sample_kind(u32::MAX, rng)
    }

    fn sample_kind(&self, kind: u32, rng: &mut Rng) -> VolatileStore {
        let mut content = self.synced.clone();
        for (&sector, versions) in &self.unsynced {
            let survivor = match kind {
                0 => 0,
                1 => versions.len(),
                _ => rng.usize(..=versions.len()),
            };
            if let Some(newest) = survivor.checked_sub(1) {
                content.set_sector(sector, &versions[newest]);
            }
        }
        VolatileStore::holding(self.size_bytes, content)
    }
}

struct State {
    /// What reads see.
    current: Content,
    synced: Content,
    unsynced: Unsynced,
    counters: BackingCounters,
}

/// See the [module](self).
pub struct VolatileStore {
    size_bytes: u64,
    state: Mutex<State>,
}

impl VolatileStore {
    /// A store of `size_bytes` zeroes.
    pub fn new(size_bytes: u64) -> VolatileStore {
        Self::holding(size_bytes, Content::default())
    }

    fn holding(size_bytes: u64, content: Content) -> VolatileStore {
        VolatileStore {
            size_bytes,
            state: Mutex::new(State {
                current: content.clone(),
                synced: content,
                unsynced: Unsynced::new(),
                counters: BackingCounters::default(),
            }),
        }
    }

    /// What a power cut now could leave.
    pub fn crash_state(&self) -> VolatileState {
        let state = self.lock();
        VolatileState {
            size_bytes: self.size_bytes,
            synced: state.synced.clone(),
            unsynced: state.unsynced.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Changes `len` bytes from `offset` on to those of `bytes`, or to zeroes where there are none.
    fn write(&mut self, offset: u64, len: u64, bytes: Option<&[u8]>) {
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let number = at / SECTOR_BYTES as u64;
            let within = (at % SECTOR_BYTES as u64) as usize;
            let count = (SECTOR_BYTES - within).min((end - at) as usize);
            let done = (at - offset) as usize;
            at += count as u64;
            let is_unwritten =
                !self.current.has_chunk_of(number) && !self.synced.has_chunk_of(number);
            if bytes.is_none() && is_unwritten {
                continue;
            }
            let mut sector = self.current.sector(number);
            let target = &mut sector[within..within + count];
            match bytes {
                Some(bytes) => target.copy_from_slice(&bytes[done..done + count]),
                None => target.fill(0),
            }
            self.current.set_sector(number, &sector);
            let versions = self.unsynced.entry(number).or_default();
            versions.push(Box::new(sector));
        }
    }
}

impl BackingStore for VolatileStore {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            path: PathBuf::from("(volatile)"),
            inode: 0,
            size_bytes: self.size_bytes,
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.lock();
        state.counters.reads += 1;
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let within = (at % SECTOR_BYTES as u64) as usize;
            let count = (SECTOR_BYTES - within).min(out.len() - done);
            let sector = state.current.sector(at / SECTOR_BYTES as u64);
            out[done..done + count].copy_from_slice(&sector[within..within + count]);
            done += count;
        }
        Ok(())
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        let mut state = self.lock();
        for run in runs {
            state.counters.writes += 1;
            let room = self.size_bytes.saturating_sub(run.offset);
            let len = room.min(run.bytes.len() as u64);
            state.write(run.offset, len, Some(run.bytes));
        }
        runs.iter().map(|_| Ok(())).collect()
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let room = self.size_bytes.saturating_sub(offset);
        self.lock().write(offset, room.min(len_bytes), None);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        std::thread::sleep(SYNC_TIME);
        let mut state = self.lock();
        state.counters.syncs += 1;
        for (sector, versions) in std::mem::take(&mut state.unsynced) {
            let newest = versions.last().expect("a written sector has a version");
            state.synced.set_sector(sector, newest);
        }
        Ok(())
    }

    fn run_at(&self, offset: u64, len_bytes: u64) -> BackingRun {
        let chunk_end = (offset / CHUNK_BYTES as u64 + 1) * CHUNK_BYTES as u64;
        BackingRun {
            len_bytes: len_bytes.min(chunk_end - offset),
            is_hole: !self
                .lock()
                .current
                .has_chunk_of(offset / SECTOR_BYTES as u64),
        }
    }

    fn counters(&self) -> BackingCounters {
        self.lock().counters
    }

    fn transport(&self) -> String {
        "memory, loses what was not synced".into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SIZE_BYTES: u64 = 1 << 20;

    fn write(store: &VolatileStore, offset: u64, bytes: &[u8]) {
        let results = store.write_runs(&[WriteRun { offset, bytes }]);
        results.into_iter().for_each(|result| result.unwrap());
    }

    /// The first bytes of the first two sectors, in all the ways a cut was seen to leave them.
    fn outcomes(store: &VolatileStore) -> BTreeSet<[u8; 2]> {
        let mut rng = Rng::with_seed(3);
        let state = store.crash_state();
        let outcomes = (0..200).map(|_| {
            let mut bytes = [0; 1024];
            state.sample(&mut rng).read_at(0, &mut bytes).unwrap();
            [bytes[0], bytes[512]]
        });
        outcomes.collect()
    }

    #[test]
    fn unsynced_sectors_are_lost_or_kept_each_for_itself() {
        let store = VolatileStore::new(SIZE_BYTES);
        write(&store, 0, &[1; 1024]);
        assert_eq!(outcomes(&store), [[0, 0], [0, 1], [1, 0], [1, 1]].into());
        store.sync().unwrap();
        assert_eq!(outcomes(&store), [[1, 1]].into());
        write(&store, 0, &[2; 512]);
        write(&store, 0, &[3; 512]);
        assert_eq!(outcomes(&store), [[1, 1], [2, 1], [3, 1]].into());
    }

    #[test]
    fn zeroing_is_lost_like_writing() {
        let store = VolatileStore::new(SIZE_BYTES);
        store.zero_range(0, SIZE_BYTES).unwrap();
        assert_eq!(store.crash_state().unsynced_sectors(), 0);
        write(&store, 0, &[1; 1024]);
        store.sync().unwrap();
        store.zero_range(0, 512).unwrap();
        assert_eq!(outcomes(&store), [[0, 1], [1, 1]].into());
    }

    #[test]
    fn a_moment_stays_as_it_was() {
        let store = VolatileStore::new(SIZE_BYTES);
        write(&store, 100, &[7; 10]);
        store.sync().unwrap();
        let moment = store.crash_state();
        write(&store, 100, &[8; 10]);
        store.sync().unwrap();
        let mut bytes = [0; 12];
        let old = moment.sample(&mut Rng::with_seed(1));
        old.read_at(99, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
        assert!(store.run_at(CHUNK_BYTES as u64, 4096).is_hole);
        assert!(!store.run_at(0, 4096).is_hole);
    }
}
