//! UBJ: the buffer cache and the journal are one (Lee, Bahn and Noh, FAST'13, as Tinca §1 and §5.4.4
//! and Spindle §1 describe it).
//!
//! A committed transaction's blocks are frozen in the buffers that hold them, so nothing is written
//! twice; but to write a part of a frozen block it is copied to another buffer first. Frozen blocks
//! leave by whole transactions, oldest first: a checkpoint. What is not frozen is an ordinary
//! buffer, which a crash empties.
//!
//! It guarantees what [`Engine`] asks for. The invariants stand where they are kept: I1 and I2 in
//! `commit`, C1 and C2 in `checkpoint`, R1 and R2 in `recover`. What the papers leave open is in
//! `docs/inside/papers.md`; they print no protocol. As printed a frozen block is copied whatever of it is written.

mod checkpoint;
mod commit;
mod layout;
mod recover;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Mutex;

use crate::{Engine, EngineStats, EngineTransaction};
use forebay::{Backing, ErrorKind, Region, Result};
use forebay_pmem::lock_or_yield;

use super::{EngineName, EngineOptions};
use crate::shared::{
    BufferedTransaction, ContentBy, Disk, Header, check_alive, check_blocks, read_blocks, refused,
};
use layout::Layout;
use state::{Buffer, State};

/// The largest transaction, as a share of the buffers: JBD2's share of its journal.
const TRANSACTION_SHARE: u32 = 4;

/// The engine.
pub(crate) struct Ubj {
    region: Region,
    disk: Disk,
    layout: Layout,
    disk_blocks: u64,
    fill_on_read: bool,
    /// A frozen block is copied also where none of it stays.
    copies_whole_blocks: bool,
    content: ContentBy,
    /// Held across a commit, a checkpoint, and a read with its fill.
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
    Ok(Box::new(Ubj::new(region, backing, layout, options, state)))
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
    Ok(Box::new(Ubj::new(region, backing, layout, options, state)))
}

fn blocks_of(backing: &Backing, layout: &Layout) -> u64 {
    backing.size_bytes().div_ceil(layout.block_bytes as u64)
}

impl Ubj {
    fn new(
        region: Region,
        backing: Backing,
        layout: Layout,
        options: &EngineOptions,
        state: State,
    ) -> Ubj {
        Ubj {
            disk_blocks: blocks_of(&backing, &layout),
            disk: Disk::new(backing, layout.block_bytes),
            region,
            layout,
            fill_on_read: options.fill_on_read,
            copies_whole_blocks: options.as_printed,
            content: options.content(),
            state: Mutex::new(state),
        }
    }

    fn read_cached(&self, state: &mut State, slot: u32, block: u64, out: &mut [u8]) -> Result<()> {
        match state.buffer(slot) {
            Buffer::Clean { .. } => self.read_clean(slot, block, out)?,
            _ => self.read_frozen(slot, block, out)?,
        }
        state.touch(slot);
        state.stats.read_hits += 1;
        Ok(())
    }

    /// Reads neighbours that are not cached with one request to the disk, and brings them in.
    fn read_missing(&self, state: &mut State, block: u64, out: &mut [u8]) -> Result<()> {
        self.disk.read(block, out)?;
        let block_bytes = self.layout.block_bytes;
        state.stats.read_misses += (out.len() / block_bytes) as u64;
        for (number, bytes) in (block..).zip(out.chunks_exact(block_bytes)) {
            if self.fill_on_read && check_alive(&self.region).is_ok() {
                self.fill(state, number, bytes)?;
            }
        }
        Ok(())
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

    /// Copies a clean block out; where the medium lost it, the disk has it.
    fn read_clean(&self, slot: u32, block: u64, out: &mut [u8]) -> Result<()> {
        match self.read_frozen(slot, block, out) {
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt { .. }) => {
                self.disk.read(block, out)
            }
            read => read,
        }
    }

    /// Keeps a block as the disk has it. Its lines are flushed, as the disk's own transfer would
    /// bring them to the medium; no fence, since nothing has to survive.
    fn fill(&self, state: &mut State, block: u64, bytes: &[u8]) -> Result<()> {
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
        read_blocks(
            &mut *lock_or_yield(&self.state),
            block,
            out,
            self.layout.block_bytes,
            |state, number| state.place_of(number),
            |state, slot, number, part| self.read_cached(state, slot, number, part),
            |state, number, part| self.read_missing(state, number, part),
        )
    }

    fn flush(&self) -> Result<()> {
        let mut state = lock_or_yield(&self.state);
        check_alive(&self.region)?;
        self.checkpoint_all(&mut state)
    }

    fn stats(&self) -> EngineStats {
        let state = lock_or_yield(&self.state);
        EngineStats {
            cached_blocks: state.cached_blocks(),
            dirty_blocks: state.frozen_blocks(),
            memory: self.region.counters(),
            backing: self.disk.counters(),
            ..state.stats
        }
    }
}
