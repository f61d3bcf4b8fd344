//! UBJ: the buffer cache and the journal are one (Lee, Bahn and Noh, FAST'13, as Tinca §1 and §5.4.4
//! and Spindle §1 describe it).
//!
//! A committed transaction's blocks are frozen in the buffers that hold them, so nothing is written
//! twice; but to write a part of a frozen block it is copied to another buffer first. Frozen blocks
//! leave by whole transactions, oldest first: a checkpoint. What is not frozen is an ordinary
//! buffer, which a crash empties.
//!
//! The mutex is not held while a read that misses waits for the disk. Without the cleaner a client checkpoints
//! under it; with it ([`clean`]) the disk is written without.
//!
//! It guarantees what [`Engine`] asks for. The invariants stand where they are kept: I1 and I2 in
//! `commit`, C1 and C2 in `checkpoint`, R1 and R2 in `recover`. What the papers leave open is in
//! `docs/inside/papers.md`; they print no protocol. As printed a frozen block is copied whatever of it is written.

mod checkpoint;
mod clean;
mod commit;
mod layout;
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
    BufferedTransaction, ContentBy, Disk, Header, InFlight, ReadThrough, check_alive, check_blocks,
    read_through, refused,
};
use layout::Layout;
use state::{Buffer, State};

/// The largest transaction, as a share of the buffers: JBD2's share of its journal.
const TRANSACTION_SHARE: u32 = 4;

/// The engine.
struct Ubj {
    region: Region,
    disk: Disk,
    layout: Layout,
    disk_blocks: u64,
    fill_on_read: bool,
    /// A frozen block is copied also where none of it stays.
    copies_whole_blocks: bool,
    content: ContentBy,
    cleaner: Option<Cleaner>,
    /// Held across a commit.
    state: Mutex<State>,
}

/// Makes an empty engine on `region`.
pub(crate) fn create(
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let layout = Layout::plan(region.len(), options.block_bytes)?;
    Header::erase(&region)?;
    layout.erase(&region);
    // Orders the empty entries before the header that says they are some.
    region.fence()?;
    let header = layout.header(backing.size_bytes());
    header.write(&region, &backing)?;
    let state = State::new(layout.slots);
    Ubj::boxed(region, backing, layout, options, state)
}

/// Recovers the engine on `region`.
pub(crate) fn open(
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let header = Header::read(&region, EngineName::Ubj, &backing)?;
    let layout = Layout::from_header(&header, &region)?;
    if layout.block_bytes != options.block_bytes {
        let found = format!("a cache with blocks of {} bytes", layout.block_bytes);
        let todo = format!("open it with those, not with {}", options.block_bytes);
        return Err(refused(&region, found, &todo));
    }
    let disk_blocks = blocks_of(&backing, &layout);
    let state = recover::recover(&region, &layout, disk_blocks)?;
    Ubj::boxed(region, backing, layout, options, state)
}

fn blocks_of(backing: &Backing, layout: &Layout) -> u64 {
    backing.size_bytes().div_ceil(layout.block_bytes as u64)
}

impl Ubj {
    fn boxed(
        region: Region,
        backing: Backing,
        layout: Layout,
        options: &EngineOptions,
        state: State,
    ) -> Result<Box<dyn Engine>> {
        let ubj = Ubj {
            disk_blocks: blocks_of(&backing, &layout),
            disk: Disk::new(backing, layout.block_bytes),
            region,
            layout,
            fill_on_read: options.fill_on_read,
            copies_whole_blocks: options.as_printed,
            content: options.content(),
            cleaner: options.cleaner.map(Cleaner::new),
            state: Mutex::new(state),
        };
        match ubj.cleaner {
            Some(_) => with_threads(ubj, options.background),
            None => Ok(Box::new(ubj)),
        }
    }

    /// Copies a frozen block out.
    ///
    /// # Errors
    /// `Corrupt`: the medium lost it, and there is no other copy.
    fn read_frozen(&self, slot: u32, block: u64, out: &mut [u8]) -> Result<()> {
        let offset = self.layout.buffer(slot);
        self.region.read(offset, out);
        if self.region.has_media_error(offset, out.len()) {
            return Err(ErrorKind::Corrupt { volume: 0, block }.into());
        }
        Ok(())
    }

    /// Keeps a block as the disk has it. Its lines are flushed, as the disk's own transfer would
    /// bring them to the medium; no fence, since nothing has to survive.
    fn fill_locked(&self, state: &mut State, block: u64, bytes: &[u8]) -> Result<()> {
        if let Some(cleaner) = &self.cleaner {
            // The cleaner works by how that leaves it.
            cleaner.note(&state.level());
            if state.free_slots() == 0 {
                return Ok(());
            }
        }
        match self.make_room(state, 1) {
            // The block was read all the same.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Backing { .. }
                        | ErrorKind::NoSpace { .. }
                        | ErrorKind::Corrupt { .. }
                ) =>
            {
                return Ok(());
            }
            made => made?,
        }
        let slot = state.take_free();
        let offset = self.layout.buffer(slot);
        self.content.write(&self.region, offset, bytes);
        state.fill(slot, block);
        Ok(())
    }
}

impl ReadThrough for Ubj {
    type State = State;
    const STALE_FILL: Mutant = Mutant::UbjStaleFill;

    fn lock(&self) -> MutexGuard<'_, State> {
        lock_or_yield(&self.state)
    }

    fn in_flight(state: &mut State) -> &mut InFlight {
        &mut state.in_flight
    }

    fn is_cached(&self, state: &State, block: u64) -> bool {
        state.place_of(block).is_some()
    }

    fn read_cached(&self, state: &mut State, block: u64, out: &mut [u8]) -> Result<bool> {
        let slot = state.place_of(block).expect("it is cached");
        let is_clean = matches!(state.buffer(slot), Buffer::Clean { .. });
        match self.read_frozen(slot, block, out) {
            // Of a clean one the disk has a copy.
            Err(error) if is_clean && matches!(error.kind(), ErrorKind::Corrupt { .. }) => {
                return Ok(false);
            }
            read => read?,
        }
        state.touch(slot);
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
        match self.fill_on_read && check_alive(&self.region).is_ok() {
            true => self.fill_locked(state, block, bytes),
            false => Ok(()),
        }
    }
}

impl Engine for Ubj {
    fn name(&self) -> &'static str {
        EngineName::Ubj.as_str()
    }

    fn block_bytes(&self) -> usize {
        self.layout.block_bytes
    }

    fn size_bytes(&self) -> u64 {
        self.disk_blocks * self.layout.block_bytes as u64
    }

    fn transaction_blocks_max(&self) -> usize {
        (self.layout.slots / TRANSACTION_SHARE).max(1) as usize
    }

    fn begin(&self) -> Box<dyn EngineTransaction + '_> {
        Box::new(BufferedTransaction::new(self))
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        check_blocks(self, block, out.len())?;
        read_through(self, block, out)
    }

    fn flush(&self) -> Result<()> {
        check_alive(&self.region)?;
        if let Some(cleaner) = &self.cleaner {
            return cleaner.flush(self);
        }
        let mut state = self.lock();
        check_alive(&self.region)?;
        self.checkpoint_all(&mut state)
    }

    fn stats(&self) -> EngineStats {
        let state = self.lock();
        EngineStats {
            cached_blocks: state.cached_blocks(),
            dirty_blocks: state.frozen_blocks(),
            memory: self.region.counters(),
            backing: self.disk.counters(),
            ..state.stats
        }
    }
}
