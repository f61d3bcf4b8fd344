//! The flush stage (§4.3.2, §5.3.1): dirty blocks go to their files, neighbours of a file in one write.

use std::io;
use std::sync::Arc;

use super::block_lock::Holder;
use super::counts::add;
use super::media::State;
use super::pipeline::{DirtyQueue, OpenVolume, Pipeline};

/// Blocks that a flusher holds at once: a writer that wants one of them waits for one sync.
const HELD_MAX: usize = 64;

/// A dirty block whose lock the flusher has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    volume: u32,
    lbn: u64,
    inode: u32,
    block: u32,
}

impl Pipeline {
    /// Brings what is in the queue now to the files, and hands it on as clean. What writers hold goes to the end of
    /// the queue.
    ///
    /// # Errors
    /// A file's, or the region's; what was to be flushed is in the queue again, and the buffer has stopped.
    pub(super) fn flush(&self, dirty: &DirtyQueue) -> io::Result<()> {
        let mut left = dirty.queue.len().max(0) as usize;
        while left > 0 {
            let held = self.hold(dirty, left.min(HELD_MAX));
            left -= left.min(HELD_MAX);
            let flushed = self.bring_to_files(&held);
            for one in &held {
                self.lock(one.inode).unlock();
                match flushed {
                    Ok(()) => self.clean.enqueue(one.inode),
                    Err(_) => dirty.queue.enqueue(one.inode),
                }
            }
            if let Err(error) = flushed {
                self.fail(&error);
                return Err(error);
            }
            if self.free.len() < self.free_low() {
                self.reclaimer.wake();
            }
        }
        Ok(())
    }

    /// Takes so many of the queue, and the locks of those that it gets, sorted by file and place.
    fn hold(&self, dirty: &DirtyQueue, blocks: usize) -> Vec<Held> {
        let mut held = Vec::with_capacity(blocks);
        for _ in 0..blocks {
            let inode = dirty.queue.dequeue_own();
            if !self.lock(inode).try_lock(Holder::Flusher) {
                // Figure 8: the writer need not enqueue it again.
                add(&self.counted.requeued_blocks, 1);
                dirty.queue.enqueue(inode);
                continue;
            }
            let found = self.media.inode(inode);
            match (found.state, found.volume) {
                (Some(State::Dirty), Some(volume)) => held.push(Held {
                    volume,
                    lbn: found.lbn,
                    inode,
                    block: found.block,
                }),
                // Its file was closed, which brought it there.
                _ => {
                    self.lock(inode).unlock();
                    self.clean.enqueue(inode);
                }
            }
        }
        held.sort_unstable();
        held
    }

    /// Writes and syncs; then the inodes say so, durably.
    fn bring_to_files(&self, held: &[Held]) -> io::Result<()> {
        for of_volume in held.chunk_by(|one, next| one.volume == next.volume) {
            let volume = self.volume(of_volume[0].volume).ok_or_else(|| {
                io::Error::other("a dirty block is of a file that nobody has open")
            })?;
            let follows = |one: &Held, next: &Held| one.lbn + 1 == next.lbn;
            for run in of_volume.chunk_by(follows) {
                let blocks: Vec<u32> = run.iter().map(|one| one.block).collect();
                self.write_run(&volume, run[0].lbn, &blocks)?;
            }
            volume.file.sync()?;
            add(&self.counted.syncs, 1);
        }
        if held.is_empty() {
            return Ok(());
        }
        for one in held {
            self.media.set_state(one.inode, State::Clean);
        }
        // Before any of them is used again: a dirty inode must not survive over another block's content.
        self.media.fence()?;
        add(&self.counted.flushed_blocks, held.len() as u64);
        Ok(())
    }

    /// Writes neighbours in one go, not beyond the file's size.
    pub(super) fn write_run(
        &self,
        volume: &Arc<OpenVolume>,
        lbn: u64,
        blocks: &[u32],
    ) -> io::Result<()> {
        let block_bytes = self.media.layout.block_bytes;
        let begin = lbn * block_bytes;
        let end = (begin + blocks.len() as u64 * block_bytes).min(Pipeline::durable_size(volume));
        if end <= begin {
            return Ok(());
        }
        let mut bytes = vec![0; (end - begin) as usize];
        for (out, block) in bytes.chunks_mut(block_bytes as usize).zip(blocks) {
            self.media.get(*block, 0, out);
        }
        volume.file.write_at(begin, &bytes)?;
        add(&self.counted.flush_writes, 1);
        Ok(())
    }
}
