//! Tinca, the transactional NVM disk cache (SC'17; docs/inside/papers.md): commits in place by switching the
//! role of blocks, so that nothing is written twice.
//!
//! What `commit` returned `Ok` for survives a power cut; what it did not return for is there whole or
//! not at all. That holds for every image that a power cut can leave, tears of 16-byte stores
//! included, which the paper's protocol as printed does not survive: see [`Protocol`].
//!
//! * A committed block is in one slot that one entry names, until another commit of it or its eviction.
//! * A commit moves through the states that [`commit`] describes; [`recover`] undoes all but the last.
//! * Slots are reused only when nothing durable names them: [`replace`].
//!
//! One mutex guards the state in DRAM and is held through every commit: as in the paper there is one
//! committing transaction. It is not held while a read that misses waits for the disk. Without the cleaner
//! a client evicts block by block, under the mutex; with it ([`clean`]) the disk is written without.

mod clean;
mod commit;
mod layout;
mod media;
mod protocol;
mod recover;
mod replace;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard};

use crate::{Engine, EngineStats, EngineTransaction};
use forebay::{Backing, Error, ErrorKind, Region, Result};
use forebay_pmem::lock_or_yield;

use crate::cleaner::{Cleaner, with_threads};
use crate::engines::{EngineName, EngineOptions};
use crate::mutants::Mutant;
use crate::shared::{
    BufferedTransaction, ChangedBlock, CommitBlocks, Disk, Header, InFlight, ReadThrough,
    check_alive, check_blocks, read_through, refused,
};
use layout::Geometry;
use media::Media;
use protocol::Protocol;
use state::State;

/// The engine.
struct Tinca {
    media: Media,
    disk: Disk,
    fill_on_read: bool,
    cleaner: Option<Cleaner>,
    state: Mutex<State>,
}

/// Makes an empty cache on `region`, whatever that holds.
///
/// # Errors
/// `Options` that do not fit the region; the medium failed.
pub(crate) fn create(
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let disk_bytes = backing.size_bytes();
    let geometry = Geometry::fit(region.len(), disk_bytes, options)?;
    Header::erase(&region)?;
    let media = Media {
        region,
        geometry,
        protocol: protocol_of(options),
        content: options.content(),
    };
    media.erase()?;
    let header = Header {
        engine: EngineName::Tinca,
        block_bytes: geometry.block_bytes as u64,
        disk_bytes,
        layout: [
            geometry.ring_elements,
            u64::from(geometry.slots),
            media.protocol as u64,
            0,
        ],
    };
    header.write(&media.region, &backing)?;
    let state = State::empty(geometry.slots, 0);
    Tinca::boxed(media, backing, options, state)
}

/// Recovers the cache that `region` holds.
///
/// # Errors
/// `Refused` where it holds none, one over another disk, one made with other options, or a damaged
/// one; the medium failed.
pub(crate) fn open(
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let header = Header::read(&region, EngineName::Tinca, &backing)?;
    let [ring_elements, slots, protocol, _] = header.layout;
    let refused = |found, todo| refused(&region, found, todo);
    let is_as_asked = options.block_bytes as u64 == header.block_bytes
        && options
            .ring_elements
            .is_none_or(|asked| asked == ring_elements)
        && protocol_of(options) as u64 == protocol;
    if !is_as_asked {
        let found = format!(
            "a Tinca cache with blocks of {} bytes, a ring of {ring_elements} elements and the {} \
             protocol",
            header.block_bytes,
            if protocol == 0 { "hardened" } else { "printed" }
        );
        return Err(refused(found, "open it with the options it was made with"));
    }
    let geometry = Geometry::new(options.block_bytes, header.disk_bytes, ring_elements, slots)
        .filter(|geometry| geometry.end() <= region.len());
    let Some(geometry) = geometry else {
        let found = format!("a Tinca cache of {slots} blocks in {} bytes", region.len());
        return Err(refused(found, "restore the whole of it from a copy"));
    };
    let media = Media {
        region,
        geometry,
        protocol: protocol_of(options),
        content: options.content(),
    };
    let state = recover::recover(&media)?;
    Tinca::boxed(media, backing, options, state)
}

