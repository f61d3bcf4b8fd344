//! Draining a volume under a watcher, which may stop it.

use forebay_log::{Log, PAGE_BYTES};

use super::volume::SsdVolume;
use crate::api::pool::{Drain, DrainWatcher};
use crate::error::{ErrorKind, Result};

impl SsdVolume {
    /// Writes back what is dirty now, while the volume is in use.
    pub(super) fn drain_pass(&self, log: &Log, drain: &mut Drain<'_, '_>) -> Result<()> {
        let (before, mut dirty, mut last) = (drain.written_blocks, 0, 0);
        let is_whole = log.write_back_watched(self.number(), &mut |left| {
            // More may be left than before: what was written meanwhile into a range that is to be zeroed.
            dirty += left.saturating_sub(last);
            last = left;
            drain.written_blocks = before + (dirty - left);
            self.tell_drain(drain, left)
        });
        match is_whole.map_err(|error| self.error(error))? {
            true => Ok(()),
            false => Err(ErrorKind::Cancelled {
                path: self.path().to_path_buf(),
                dirty_blocks: last,
            }
            .into()),
        }
    }

    /// Writes the last of it back, while nobody may use the volume: a watcher that reads it would wait for ever, so it is told
    /// afterwards.
    pub(super) fn drain_last(&self, log: &Log, drain: &mut Drain<'_, '_>) -> Result<()> {
        let mut first = None;
        let written = log.write_back_watched(self.number(), &mut |left| {
            first.get_or_insert(left);
            true
        });
        written.map_err(|error| self.error(error))?;
        drain.written_blocks += first.unwrap_or(0);
        Ok(())
    }

    /// Tells the watcher how many blocks are left; whether to go on.
    pub(super) fn tell_drain(&self, drain: &mut Drain<'_, '_>, left: u64) -> bool {
        drain.tell(self.path(), PAGE_BYTES as u32, left)
    }

    pub(crate) fn flush_watched(&self, watcher: &mut DrainWatcher<'_>) -> Result<()> {
        // The watcher may use the volume.
        let log = self.look_in()?;
        self.drain_pass(&log, &mut Drain::new(watcher))
    }
}
