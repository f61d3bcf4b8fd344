//! A round: blocks are picked, copied out, written in the order of the disk, synced and settled.

use std::sync::{Mutex, MutexGuard};

use forebay::unstable::plan;
use forebay::{Error, Result};
use forebay_pmem::lock_or_yield;

use super::level::{Level, Watermarks};
use super::wakeup::Wakeup;
use crate::Engine;
use crate::mutants::{Mutant, mutated};
use crate::shared::Disk;

/// What a round is to do about a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// So many of the coldest blocks are to go, whatever they are.
    Coldest(usize),
    /// So many of the coldest clean blocks are to go.
    ColdestClean(usize),
    /// So many dirty blocks are to be clean, the coldest first.
    Clean(usize),
    /// All dirty blocks are to be clean.
    CleanAll,
}

/// How a picked block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The disk had it before.
    Clean,
    /// The disk lacks it.
    Dirty,
    /// The disk has, durably, what it was when it was copied out.
    OnDisk,
}

/// A block of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picked {
    /// Its number on the disk.
    pub(crate) block: u64,
    /// Where the engine has it.
    pub(crate) place: u32,
    /// Of the pool's number the engine knows the meaning.
    pub(crate) pool: usize,
    /// It is to go.
    pub(crate) leaves: bool,
    pub(crate) standing: Standing,
}

/// What came of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Blocks that went, or are clean now.
    pub(crate) done: u64,
    /// Blocks that would be, if no thread had changed them.
    pub(crate) changed: u64,
}

/// An engine that the cleaner can work on. Each method takes the engine's mutex by itself, where it needs it.
pub(crate) trait Cleanable: Engine {
    /// The fault that a block counts as clean that was written again during the round.
    const REWRITE_IGNORED: Mutant;
    /// The fault that blocks count as clean before the disk has them durably.
    const CLEAN_BEFORE_SYNC: Mutant;

    /// Its cleaner; there is one where this trait is used.
    fn cleaner(&self) -> &Cleaner;

    /// Its disk.
    fn disk(&self) -> &Disk;

    /// How its pools stand, by their numbers.
    fn levels(&self) -> Vec<Level>;

    /// Picks blocks for the goals and claims them.
    fn pick(&self, goals: &[(usize, Goal)]) -> Vec<Picked>;

    /// Copies the newest bytes of picked dirty blocks out, one behind the other, each in its place. Of each: `Corrupt`
    /// where the medium lost it, and it stays dirty.
    fn copy_out(&self, picked: &[Picked], out: &mut [u8]) -> Vec<Result<()>>;

    /// Ends a round: of the picked blocks that did not change, those that the disk has are clean, and those go that
    /// are to leave. The others are as they were.
    ///
    /// # Errors
    /// The medium's.
    fn settle(&self, picked: &[Picked]) -> Result<Settled>;
}

/// Blocks that are copied out under the mutex without a break: some tens of microseconds from slow memory. Clients go in
/// between, and a round does not have to wait for one of them at every block.
const COPIED_AT_ONCE: usize = 16;

/// What a round works with; held throughout one.
#[derive(Default)]
pub(crate) struct Round {
    buffer: Vec<u8>,
}

/// What came of a round, and the first error of the disk or of a block that could not be copied out.
#[derive(Default)]
pub(super) struct Outcome {
    settled: Settled,
    error: Option<Error>,
}

impl Outcome {
    /// Whether there is less to do now, or would be if no thread had changed anything.
    pub(super) fn has_progressed(&self) -> bool {
        self.settled.done + self.settled.changed > 0
    }

    /// The error.
    pub(super) fn into_result(self) -> Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    fn note(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }
}

/// The cleaner of one engine.
pub(crate) struct Cleaner {
    pub(super) marks: Watermarks,
    pub(super) wakeup: Wakeup,
    round: Mutex<Round>,
}

impl Cleaner {
    /// A cleaner that keeps to the marks.
    pub(crate) fn new(marks: Watermarks) -> Cleaner {
        Cleaner {
            marks,
            wakeup: Wakeup::default(),
            round: Mutex::default(),
        }
    }

    /// No other round runs while this is held. Taken before the engine's mutex, never after it.
    pub(crate) fn begin_round(&self) -> MutexGuard<'_, Round> {
        lock_or_yield(&self.round)
    }

    /// Runs a round for the goals.
    ///
    /// # Errors
    /// The medium's.
    pub(super) fn run<C: Cleanable>(
        &self,
        cache: &C,
        round: &mut Round,
        goals: &[(usize, Goal)],
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut picked = cache.pick(goals);
        if picked.is_empty() {
            return Ok(outcome);
        }
        let is_dirty = |&number: &usize| picked[number].standing == Standing::Dirty;
        let mut dirty: Vec<usize> = (0..picked.len()).filter(is_dirty).collect();
        dirty.sort_unstable_by_key(|&number| picked[number].block);
        let mut written = Vec::with_capacity(dirty.len());
        for some in dirty.chunks(plan::round_blocks(cache.block_bytes())) {
            written.extend(write_some(
                cache,
                &mut round.buffer,
                &picked,
                some,
                &mut outcome,
            ));
        }
        if !written.is_empty() && !mutated(C::CLEAN_BEFORE_SYNC) {
            // One sync for all of it. Only then may anything count on the disk.
            if let Err(error) = cache.disk().sync() {
                outcome.note(error);
                written.clear();
            }
        }
        for number in written {
            picked[number].standing = Standing::OnDisk;
        }
        outcome.settled = cache.settle(&picked)?;
        Ok(outcome)
    }
}

/// Copies blocks out and writes them to the disk; returns those that were written.
fn write_some<C: Cleanable>(
    cache: &C,
    buffer: &mut Vec<u8>,
    picked: &[Picked],
    some: &[usize],
    outcome: &mut Outcome,
) -> Vec<usize> {
    let block_bytes = cache.block_bytes();
    buffer.resize(buffer.len().max(some.len() * block_bytes), 0);
    let mut copied = Vec::with_capacity(some.len());
    for numbers in some.chunks(COPIED_AT_ONCE) {
        let ones: Vec<Picked> = numbers.iter().map(|&number| picked[number]).collect();
        let first = copied.len() * block_bytes;
        let out = &mut buffer[first..first + ones.len() * block_bytes];
        let mut from = first;
        for (&number, result) in numbers.iter().zip(cache.copy_out(&ones, out)) {
            match result {
                Ok(()) => {
                    // The place of one that was lost is the next one's.
                    buffer.copy_within(from..from + block_bytes, copied.len() * block_bytes);
                    copied.push(number);
                }
                Err(error) => outcome.note(error),
            }
            from += block_bytes;
        }
    }
    let numbers: Vec<u64> = copied.iter().map(|&number| picked[number].block).collect();
    if let Err(error) = cache.disk().write_copied(&numbers, buffer) {
        outcome.note(error);
        copied.clear();
    }
    copied
}
