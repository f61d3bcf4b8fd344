//! Classic: a journaling client over a block cache over a block device of persistent memory, each of
//! them unaware of the others; Tinca's competitor (Tinca §5.1).
//!
//! Three layers: [`nvm_device`] writes whole blocks durably, [`flashcache`] caches the disk in them
//! and keeps its metadata in blocks as well, [`journal`] is what the file system above does for its
//! own consistency. A block of an application so goes to the persistent memory four times: to the
//! log and to its place, each time with a metadata block.
//!
//! The journal is the last blocks of the disk, so the engine's disk is as much smaller; without a
//! journal it is whole. What is promised depends on the journal's mode. In `Data` a transaction is
//! all or nothing. In `Ordered` that holds of its metadata (what came by `update`), and its data is
//! in place before. In `None` blocks are durable one by one: after a crash any part of a
//! transaction may be there, and a block that was being written in place may be torn at 8 bytes.
//!
//! One mutex is around everything but reads of the disk that miss: it is one device and one committing
//! transaction, too, in the design. Without the cleaner a writer cleans under it; with it ([`clean`]) the
//! disk is written without, but where a transaction needs more than half of a set.

mod clean;
mod flashcache;
mod journal;
mod layout;
mod nvm_device;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard};

use crate::{Engine, EngineStats, EngineTransaction};
use forebay::{Backing, ErrorKind, Region, Result};
use forebay_pmem::lock_or_yield;

use super::{EngineName, EngineOptions, JournalMode};
use crate::cleaner::{Cleaner, with_threads};
use crate::mutants::Mutant;
use crate::shared::{
    BufferedTransaction, ChangedBlock, CommitBlocks, Disk, Header, InFlight, ReadThrough,
    check_blocks, read_through, refused,
};
use flashcache::{Cleaning, Flashcache};
use journal::Journal;
use layout::{Geometry, check_block_bytes};
use nvm_device::NvmDevice;

struct Classic {
    geometry: Geometry,
    mode: JournalMode,
    fill_on_read: bool,
    transaction_blocks_max: usize,
    /// The same as the cache's.
    disk: Disk,
    /// The same as the device's.
    region: Arc<Region>,
    cleaner: Option<Cleaner>,
    state: Mutex<State>,
}

struct State {
    cache: Flashcache,
    journal: Option<Journal>,
    /// The counts of it that are the engine's own.
    stats: EngineStats,
}

/// Makes an empty Classic on `region`, whatever that holds, and an empty journal on the disk.
pub(crate) fn create(
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let disk_bytes = backing.size_bytes();
    let geometry = Geometry::plan(region.len(), disk_bytes, options)?;
    check_mode(&geometry, options)?;
    Header::erase(&region)?;
    let device = NvmDevice::new(region, geometry.block_bytes, options.content());
    let zeroes = vec![0; geometry.block_bytes];
    for block in 0..geometry.metadata_blocks() {
        device.write(geometry.metadata_offset(block), &zeroes)?;
    }
    let journal = match geometry.journal_blocks {
        0 => None,
        _ => Some(Journal::create(&geometry, &backing)?),
    };
    // Everything else is durable: a region with a header is a cache.
    let header = Header {
        engine: EngineName::Classic,
        block_bytes: geometry.block_bytes as u64,
        disk_bytes,
        layout: geometry.to_words(),
    };
    header.write(device.region(), &backing)?;
    let cache = Flashcache::new(device, backing, geometry);
    Classic::boxed(cache, journal, options)
}

