//! Spindle (Yan, Huang, Huang: "Spindle: A Write-Optimized NVM Cache for Journaling File System", NPC
//! 2019): data and metadata decoupled.
//!
//! Data blocks are written whole to free NVM blocks, with the way back in a ring buffer until the
//! transaction is committed. Metadata blocks stay in a cache of their own and are updated in place,
//! one sub-block of inode size at a time, with the way back in a log.
//!
//! By default it keeps what an engine promises under every crash image; `as_printed` leaves out the
//! repairs, each of which is one place with a comment "as printed". `docs/inside/papers.md` lists them.
//!
//! One lock is around everything in DRAM, held for a whole commit: the paper has one committing
//! transaction. It is not held while a read that misses waits for the disk. Without the cleaner a client
//! evicts under it, block by block; with it ([`clean`]) the disk is written without.

mod clean;
mod commit;
mod cuckoo;
mod evict;
mod layout;
mod media;
mod prepare;
mod recover;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard};

use crate::{Engine, EngineStats, EngineTransaction};
use forebay::{Backing, ErrorKind, Region, Result};
use forebay_pmem::lock_or_yield;

use super::{EngineName, EngineOptions};
use crate::cleaner::{Cleaner, with_threads};
use crate::mutants::Mutant;
use crate::shared::{
    BufferedTransaction, ChangedBlock, CommitBlocks, Disk, Header, InFlight, ReadThrough,
    check_alive, check_blocks, read_through, refused,
};
use layout::{Cache, Layout};
use media::Media;
use state::{Place, State};

/// The engine.
struct Spindle {
    media: Media,
    disk: Disk,
    fills_on_read: bool,
    cleaner: Option<Cleaner>,
    state: Mutex<State>,
}

/// Makes an empty Spindle on `region`, whatever that holds.
///
/// # Errors
/// `Options`: sizes that do not fit each other or the region; the medium failed.
pub(crate) fn create(
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    Spindle::made(region, backing, options)?.boxed(options)
}

/// Recovers the Spindle that `region` holds.
///
/// # Errors
/// `Refused`: there is none, or not with these options over this disk; `Damaged`: what is there
/// contradicts itself; the medium failed.
pub(crate) fn open(
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let refused = |found, todo| refused(&region, found, todo);
    let header = Header::read(&region, EngineName::Spindle, &backing)?;
    let layout = Layout::from_header(&header, region.len())
        .map_err(|found| refused(found, "restore the region from a copy, or make a new cache"))?;
    let has_ring = options
        .ring_elements
        .is_none_or(|elements| elements == layout.ring_elements);
    if layout.block_bytes != options.block_bytes as u64
        || layout.inode_bytes != options.inode_bytes as u64
        || layout.as_printed != options.as_printed
        || !has_ring
    {
        let found = format!("other options than the cache was made with: {layout:?}");
        return Err(refused(found, "open it with those, or make a new cache"));
    }
    let media = Media {
        region,
        layout,
        content: options.content(),
    };
    Spindle::recovered(media, backing, options)?.boxed(options)
}

impl Spindle {
    fn made(region: Region, backing: Backing, options: &EngineOptions) -> Result<Spindle> {
        let layout = Layout::plan(region.len(), backing.size_bytes(), options)?;
        Header::erase(&region)?;
        let media = Media {
            region,
            layout,
            content: options.content(),
        };
        media.clear();
        // An empty cache is there before the header says that there is one.
        media.fence()?;
        layout.header().write(&media.region, &backing)?;
        Spindle::recovered(media, backing, options)
    }

    /// The engine on media of which the header is there.
    fn recovered(media: Media, backing: Backing, options: &EngineOptions) -> Result<Spindle> {
        let state = media.recover()?;
        Ok(Spindle {
            disk: Disk::new(backing, media.layout.block_bytes as usize),
            media,
            fills_on_read: options.fill_on_read,
            cleaner: options.cleaner.map(Cleaner::new),
            state: Mutex::new(state),
        })
    }

    fn boxed(self, options: &EngineOptions) -> Result<Box<dyn Engine>> {
        match self.cleaner {
            Some(_) => with_threads(self, options.background),
            None => Ok(Box::new(self)),
        }
    }

    /// Brings a block that was just read from the disk into the data cache.
    fn fill_locked(&self, state: &mut State, block: u64, bytes: &[u8]) -> Result<()> {
        if let Some(cleaner) = &self.cleaner {
            // The cleaner works by how that leaves it.
            cleaner.note(&state.level(Cache::Data));
            if state.data.free_slots.is_empty() {
                return Ok(());
            }
        }
        if state.data.free_slots.is_empty() {
            self.evict_data(state, &|_| false)?;
            // The victim's entry is gone before its NVM block has other bytes.
            self.media.fence()?;
        }
        let (entry, cached) = self.take_data(state, block, false);
        let mapping = cached.mapping;
        self.media.write_slot(Cache::Data, mapping.slot, bytes);
        // The bytes are there before the entry says so. The entry itself may come to the medium late
        // or never: the disk has the block, and every later change of the entry flushes it.
        self.media.fence()?;
        self.media.create_entry(Cache::Data, entry, block, mapping);
        self.media.flush_entries(Cache::Data, &mut [entry]);
        state.set_data(entry, cached);
        state.assert_at_rest();
        Ok(())
    }
}

