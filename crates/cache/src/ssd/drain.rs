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

    /// Writes back what is dirty now, while the volume is in use.
    pub(super) fn pass(&mut self, volume: &SsdVolume, log: &Log) -> Result<()> {
        let (before, mut first, mut last) = (self.written_blocks, None, 0);
        let is_whole = log.write_back_watched(volume.number(), &mut |left| {
            let dirty = *first.get_or_insert(left);
            last = left;
            self.written_blocks = before + (dirty - left);
            self.tell(volume, left)
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

    /// Writes the last of it back, while nobody may use the volume: a watcher that reads it would wait for ever, so it is told
    /// afterwards, by [`Drain::tell`].
    pub(super) fn last_pass(&mut self, volume: &SsdVolume, log: &Log) -> Result<()> {
        let mut first = None;
        let written = log.write_back_watched(volume.number(), &mut |left| {
            first.get_or_insert(left);
            true
        });
        written.map_err(|error| volume.error(error))?;
        self.written_blocks += first.unwrap_or(0);
        Ok(())
    }

    /// Tells the watcher how many blocks are left; whether to go on.
    pub(super) fn tell(&mut self, volume: &SsdVolume, left: u64) -> bool {
        let progress = DrainProgress {
            path: volume.path().to_path_buf(),
            dirty_blocks: left,
            written_blocks: self.written_blocks,
            block_bytes: PAGE_BYTES as u32,
            elapsed: self.started.elapsed(),
        };
        (self.watcher)(&progress).is_continue()
    }
}

impl SsdVolume {
    pub(crate) fn flush_watched(&self, watcher: &mut DrainWatcher<'_>) -> Result<()> {
        // The watcher may use the volume.
        let log = self.look_in()?;
        Drain::new(watcher).pass(self, &log)
    }
}
