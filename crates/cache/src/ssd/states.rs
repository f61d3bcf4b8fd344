//! What is known of a volume's blocks without reading them.

use std::ops::Range;

use forebay_log::{Known, PAGE_BYTES};

use super::volume::SsdVolume;
use crate::api::extents::{BlockState, visit_backing, visit_windows};
use crate::api::usage::VolumeUsage;
use crate::error::Result;

impl SsdVolume {
    pub(crate) fn usage(&self) -> VolumeUsage {
        let Ok(log) = self.shared().log() else {
            return VolumeUsage::default();
        };
        let (cached_blocks, dirty_blocks) = log.usage(self.number());
        // Asked afterwards: a number is another volume's only after this one was detached.
        if self.state().check_here().is_err() {
            return VolumeUsage::default();
        }
        VolumeUsage {
            cached_blocks,
            dirty_blocks,
        }
    }

    pub(crate) fn cached_blocks(&self, mut visit: impl FnMut(u64, bool)) {
        let Ok(log) = self.shared().log() else {
            return;
        };
        let mut blocks = Vec::new();
        log.visit_blocks(self.number(), |block, is_dirty| {
            blocks.push((block, is_dirty));
        });
        // As for the usage.
        if self.state().check_here().is_ok() {
            blocks
                .into_iter()
                .for_each(|(block, is_dirty)| visit(block, is_dirty));
        }
    }

    /// Of a pool that is closed it says so, too: a read tells.
    pub(crate) fn has(&self, block: u64) -> bool {
        let log = self.shared().log();
        log.map_or(true, |log| log.is_clean(self.number(), block).is_some())
    }

    pub(crate) fn check_durable(&self) -> Result<()> {
        let (_entered, log) = self.enter()?;
        self.shared().check_writable(&log)
    }

    /// What was committed unsynced is durable when this returns.
    pub(crate) fn sync(&self) -> Result<()> {
        let (_entered, log) = self.enter()?;
        log.sync().map_err(|error| self.error(error))
    }

    /// Whether something of the pool is visible and not durable.
    pub(crate) fn has_unsynced(&self) -> Result<bool> {
        let (_entered, log) = self.enter()?;
        Ok(!log.is_synced())
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
        let look = |window: Range<u64>| {
            let count = window.end - window.start;
            let known = log.known(self.number(), window.start, count).into_iter();
            let states = known.map(|known| match known {
                Known::Cached => Some(BlockState::Data),
                Known::Zeroes => Some(BlockState::Zero),
                Known::Nothing => None,
            });
            states.collect()
        };
        let behind = |run: Range<u64>, visit: &mut _| {
            let volume = (self.state(), self.state().backing()?);
            visit_backing(volume, PAGE_BYTES, run, visit)
        };
        visit_windows(blocks, look, behind, &mut visit)
    }
}