impl ReadThrough for Spindle {
    type State = State;
    const STALE_FILL: Mutant = Mutant::SpindleStaleFill;

    fn lock(&self) -> MutexGuard<'_, State> {
        lock_or_yield(&self.state)
    }

    fn in_flight(state: &mut State) -> &mut InFlight {
        &mut state.in_flight
    }

    fn is_cached(&self, state: &State, block: u64) -> bool {
        state.index.get(block).is_some()
    }

    fn read_cached(&self, state: &mut State, block: u64, out: &mut [u8]) -> Result<bool> {
        // A commit whose fence failed may have updated metadata in place.
        check_alive(&self.media.region)?;
        match state.index.get(block).expect("it is cached") {
            Place::Data(entry) => {
                let slot = state.data.at(entry).mapping.slot;
                self.media.read_slot(Cache::Data, slot, block, out)?;
                state.data.lru.touch(entry);
            }
            Place::Metadata(slot) => {
                self.media.read_slot(Cache::Metadata, slot, block, out)?;
                state.metadata.access(slot, 1);
            }
        }
        state.tallies.read_hits += 1;
        Ok(true)
    }

    fn read_disk(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.disk.read(block, out)
    }

    fn note_misses(&self, state: &mut State, blocks: u64) {
        state.tallies.read_misses += blocks;
    }

    fn fill(&self, state: &mut State, block: u64, bytes: &[u8]) -> Result<()> {
        // The disk was read without the mutex: a fence may have failed meanwhile, and what was evicted before it may not be
        // gone.
        if !self.fills_on_read || check_alive(&self.media.region).is_err() {
            return Ok(());
        }
        match self.fill_locked(state, block, bytes) {
            // The block was read all the same.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Backing { .. } | ErrorKind::Corrupt { .. }
                ) =>
            {
                Ok(())
            }
            filled => filled,
        }
    }
}

impl Engine for Spindle {
    fn name(&self) -> &'static str {
        EngineName::Spindle.as_str()
    }

    fn block_bytes(&self) -> usize {
        self.media.layout.block_bytes as usize
    }

    fn size_bytes(&self) -> u64 {
        self.media.layout.disk_blocks() * self.media.layout.block_bytes
    }

    /// All of them may be cached, and then each is there twice until the commit (§3.2); the ring has
    /// room for one element past Tail (§3.4).
    fn transaction_blocks_max(&self) -> usize {
        let layout = &self.media.layout;
        let of_ring = layout.ring_elements - 1;
        of_ring.min(u64::from(layout.data_slots) / 2) as usize
    }

    fn begin(&self) -> Box<dyn EngineTransaction + '_> {
        Box::new(BufferedTransaction::new(self))
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        check_blocks(self, block, out.len())?;
        check_alive(&self.media.region)?;
        read_through(self, block, out)
    }

    fn flush(&self) -> Result<()> {
        check_alive(&self.media.region)?;
        if let Some(cleaner) = &self.cleaner {
            return cleaner.flush(self);
        }
        let mut state = self.lock();
        check_alive(&self.media.region)?;
        self.flush_locked(&mut state)
    }

    fn stats(&self) -> EngineStats {
        let state = self.lock();
        let (cached_blocks, dirty_blocks) = state.counts();
        let layout = &self.media.layout;
        EngineStats {
            slots: u64::from(layout.data_slots) + u64::from(layout.metadata_slots),
            cached_blocks,
            dirty_blocks,
            memory: self.media.region.counters(),
            backing: self.disk.counters(),
            ..state.tallies
        }
    }
}

impl CommitBlocks for Spindle {
    fn commit_blocks(&self, blocks: &[ChangedBlock]) -> Result<()> {
        let Some(cleaner) = &self.cleaner else {
            let mut state = self.lock();
            check_alive(&self.media.region)?;
            return self.commit_locked(&mut state, blocks);
        };
        loop {
            let mut state = self.lock();
            check_alive(&self.media.region)?;
            let Some((cache, slots)) = self.lacking(&state, blocks) else {
                self.commit_locked(&mut state, blocks)?;
                let levels = Cache::BOTH.map(|cache| state.level(cache));
                let is_above_high = levels.map(|level| cleaner.note(&level));
                drop(state);
                return match is_above_high.contains(&true) {
                    true => cleaner.keep_below_high(self),
                    false => Ok(()),
                };
            };
            drop(state);
            cleaner.make_room(self, cache as usize, slots as u64)?;
        }
    }
}
