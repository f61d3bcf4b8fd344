//! Draining a volume under a watcher: how much is left, how fast it goes, and a way to stop.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::api::volume::MemoryVolume;
use crate::error::{ErrorKind, Result};

/// Progress of a drain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DrainProgress {
    /// The volume's backing.
    pub path: PathBuf,
    /// Blocks that are still to be written.
    pub dirty_blocks: u64,
    /// Blocks written since the drain began.
    pub written_blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// How long the drain has run.
    pub elapsed: Duration,
}

/// Is told a drain's progress before each few megabytes and at the end, and says whether to go on. It
/// must not attach, detach or grow anything itself.
pub type DrainWatcher<'a> = dyn FnMut(&DrainProgress) -> ControlFlow<()> + 'a;

impl DrainProgress {
    /// Bytes written a second, on average since the drain began.
    pub fn bytes_per_second(&self) -> u64 {
        let bytes = self.written_blocks.saturating_mul(self.block_bytes.into());
        (bytes as f64 / self.elapsed.as_secs_f64().max(1e-6)) as u64
    }

    /// How long the rest takes at that pace; `None` before anything was written.
    pub fn remaining(&self) -> Option<Duration> {
        if self.dirty_blocks == 0 {
            return Some(Duration::ZERO);
        }
        let blocks_per_second = self.written_blocks as f64 / self.elapsed.as_secs_f64();
        Duration::try_from_secs_f64(self.dirty_blocks as f64 / blocks_per_second).ok()
    }
}

/// One drain, in however many passes.
pub(crate) struct Drain<'a, 'b> {
    watcher: &'a mut DrainWatcher<'b>,
    started: Instant,
    pub(crate) written_blocks: u64,
}

impl<'a, 'b> Drain<'a, 'b> {
    pub(crate) fn new(watcher: &'a mut DrainWatcher<'b>) -> Drain<'a, 'b> {
        Drain {
            watcher,
            started: Instant::now(),
            written_blocks: 0,
        }
    }

    /// Tells the watcher how many blocks of so many bytes are left; whether to go on.
    pub(crate) fn tell(&mut self, path: &Path, block_bytes: u32, left: u64) -> bool {
        let progress = DrainProgress {
            path: path.to_path_buf(),
            dirty_blocks: left,
            written_blocks: self.written_blocks,
            block_bytes,
            elapsed: self.started.elapsed(),
        };
        (self.watcher)(&progress).is_continue()
    }

    /// Writes back what is dirty now.
    pub(super) fn pass(&mut self, volume: &MemoryVolume) -> Result<()> {
        let before = self.written_blocks;
        let mut dirty = None;
        let state = &volume.state;
        volume.pipeline.flush_volume_watched(state, &mut |left| {
            let dirty = *dirty.get_or_insert(left);
            self.written_blocks = before + (dirty - left) as u64;
            let block_bytes = volume.pipeline.media().geometry.block_bytes;
            match self.tell(&state.path, block_bytes, left as u64) {
                true => Ok(()),
                false => Err(ErrorKind::Cancelled {
                    path: state.path.clone(),
                    dirty_blocks: left as u64,
                }
                .into()),
            }
        })
    }
}

impl MemoryVolume {
    /// As [`MemoryVolume::flush`], with a watcher that may stop it.
    ///
    /// # Errors
    /// As `flush`; [`ErrorKind::Cancelled`] where the watcher said so.
    pub fn flush_watched(&self, watcher: &mut DrainWatcher<'_>) -> Result<()> {
        Drain::new(watcher).pass(self)
    }
}
