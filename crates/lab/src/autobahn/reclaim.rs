//! The reclaim stage (§4.3.3): clean blocks become free, oldest first.

use super::block_lock::Holder;
use super::counts::add;
use super::media::State;
use super::pipeline::Pipeline;

impl Pipeline {
    /// Makes clean blocks free until there are `wanted` of them, or none is clean. A block that was written again
    /// meanwhile goes back to the dirty ones. Returns how many became free.
    pub(super) fn reclaim(&self, wanted: i64) -> u64 {
        let mut left = self.clean.len();
        let mut reclaimed = 0;
        while left > 0 && self.free.len() < wanted {
            left -= 1;
            let inode = self.clean.dequeue_own();
            // Looked at before the lock is taken: a writer that meets the reclaimer gives the block up, which it may
            // only where it is clean.
            if self.media.state(inode) == Some(State::Dirty) {
                self.hand_back(inode);
                continue;
            }
            if !self.lock(inode).try_lock(Holder::Reclaimer) {
                // Skipped, as §5.1 says: to the end.
                self.clean.enqueue(inode);
                continue;
            }
            if self.media.state(inode) == Some(State::Dirty) {
                self.lock(inode).unlock();
                self.hand_back(inode);
                continue;
            }
            self.media.reset(inode);
            if self.options.as_printed {
                self.media.flush_inode(inode);
            }
            self.lock(inode).unlock();
            self.free.enqueue(inode);
            reclaimed += 1;
        }
        add(&self.counted.reclaimed_blocks, reclaimed);
        reclaimed
    }

    /// A dirty block that is not in a dirty queue.
    fn hand_back(&self, inode: u32) {
        match self.media.inode(inode).volume {
            Some(volume) => self.enqueue_dirty(volume, inode),
            // A file that was closed keeps no dirty block.
            None => self.clean.enqueue(inode),
        }
    }
}
