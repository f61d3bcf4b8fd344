//! What is known of a volume's blocks without reading them.

use std::ops::Range;

use forebay_log::{Known, PAGE_BYTES};

use super::volume::SsdVolume;
use crate::api::extents::BlockState;
use crate::api::usage::VolumeUsage;
use crate::error::Result;

/// Blocks whose entries are looked at before their backing is.
const WINDOW_BLOCKS: u64 = 4096;

impl SsdVolume {
    pub(crate) fn usage(&self) -> VolumeUsage {
        let Ok(log) = self.shared().log() else {
            return VolumeUsage::default();
        };
        let (cached_blocks, dirty_blocks) = log.usage(self.number());
        VolumeUsage {
            cached_blocks,
            dirty_blocks,
        }
    }

    pub(crate) fn cached_blocks(&self, visit: impl FnMut(u64, bool)) {
        if let Ok(log) = self.shared().log() {
            log.visit_blocks(self.number(), visit);
        }
    }

    pub(crate) fn check_durable(&self) -> Result<()> {
        let (_entered, log) = self.enter()?;
        self.shared().check_writable(&log)
    }

    /// The cache is looked at first and the backing afterwards, as `api/extents.rs` says why.
    pub(crate) fn block_states(
        &self,
        blocks: Range<u64>,
        mut visit: impl FnMut(u64, BlockState) -> bool,
    ) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.check_blocks(blocks.end - 1, PAGE_BYTES)?;
        let (_entered, log) = self.enter()?;
        let mut start = blocks.start;
        while start < blocks.end {
            let end = (start + WINDOW_BLOCKS).min(blocks.end);
            let known = log.known(self.number(), start, end - start);
            let mut at = start;
            for same in known.chunk_by(|a, b| a == b) {
                let run = at..at + same.len() as u64;
                at = run.end;
                let goes_on = match same[0] {
                    Known::Cached => visit(run.end - run.start, BlockState::Data),
                    Known::Zeroes => visit(run.end - run.start, BlockState::Zero),
                    Known::Nothing => self.visit_backing(run, &mut visit)?,
                };
                if !goes_on {
                    return Ok(());
                }
            }
            start = end;
        }
        Ok(())
    }

    fn visit_backing(
        &self,
        blocks: Range<u64>,
        visit: &mut impl FnMut(u64, BlockState) -> bool,
    ) -> Result<bool> {
        let backing = self.state().backing()?;
        let block_bytes = PAGE_BYTES as u64;
        let mut block = blocks.start;
        while block < blocks.end {
            let (from, to) = (block * block_bytes, blocks.end * block_bytes);
            // Past the last byte of the volume every block reads as zeroes.
            let inside = to.min(self.size_bytes()).saturating_sub(from);
            let run = backing.run_at(from, inside.max(1));
            let whole = match run.is_hole && run.len_bytes < inside {
                // A block that is only begun by the hole may hold anything.
                true => run.len_bytes / block_bytes,
                false => run.len_bytes.div_ceil(block_bytes),
            };
            let count = whole.clamp(1, blocks.end - block);
            let state = match run.is_hole && whole > 0 {
                true => BlockState::Hole,
                false => BlockState::Data,
            };
            if !visit(count, state) {
                return Ok(false);
            }
            block += count;
        }
        Ok(true)
    }
}