fn protocol_of(options: &EngineOptions) -> Protocol {
    if options.as_printed {
        Protocol::Printed
    } else {
        Protocol::Hardened
    }
}

impl Tinca {
    fn boxed(
        media: Media,
        backing: Backing,
        options: &EngineOptions,
        state: State,
    ) -> Result<Box<dyn Engine>> {
        let tinca = Tinca {
            disk: Disk::new(backing, media.geometry.block_bytes),
            media,
            fill_on_read: options.fill_on_read,
            cleaner: options.cleaner.map(Cleaner::new),
            state: Mutex::new(state),
        };
        match tinca.cleaner {
            Some(_) => with_threads(tinca, options.background),
            None => Ok(Box::new(tinca)),
        }
    }
}

impl ReadThrough for Tinca {
    type State = State;
    const STALE_FILL: Mutant = Mutant::TincaStaleFill;

    fn lock(&self) -> MutexGuard<'_, State> {
        lock_or_yield(&self.state)
    }

    fn in_flight(state: &mut State) -> &mut InFlight {
        &mut state.in_flight
    }

    fn is_cached(&self, state: &State, block: u64) -> bool {
        state.index.contains_key(&block)
    }

    fn read_cached(&self, state: &mut State, block: u64, out: &mut [u8]) -> Result<bool> {
        let (index, entry) = state.entry_of(block).expect("it is cached");
        if !self.media.read_block(entry.current, out) {
            // Of a clean one the disk has a copy.
            return match entry.is_modified {
                true => Err(corrupt(block)),
                false => Ok(false),
            };
        }
        state.lru.touch(index);
        state.tally.read_hits += 1;
        Ok(true)
    }

    fn read_disk(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.disk.read(block, out)
    }

    fn note_misses(&self, state: &mut State, blocks: u64) {
        state.tally.read_misses += blocks;
    }

    /// The block is right whether or not it can be kept: what prevents that comes back with the next commit or flush
    /// that meets it.
    fn fill(&self, state: &mut State, block: u64, bytes: &[u8]) -> Result<()> {
        if self.fill_on_read {
            let _ = self.fill_locked(state, block, bytes);
        }
        Ok(())
    }
}

impl Engine for Tinca {
    fn name(&self) -> &'static str {
        EngineName::Tinca.as_str()
    }

    fn block_bytes(&self) -> usize {
        self.media.geometry.block_bytes
    }

    fn size_bytes(&self) -> u64 {
        self.media.geometry.disk_blocks * self.block_bytes() as u64
    }

    fn transaction_blocks_max(&self) -> usize {
        self.media.geometry.transaction_blocks_max()
    }

    fn begin(&self) -> Box<dyn EngineTransaction + '_> {
        Box::new(BufferedTransaction::new(self))
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        check_blocks(self, block, out.len())?;
        read_through(self, block, out)
    }

    fn flush(&self) -> Result<()> {
        match &self.cleaner {
            Some(cleaner) => cleaner.flush(self),
            None => self.flush_locked(&mut self.lock()),
        }
    }

    fn stats(&self) -> EngineStats {
        let state = self.lock();
        EngineStats {
            slots: u64::from(self.media.geometry.slots),
            cached_blocks: state.lru.len() as u64,
            dirty_blocks: state.dirty_blocks,
            memory: self.media.region.counters(),
            backing: self.disk.counters(),
            ..state.tally
        }
    }
}

impl CommitBlocks for Tinca {
    fn commit_blocks(&self, blocks: &[ChangedBlock]) -> Result<()> {
        let Some(cleaner) = &self.cleaner else {
            return self.commit_locked(&mut self.lock(), blocks);
        };
        loop {
            let mut state = self.lock();
            check_alive(&self.media.region)?;
            if state.free_slots.len() >= blocks.len() {
                self.commit_locked(&mut state, blocks)?;
                let is_above_high = cleaner.note(&state.level());
                drop(state);
                return match is_above_high {
                    true => cleaner.keep_below_high(self),
                    false => Ok(()),
                };
            }
            drop(state);
            cleaner.make_room(self, 0, blocks.len() as u64)?;
        }
    }
}

/// The error of a block whose only copy the medium lost.
fn corrupt(block: u64) -> Error {
    ErrorKind::Corrupt { volume: 0, block }.into()
}
