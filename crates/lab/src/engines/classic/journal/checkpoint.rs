//! Checkpoint: the oldest transactions' blocks to their places, and the tail past them.

use std::collections::BTreeSet;

use forebay::Result;

use super::super::flashcache::Flashcache;
use super::super::layout::Tail;
use super::{Journal, blocks};
use crate::mutants::{Mutant, mutated};

impl Journal {
    /// Checkpoints everything.
    pub(in super::super) fn checkpoint_all(&mut self, cache: &mut Flashcache) -> Result<()> {
        match self.transactions.len() {
            0 => Ok(()),
            count => self.checkpoint(cache, count),
        }
    }

    /// Checkpoints so many of the oldest transactions. After an error all is as before, but that
    /// some blocks are in their places as well as in the log.
    pub(super) fn checkpoint(&mut self, cache: &mut Flashcache, count: usize) -> Result<()> {
        let numbers = self.to_place(count);
        let passed = self.transactions.range(..count);
        let freed: u64 = passed.map(|transaction| transaction.log_blocks).sum();
        let tail = Tail {
            position: (self.tail.position + freed) % self.log_blocks,
            sequence: self.tail.sequence + count as u64,
        };
        cache.check_room(numbers.iter().copied().chain([self.first]))?;
        if mutated(Mutant::ClassicTailBeforeCheckpoint) {
            self.write_tail(cache, tail)?;
        }
        for number in &numbers {
            cache.write(*number, &self.waiting[number].bytes)?;
        }
        // The blocks are durable in their places before the tail leaves their log blocks behind.
        self.write_tail(cache, tail)?;
        for number in &numbers {
            self.waiting.remove(number);
        }
        self.transactions.drain(..count);
        self.used -= freed;
        Ok(())
    }

    /// Those blocks of the oldest transactions that no younger one has, each once.
    fn to_place(&self, count: usize) -> BTreeSet<u64> {
        let passed = self.transactions.range(..count);
        let last = self.tail.sequence + count as u64 - 1;
        let numbers = passed.flat_map(|transaction| &transaction.numbers);
        let wanted = numbers.filter(|number| {
            let waiting = self.waiting.get(number);
            waiting.is_some_and(|waiting| waiting.sequence <= last)
        });
        wanted.copied().collect()
    }

    /// Writes the superblock with another tail, in place: only its tail word changes, which no power
    /// cut tears.
    pub(super) fn write_tail(&mut self, cache: &mut Flashcache, tail: Tail) -> Result<()> {
        let geometry = *cache.geometry();
        cache.write(self.first, &blocks::superblock(&geometry, tail))?;
        self.tail = tail;
        Ok(())
    }
}
