//! How an actor reads a pool, and what it notes about the answers.

use crate::lost::Loss;
use crate::oracle::{Operation, Outcome};
use crate::pool_actor::PoolActor;

impl PoolActor<'_> {
    /// A read of one block, or of several at one moment.
    pub(crate) fn read(
        &self,
        volume: usize,
        block: usize,
        count: usize,
    ) -> Result<(), forebay::Error> {
        let block_bytes = self.shape.block_bytes;
        let mut buffer = vec![0; block_bytes * count];
        let call = self.world.call(Operation::Read {
            block: self.shape.block_index(volume, block),
            found: Vec::new(),
        });
        let handle = self.pool.volume(volume);
        let before = self.losses(volume, block..block + count);
        let size_bytes = handle.size_bytes();
        let done = if count == 1 {
            handle.read(block as u64, &mut buffer)
        } else {
            handle.read_atomic(block as u64, &mut buffer)
        };
        let first = self.shape.block_index(volume, block);
        let is_unsettled = self.world.is_unsettled(first..first + count);
        let (outcome, found) = match &done {
            // It proves nothing then.
            Ok(_) if is_unsettled => (Outcome::Refused, Vec::new()),
            Ok(_) => (
                Outcome::Done,
                (block..)
                    .zip(buffer.chunks(block_bytes))
                    .map(|(block, bytes)| bytes[..self.shape.bytes_of(size_bytes, block)].to_vec())
                    .collect(),
            ),
            Err(_) => (Outcome::Refused, Vec::new()),
        };
        self.world.returned(call, outcome, found);
        // Through a handle of a volume that another thread detached nothing is read, lost or not.
        let is_of_detached = |error: &forebay::Error| {
            matches!(error.kind(), forebay::ErrorKind::Volume(_)) && self.pool.has_detached()
        };
        let failed = done.as_ref().err().filter(|error| !is_of_detached(error));
        if let Some(error) = failed.filter(|_| self.world.has_lost_pages()) {
            let after = self.losses(volume, block..block + count);
            let mut losses = before.iter().chain(&after);
            let is_excused = losses.any(|loss| loss.excuses(error))
                || (first..)
                    .zip(&after)
                    .enumerate()
                    .any(|(at, (block, after))| {
                        // It may have been written back since the read found it lost.
                        let was_clean = before.get(at) == Some(&Loss::Copy);
                        let was_dirty = !was_clean && self.world.was_dirty(block);
                        was_dirty && *after == Loss::Copy && Loss::OnlyCopy.excuses(error)
                    });
            if !is_excused {
                panic!("volume {volume} blocks {block}+{count}: {error}, but {after:?} is lost");
            }
        }
        done.map(drop)
    }

    /// A read of several blocks of the first volume, each at some moment.
    pub(crate) fn read_range(&self, block: usize, count: usize) -> Result<(), forebay::Error> {
        let block_bytes = self.shape.block_bytes;
        let first = self.shape.block_index(0, block);
        let begin = |block| {
            self.world.call(Operation::Read {
                block,
                found: Vec::new(),
            })
        };
        let calls: Vec<usize> = (first..first + count).map(begin).collect();
        let mut buffer = vec![0; block_bytes * count];
        let done = self.pool.volume(0).read(block as u64, &mut buffer);
        for ((index, call), bytes) in (first..).zip(calls).zip(buffer.chunks(block_bytes)) {
            // It proves nothing while the block is being zeroed.
            let is_told = done.is_ok() && !self.world.is_unsettled(index..index + 1);
            match is_told {
                true => self
                    .world
                    .returned(call, Outcome::Done, vec![bytes.to_vec()]),
                false => self.world.returned(call, Outcome::Refused, Vec::new()),
            }
        }
        done
    }

    /// What is lost of blocks, if pages are.
    fn losses(&self, volume: usize, blocks: std::ops::Range<usize>) -> Vec<Loss> {
        let lost = self.world.lost_pages();
        if lost.iter().all(Vec::is_empty) {
            return Vec::new();
        }
        let handle = self.pool.volume(volume);
        let loss = |block| Loss::of(self.shape, &handle, block as u64, &lost);
        blocks.map(loss).collect()
    }
}
