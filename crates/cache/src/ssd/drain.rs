//! Draining a volume under a watcher, which may stop it.

use std::time::Instant;

use forebay_log::{Log, PAGE_BYTES};

use super::volume::SsdVolume;
use crate::api::pool::{DrainProgress, DrainWatcher};
use crate::error::{ErrorKind, Result};

/// One drain, in however many passes.
pub(super) struct Drain<'a, 'b> {
    watcher: &'a mut DrainWatcher<'b>,
    started: Instant,
    written_blocks: u64,
}

impl<'a, 'b> Drain<'a, 'b> {
    pub(super) fn new(watcher: &'a mut DrainWatcher<'b>) -> Drain<'a, 'b> {
        Drain {
            watcher,
            started: Instant::now(),
            written_blocks: 0,
        }
    }

    /// Writes back what is dirty now.
    pub(super) fn pass(&mut self, volume: &SsdVolume, log: &Log) -> Result<()> {
        let (before, mut first, mut last) = (self.written_blocks, None, 0);
        let is_whole = log.write_back_watched(volume.number(), &mut |left| {
            let dirty = *first.get_or_insert(left);
            last = left;
            self.written_blocks = before + (dirty - left);
            let progress = DrainProgress {
                path: volume.path().to_path_buf(),
                dirty_blocks: left,
                written_blocks: self.written_blocks,
                block_bytes: PAGE_BYTES as u32,
                elapsed: self.started.elapsed(),
            };
            (self.watcher)(&progress).is_continue()
        });
        match is_whole.map_err(|error| volume.error(error))? {
            true => Ok(()),
            false => Err(ErrorKind::Cancelled {
                path: volume.path().to_path_buf(),
                dirty_blocks: last,
            }
            .into()),
        }
    }
}

impl SsdVolume {
    pub(crate) fn flush_watched(&self, watcher: &mut DrainWatcher<'_>) -> Result<()> {
        let (entered, log) = self.enter()?;
        // The watcher may use the volume.
        drop(entered);
        Drain::new(watcher).pass(self, &log)
    }
}
