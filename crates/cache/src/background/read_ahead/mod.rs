//! Reading ahead of long runs: while a reader has what came last, the backing is asked for what it will want next.
//!
//! What is read ahead lies in memory apart, and is no part of the pool: a reader takes it in the place of the backing's answer, and what
//! it then does is what any miss does. Invariant: bytes of a block are taken from there only if the block is not cached when the
//! reader looks, and neither left the pool nor was zeroed behind it since before the backing was asked; so the backing would give
//! the same now. It is bounded, for each volume and for the pool; what no reader comes for goes; nothing that fails here is told, since
//! the reader asks again.

mod state;
mod threads;

use std::sync::{Arc, Weak};

use super::Pipeline;
use super::ahead_windows::{Content, Filled, Window};
use super::volume_state::VolumeState;
use crate::media::entry::Key;
use crate::policy::streams::RunPosition;
use state::Job;
pub(crate) use state::ReadAhead;

/// Windows that lie ahead of a run.
const WINDOWS_AHEAD: u64 = 4;
/// A run has come so far, as a share of what is read ahead at most, before anything is.
const SHARE_OF_RUN: u64 = 8;
/// Windows of a pool.
const POOL_WINDOWS_MAX: usize = 16;

impl Pipeline {
    pub(crate) fn read_ahead(&self) -> &ReadAhead {
        &self.read_ahead
    }

    /// Has what follows a run read ahead, where the run is long enough: as much as was read of it, up to the limit.
    pub(crate) fn want_ahead(
        self: &Arc<Pipeline>,
        volume: &Arc<VolumeState>,
        position: RunPosition,
        volume_blocks: u64,
    ) {
        let bytes = self.read_ahead.bytes();
        if bytes == 0 || position.len_bytes < bytes / SHARE_OF_RUN {
            return;
        }
        let block_bytes = self.engine.block_bytes() as u64;
        let window_blocks = (bytes / WINDOWS_AHEAD / block_bytes).max(1);
        let ahead_blocks = position.len_bytes.min(bytes) / block_bytes;
        let end = (position.end + ahead_blocks).min(volume_blocks);
        let limit = (&self.read_ahead.window_count, POOL_WINDOWS_MAX);
        let made = volume
            .ahead
            .ask(position.end..end, window_blocks, volume_blocks, limit);
        if made.is_empty() {
            return;
        }
        let mut queue = self.read_ahead.queue();
        queue.jobs.retain(|job| job.window.strong_count() > 0);
        queue.jobs.extend(made.iter().map(|window| Job {
            volume: Arc::downgrade(volume),
            window: Arc::downgrade(window),
        }));
        drop(queue);
        if self.has_background() {
            self.start_reading_ahead();
        }
        self.read_ahead.work.notify_all();
    }

    /// Copies what was read ahead of the blocks at the start of `out`, which the caller has seen not to be cached; returns how many
    /// blocks those are. Waits for a thread that reads them at the moment.
    pub(crate) fn take_ahead(&self, volume: &VolumeState, block: u64, out: &mut [u8]) -> usize {
        let Some(window) = volume.ahead.find(block) else {
            return 0;
        };
        let block_bytes = self.engine.block_bytes();
        let mut content = window.lock();
        let (mut taken, mut is_used_up) = (0, true);
        if let Content::Here(filled) = &*content {
            // After the look at the table: what is not stale now was not when the caller looked.
            if !filled.watch.is_stale() {
                let start = (block - window.blocks.start) as usize * block_bytes;
                let len = out.len().min(filled.bytes.len() - start);
                out[..len].copy_from_slice(&filled.bytes[start..start + len]);
                taken = len / block_bytes;
                is_used_up = start + len == filled.bytes.len();
            }
        }
        if is_used_up {
            // Or it was not begun yet: this thread asks the backing itself.
            if let Content::Here(filled) = std::mem::replace(&mut *content, Content::Gone) {
                self.read_ahead.give_back(filled.bytes);
            }
            drop(content);
            volume.ahead.remove(&window);
        }
        taken
    }

    /// Reads the next window that waits; false if there is none.
    pub(crate) fn read_ahead_once(&self) -> bool {
        let Some(job) = self.read_ahead.queue().jobs.pop_front() else {
            return false;
        };
        if let Some(window) = job.window.upgrade() {
            let mut content = window.lock();
            if matches!(*content, Content::Asked) {
                let filled = self.fill_window(&job.volume, &window);
                *content = filled.map_or(Content::Gone, Content::Here);
            }
        }
        true
    }

    /// Asks the backing for a window, whose lock the caller holds: so a detach, which waits for that, finds the volume's backing in no
    /// other thread's hands.
    fn fill_window(&self, volume: &Weak<VolumeState>, window: &Window) -> Option<Filled> {
        let volume = volume.upgrade()?;
        let block_bytes = self.engine.block_bytes();
        let blocks = window.blocks.clone();
        let len = (blocks.end - blocks.start) as usize * block_bytes;
        let mut bytes = self.read_ahead.buffer(len)?;
        let watch = self.table().pins().watch(volume.id, blocks.clone());
        // A thread that zeroes some of them from here on tells the watch.
        if volume.zeroings.is_any_under_way(&blocks) {
            return None;
        }
        // Each stripe's lock orders the watch before whatever leaves it afterwards; what left it before is on the backing.
        let mut cached = 0;
        for block in blocks.clone() {
            let key = Key::new(volume.id, block);
            let bucket = self.table().bucket(key);
            self.table().index().lock(bucket.stripe);
            cached += usize::from(self.table().find(bucket, key).is_some());
            self.table().index().unlock(bucket.stripe);
        }
        if cached * block_bytes == len {
            return None;
        }
        let backing = volume.backing().ok()?;
        backing
            .read_at(blocks.start * block_bytes as u64, &mut bytes)
            .ok()?;
        Some(Filled { bytes, watch })
    }
}