/// Recovers the Classic that `region` holds: the cache's table from its metadata blocks, then the
/// journal through the cache, as JBD2 does when a file system is mounted.
pub(crate) fn open(
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    check_block_bytes(options.block_bytes)?;
    let disk_bytes = backing.size_bytes();
    let header = Header::read(&region, EngineName::Classic, &backing)?;
    let refused = |found| refused(&region, found, "open it with the options it was made with");
    if header.block_bytes != options.block_bytes as u64 {
        let found = format!("a cache of blocks of {} bytes", header.block_bytes);
        return Err(refused(found));
    }
    let geometry = Geometry::from_words(options.block_bytes, disk_bytes, header.layout);
    if let Some(problem) = geometry.problem(region.len()) {
        return Err(refused(problem));
    }
    let differs = options.set_blocks as u64 != geometry.set_blocks
        || options.as_printed != geometry.as_printed
        || options.updates_metadata != geometry.updates_metadata
        || (options.journal_blocks).is_some_and(|blocks| blocks != geometry.journal_blocks);
    if differs || header.layout != geometry.to_words() {
        return Err(refused(format!("a cache with other options: {geometry:?}")));
    }
    check_mode(&geometry, options)?;
    let device = NvmDevice::new(region, geometry.block_bytes, options.content());
    let mut cache = Flashcache::load(device, backing, geometry)?;
    let journal = match geometry.journal_blocks {
        0 => None,
        _ => Some(Journal::open(&mut cache)?),
    };
    Classic::boxed(cache, journal, options)
}

fn check_mode(geometry: &Geometry, options: &EngineOptions) -> Result<()> {
    let mode = options.journal_mode;
    if mode == JournalMode::None || geometry.journal_blocks > 0 {
        return Ok(());
    }
    Err(ErrorKind::Options(format!(
        "the journal mode is {mode:?}, and there is no journal"
    ))
    .into())
}

impl Classic {
    fn boxed(
        mut cache: Flashcache,
        journal: Option<Journal>,
        options: &EngineOptions,
    ) -> Result<Box<dyn Engine>> {
        let transaction_blocks_max = match (&journal, options.journal_mode) {
            (None, _) | (_, JournalMode::None) => cache.geometry().journal_first() as usize,
            (Some(journal), _) => journal.transaction_blocks_max(),
        };
        if options.cleaner.is_some() {
            // Recovery has cleaned by itself.
            cache.set_cleaning(Cleaning::InBackground);
        }
        let classic = Classic {
            geometry: *cache.geometry(),
            mode: options.journal_mode,
            fill_on_read: options.fill_on_read,
            transaction_blocks_max,
            disk: cache.disk().clone(),
            region: Arc::clone(cache.device().region()),
            cleaner: options.cleaner.map(Cleaner::new),
            state: Mutex::new(State {
                cache,
                journal,
                stats: EngineStats::default(),
            }),
        };
        match classic.cleaner {
            Some(_) => with_threads(classic, options.background),
            None => Ok(Box::new(classic)),
        }
    }
}

impl State {
    /// Whether the cache has the block, or the page cache above it that keeps what is committed.
    fn has(&self, number: u64) -> bool {
        let journal = self.journal.as_ref();
        let waits = journal.is_some_and(|journal| journal.waiting(number).is_some());
        waits || self.cache.is_cached(number)
    }

    /// Commits blocks, those of `in_place` past the log and before it.
    fn commit(&mut self, in_place: &[&ChangedBlock], logged: &[&ChangedBlock]) -> Result<()> {
        let Some(journal) = &mut self.journal else {
            assert!(logged.is_empty(), "nothing is logged without a journal");
            return write_in_place(&mut self.cache, in_place);
        };
        let revoked = |journal: &Journal| -> Vec<u64> {
            let numbers = in_place.iter().map(|block| block.number);
            let waiting = numbers.filter(|&number| journal.waiting(number).is_some());
            waiting.collect()
        };
        let revoked_max = revoked(journal).len();
        if !logged.is_empty() || revoked_max > 0 {
            // Before anything goes to its place: a checkpoint would put an older version over it.
            journal.make_room(&mut self.cache, logged.len(), revoked_max)?;
        }
        let revoked = revoked(journal);
        write_in_place(&mut self.cache, in_place)?;
        if !logged.is_empty() || !revoked.is_empty() {
            journal.commit(&mut self.cache, logged, &revoked)?;
        }
        Ok(())
    }
}

