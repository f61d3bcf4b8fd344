//! What the stages share (§4.3): a block is in one queue, or in the hands of one thread.
//!
//! Invariants:
//!
//! P1 Each inode is one element of one queue, or held by the one thread that took it from there.
//! P2 Words of an inode change only under its lock, but for those of a free one that its thread has from the queue.
//! P3 A block becomes clean only when its file has its content durably.
//! P4 No more of a block is written to its file than the volume's size, durable in the region, says.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::block_lock::BlockLock;
use super::counts::{Counted, add};
use super::folder::StoredFile;
use super::media::Media;
use super::options::AutoBahnOptions;
use super::queue::Queue;
use super::wakeup::Wakeup;

/// A file that is open, as the flushers see it.
#[derive(Debug)]
pub(super) struct OpenVolume {
    pub(super) file: Arc<dyn StoredFile>,
    /// The size that is durable in the region.
    pub(super) size_bytes: AtomicU64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) media: Media,
    pub(super) options: AutoBahnOptions,
    pub(super) locks: Box<[BlockLock]>,
    pub(super) free: Queue,
    pub(super) clean: Queue,
    pub(super) dirty: Box<[DirtyQueue]>,
    /// Wakes the reclaimer.
    pub(super) reclaimer: Wakeup,
    volumes: Box<[Mutex<Option<Arc<OpenVolume>>>]>,
    /// What a stage failed with: everything fails from then on, until the buffer is opened again.
    failure: OnceLock<String>,
    pub(super) counted: Counted,
    /// Held by a writer that does the stages' work, where they have no threads.
    stages: Mutex<()>,
}

/// A queue of dirty blocks; its flusher sleeps until there are more than the watermark.
#[derive(Debug)]
pub(super) struct DirtyQueue {
    pub(super) queue: Queue,
    pub(super) flusher: Wakeup,
    pub(super) watermark: i64,
}

impl Pipeline {
    /// All queues empty.
    pub(super) fn new(media: Media, options: &AutoBahnOptions) -> Pipeline {
        let blocks = media.layout.blocks as usize;
        let flushers = options.flushers.max(1);
        // Over all queues at most half: writers find blocks while flushers sleep.
        let share = (blocks / 2 / flushers) as u64;
        let watermark = options.watermark.map_or(share, |wanted| wanted.min(share)) as i64;
        let dirty = || DirtyQueue {
            queue: Queue::new(blocks),
            flusher: Wakeup::default(),
            watermark,
        };
        Pipeline {
            options: options.clone(),
            locks: (0..blocks).map(|_| BlockLock::default()).collect(),
            free: Queue::new(blocks),
            clean: Queue::new(blocks),
            dirty: (0..flushers).map(|_| dirty()).collect(),
            reclaimer: Wakeup::default(),
            volumes: (0..media.layout.volumes)
                .map(|_| Mutex::default())
                .collect(),
            failure: OnceLock::new(),
            counted: Counted::default(),
            stages: Mutex::new(()),
            media,
        }
    }

    /// Blocks are free again below this many.
    pub(super) fn free_low(&self) -> i64 {
        (self.locks.len() as i64 / 8).max(1)
    }

    pub(super) fn lock(&self, inode: u32) -> &BlockLock {
        &self.locks[inode as usize]
    }

    /// The file of a volume, while it is open.
    pub(super) fn volume(&self, volume: u32) -> Option<Arc<OpenVolume>> {
        self.volume_slot(volume).clone()
    }

    pub(super) fn set_volume(&self, volume: u32, file: Option<Arc<OpenVolume>>) {
        *self.volume_slot(volume) = file;
    }

    fn volume_slot(&self, volume: u32) -> MutexGuard<'_, Option<Arc<OpenVolume>>> {
        let slot = &self.volumes[volume as usize];
        slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue that all dirty blocks of a volume are in (§5.3.1).
    pub(super) fn dirty_of(&self, volume: u32) -> &DirtyQueue {
        &self.dirty[volume as usize % self.dirty.len()]
    }

    /// Hands a dirty block on, and wakes the flusher above the watermark (Figure 10).
    pub(super) fn enqueue_dirty(&self, volume: u32, inode: u32) {
        let dirty = self.dirty_of(volume);
        dirty.queue.enqueue(inode);
        if dirty.queue.len() > dirty.watermark {
            dirty.flusher.wake();
        }
    }

    /// Takes a free block; waits for the stages where there is none.
    pub(super) fn take_free(&self) -> io::Result<u32> {
        self.check()?;
        let mut is_waiting = false;
        let inode = self.free.dequeue(|| {
            if !std::mem::replace(&mut is_waiting, true) {
                add(&self.counted.waits_for_free, 1);
            }
            self.check()?;
            self.make_room()
        })?;
        if self.free.len() < self.free_low() {
            self.reclaimer.wake();
        }
        Ok(inode)
    }

    /// Has all stages run: their threads, or this one.
    fn make_room(&self) -> io::Result<()> {
        if !self.options.background {
            return self.run_stages();
        }
        self.reclaimer.wake();
        // Below their watermarks, too: what is clean may be what this writer holds.
        self.dirty.iter().for_each(|dirty| dirty.flusher.wake());
        Ok(())
    }

    /// A turn of every stage, on this thread.
    pub(super) fn run_stages(&self) -> io::Result<()> {
        let _alone = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        if self.reclaim(self.free_low()) == 0 {
            for dirty in &self.dirty {
                self.flush(dirty)?;
            }
            self.reclaim(self.free_low());
        }
        Ok(())
    }

    /// # Errors
    /// A stage failed.
    pub(super) fn check(&self) -> io::Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(why) => Err(io::Error::other(format!(
                "the buffer stopped, and keeps what it has until it is opened again: {why}"
            ))),
        }
    }

    /// From now on every write fails.
    pub(super) fn fail(&self, error: &io::Error) {
        let _ = self.failure.set(error.to_string());
    }

    /// The size of a volume that is durable in the region.
    pub(super) fn durable_size(volume: &OpenVolume) -> u64 {
        // Acquire: pairs with the writer's store after its fence.
        volume.size_bytes.load(Ordering::Acquire)
    }
}
