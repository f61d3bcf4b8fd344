//! What is known of a volume's blocks without reading them: cached or not, zero or not.
//!
//! What holds: a block that is said to be zero read as zeroes at some moment of the call. The cache
//! is looked at first and the backing afterwards, in this order for every block: a block that was not
//! cached at the look, and lies in a hole of the backing later, was zero at one of the two moments.
//! The other way round it might have been cached with data, then written back and evicted between.

use std::ops::Range;

use forebay_pmem::{PersistenceDomain, Region};

use crate::api::volume::MemoryVolume;
use crate::background::volume_state::VolumeState;
use crate::backing::Backing;
use crate::error::Result;
use crate::media::entry::Kind;
use crate::sync::Ordering;

/// Blocks whose entries are looked at before their backing is.
const WINDOW_BLOCKS: u64 = 4096;

/// Slots that must be free beside those that a write needs, before it is said to be ready: others
/// write too.
const ROOM_RESERVE_SLOTS: u64 = 64;

/// What is known of a block without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// It may hold anything.
    Data,
    /// The pool knows that it reads as zeroes.
    Zero,
    /// It is not cached, and is a hole of the backing.
    Hole,
}

impl MemoryVolume {
    /// Whether all of these blocks are cached now, so that reading them does not wait for the
    /// backing. They may be evicted right after.
    pub fn is_resident(&self, blocks: Range<u64>) -> bool {
        let pipeline = &*self.pipeline;
        blocks.end <= self.blocks()
            && blocks.into_iter().all(|block| {
                let key = self.key(block);
                pipeline
                    .table()
                    .peek(pipeline.table().bucket(key), key)
                    .1
                    .is_some()
            })
    }

    /// Whether a write of `blocks` blocks would wait for nothing slow: there are free slots now, so
    /// that it needs no reclaim or write-back, a fence is no sync of a file, and no writer is being
    /// slowed. Others may take the slots right after.
    pub fn is_ready_for_write(&self, blocks: u64) -> bool {
        let is_memory = |member: &Region| member.domain() != PersistenceDomain::Page;
        self.pipeline.media().members().all(is_memory)
            && !self.pipeline.engine().wakeup().pace.is_on()
            && self.pipeline.table().slots().free_count()
                >= blocks.saturating_add(ROOM_RESERVE_SLOTS)
    }

    /// Confirms that what was acknowledged is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Poisoned`](crate::ErrorKind::Poisoned): a fence has failed.
    /// [`ErrorKind::Volume`](crate::ErrorKind::Volume): the volume was detached.
    pub fn check_durable(&self) -> Result<()> {
        self.pipeline.engine().check_writable()?;
        self.pipeline.engine().check_attached(self.key(0))
    }

    /// Calls `visit` with consecutive runs of blocks of one state that cover `blocks` from its start,
    /// until it returns false. Neighbouring runs may have the same state.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](crate::ErrorKind::OutOfRange): outside the volume.
    /// [`ErrorKind::Volume`](crate::ErrorKind::Volume): the volume has no backing, or was detached.
    pub fn block_states(
        &self,
        blocks: Range<u64>,
        mut visit: impl FnMut(u64, BlockState) -> bool,
    ) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.check_blocks(blocks.end - 1, self.block_size())?;
        let look = |window: Range<u64>| window.map(|block| self.cached_state(block)).collect();
        let behind = |run: Range<u64>, visit: &mut _| {
            let backing = self.state.backing()?;
            self.pipeline.engine().check_table_whole()?;
            visit_backing((&self.state, backing), self.block_size(), run, visit)
        };
        visit_windows(blocks, look, behind, &mut visit)
    }

    /// What the cache says of a block; `None` where it is not cached.
    fn cached_state(&self, block: u64) -> Option<BlockState> {
        let pipeline = &*self.pipeline;
        let key = self.key(block);
        let (_, found) = pipeline.table().peek(pipeline.table().bucket(key), key);
        found.map(|(_, raw)| match pipeline.media().sound(raw) {
            Some(entry) if entry.kind() == Kind::Zero => BlockState::Zero,
            _ => BlockState::Data,
        })
    }
}

/// Visits runs of blocks of one state: what `look` says of a window of blocks, and where it says nothing what `behind` does,
/// afterwards. Each says whether to go on.
pub(crate) fn visit_windows<V: FnMut(u64, BlockState) -> bool>(
    blocks: Range<u64>,
    look: impl Fn(Range<u64>) -> Vec<Option<BlockState>>,
    behind: impl Fn(Range<u64>, &mut V) -> Result<bool>,
    visit: &mut V,
) -> Result<()> {
    let mut start = blocks.start;
    while start < blocks.end {
        let end = (start + WINDOW_BLOCKS).min(blocks.end);
        let known = look(start..end);
        let mut at = start;
        for same in known.chunk_by(|a, b| a == b) {
            let run = at..at + same.len() as u64;
            at = run.end;
            let goes_on = match same[0] {
                Some(state) => visit(run.end - run.start, state),
                None => behind(run, visit)?,
            };
            if !goes_on {
                return Ok(());
            }
        }
        start = end;
    }
    Ok(())
}

/// Visits blocks that were not cached when they were looked at.
pub(crate) fn visit_backing<V: FnMut(u64, BlockState) -> bool>(
    (state, backing): (&VolumeState, &Backing),
    block_bytes: usize,
    blocks: Range<u64>,
    visit: &mut V,
) -> Result<bool> {
    let block_bytes = block_bytes as u64;
    let mut block = blocks.start;
    while block < blocks.end {
        let (from, to) = (block * block_bytes, blocks.end * block_bytes);
        // Past the last byte of the volume every block reads as zeroes.
        let size_bytes = state.size_bytes.load(Ordering::Relaxed);
        let inside = to.min(size_bytes).saturating_sub(from);
        let run = backing.run_at(from, inside.max(1));
        state.check_here()?;
        let whole = match run.is_hole && run.len_bytes < inside {
            // A block that is only begun by the hole may hold anything.
            true => run.len_bytes / block_bytes,
            false => run.len_bytes.div_ceil(block_bytes),
        };
        let count = whole.clamp(1, blocks.end - block);
        let found = match run.is_hole && whole > 0 {
            true => BlockState::Hole,
            false => BlockState::Data,
        };
        if !visit(count, found) {
            return Ok(false);
        }
        block += count;
    }
    Ok(true)
}