fn write_in_place(cache: &mut Flashcache, blocks: &[&ChangedBlock]) -> Result<()> {
    cache.check_room(blocks.iter().map(|block| block.number))?;
    let mut blocks = blocks.iter();
    blocks.try_for_each(|block| cache.write(block.number, &block.bytes))
}

impl CommitBlocks for Classic {
    fn commit_blocks(&self, blocks: &[ChangedBlock]) -> Result<()> {
        let (in_place, logged): (Vec<_>, Vec<_>) = match self.mode {
            JournalMode::Data => (Vec::new(), blocks.iter().collect()),
            JournalMode::Ordered => blocks.iter().partition(|block| block.changed.is_none()),
            JournalMode::None => (blocks.iter().collect(), Vec::new()),
        };
        self.with_room(|state| {
            let hits = blocks.iter().filter(|block| state.has(block.number));
            let write_hits = hits.count() as u64;
            for block in blocks {
                // A reader that waits for the disk returns what waits for its checkpoint.
                state.cache.in_flight().note_change(block.number);
            }
            state.commit(&in_place, &logged)?;
            state.stats.commits += 1;
            state.stats.blocks_committed += blocks.len() as u64;
            state.stats.write_hits += write_hits;
            Ok(())
        })
    }
}

impl ReadThrough for Classic {
    type State = State;
    const STALE_FILL: Mutant = Mutant::ClassicStaleFill;

    fn lock(&self) -> MutexGuard<'_, State> {
        lock_or_yield(&self.state)
    }

    fn in_flight(state: &mut State) -> &mut InFlight {
        state.cache.in_flight()
    }

    fn is_cached(&self, state: &State, block: u64) -> bool {
        state.has(block)
    }

    fn read_cached(&self, state: &mut State, block: u64, out: &mut [u8]) -> Result<bool> {
        let journal = state.journal.as_ref();
        match journal.and_then(|journal| journal.waiting(block)) {
            Some(bytes) => out.copy_from_slice(bytes),
            None if !state.cache.read_cached(block, out)? => return Ok(false),
            None => {}
        }
        state.stats.read_hits += 1;
        Ok(true)
    }

    fn read_disk(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.disk.read(block, out)
    }

    fn note_misses(&self, state: &mut State, blocks: u64) {
        state.stats.read_misses += blocks;
    }

    fn fill(&self, state: &mut State, block: u64, bytes: &[u8]) -> Result<()> {
        match self.fill_on_read {
            true => state.cache.keep(block, bytes),
            false => Ok(()),
        }
    }
}

impl Engine for Classic {
    fn name(&self) -> &'static str {
        EngineName::Classic.as_str()
    }

    fn block_bytes(&self) -> usize {
        self.geometry.block_bytes
    }

    /// The disk less the journal.
    fn size_bytes(&self) -> u64 {
        self.geometry.journal_first() * self.geometry.block_bytes as u64
    }

    fn transaction_blocks_max(&self) -> usize {
        self.transaction_blocks_max
    }

    fn begin(&self) -> Box<dyn EngineTransaction + '_> {
        Box::new(BufferedTransaction::new(self))
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        check_blocks(self, block, out.len())?;
        read_through(self, block, out)
    }

    fn flush(&self) -> Result<()> {
        self.with_room(|State { cache, journal, .. }| match journal {
            Some(journal) => journal.checkpoint_all(cache),
            None => Ok(()),
        })?;
        match &self.cleaner {
            Some(cleaner) => cleaner.flush(self),
            None => self.lock().cache.clean_all(),
        }
    }

    /// A block that waits in the page cache for its checkpoint is a hit when it is read or written;
    /// cached and dirty blocks are those of the cache below, the journal's among them.
    fn stats(&self) -> EngineStats {
        let state = self.lock();
        let (cached_blocks, dirty_blocks) = state.cache.cached_and_dirty();
        EngineStats {
            slots: self.geometry.slots,
            cached_blocks,
            dirty_blocks,
            evictions: state.cache.evictions(),
            memory: state.cache.device().region().counters(),
            backing: state.cache.disk().counters(),
            ..state.stats
        }
    }
}
