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
//! One mutex guards the state in DRAM and is held through every operation: as in the paper there is
//! one committing transaction.

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
use forebay::{Backing, Region, Result};
use forebay_pmem::lock_or_yield;

use crate::engines::{EngineName, EngineOptions};
use crate::shared::{
    BufferedTransaction, ChangedBlock, CommitBlocks, Disk, Header, check_blocks, read_blocks,
    refused,
};
use layout::{Entry, Geometry};
use media::Media;
use protocol::Protocol;
use state::State;

/// The engine.
struct Tinca {
    media: Media,
    disk: Disk,
    fill_on_read: bool,
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
    Ok(Tinca::boxed(media, backing, options, state))
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
    Ok(Tinca::boxed(media, backing, options, state))
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
    ) -> Box<dyn Engine> {
        Box::new(Tinca {
            disk: Disk::new(backing, media.geometry.block_bytes),
            media,
            fill_on_read: options.fill_on_read,
            state: Mutex::new(state),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock_or_yield(&self.state)
    }

    fn read_hit(
        &self,
        state: &mut State,
        (index, entry): (u32, Entry),
        out: &mut [u8],
    ) -> Result<()> {
        self.read_cached(&entry, out)?;
        state.lru.touch(index);
        state.tally.read_hits += 1;
        Ok(())
    }

    /// Reads blocks that are not cached. They are right whether or not there is room for them: what
    /// keeps one out of the cache comes back with the next commit or flush that meets it.
    fn read_missing(&self, state: &mut State, block: u64, out: &mut [u8]) -> Result<()> {
        self.disk.read(block, out)?;
        let block_bytes = self.media.geometry.block_bytes;
        state.tally.read_misses += (out.len() / block_bytes) as u64;
        for (number, bytes) in (block..).zip(out.chunks_exact(block_bytes)) {
            if self.fill_on_read && self.fill(state, number, bytes).is_err() {
                break;
            }
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
        read_blocks(
            &mut *self.lock(),
            block,
            out,
            self.block_bytes(),
            |state, number| state.entry_of(number),
            |state, found, _, part| self.read_hit(state, found, part),
            |state, number, part| self.read_missing(state, number, part),
        )
    }

    fn flush(&self) -> Result<()> {
        self.flush_locked(&mut self.lock())
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
        self.commit_locked(&mut self.lock(), blocks)
    }
}
