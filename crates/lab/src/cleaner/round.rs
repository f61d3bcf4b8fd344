//! A round: blocks are picked, copied out, written in the order of the disk, synced and settled.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use forebay::unstable::plan;
use forebay::{ErrorKind, Region, Result};
use forebay_pmem::lock_or_yield;

use super::health::Health;
use super::level::{Level, Watermarks};
use super::picked::{Goal, Outcome, Picked, Portion, Settled, Standing};
use super::wakeup::Wakeup;
use crate::Engine;
use crate::mutants::{Mutant, mutated};
use crate::shared::{Disk, check_alive};

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

    /// Its memory.
    fn region(&self) -> &Region;

    /// How its pools stand, by their numbers.
    fn levels(&self) -> Vec<Level>;

    /// Picks blocks for the goals and claims them.
    fn pick(&self, goals: &[(usize, Goal)]) -> Vec<Picked>;

    /// The positions, in an order of the engine's own, of all that is dirty now. A block keeps its position for as long as it is
    /// dirty.
    fn dirty_positions(&self) -> Range<u64>;

    /// Picks the first dirty blocks of these positions and claims them: at most so many, or the fewest that can be clean together.
    fn pick_dirty(&self, positions: Range<u64>, blocks_max: usize) -> Portion;

    /// Of picked blocks: which have been given other bytes since, or another place.
    fn have_changed(&self, picked: &[Picked]) -> Vec<bool>;

    /// Copies the newest bytes of a picked dirty block out, under the mutex.
    ///
    /// # Errors
    /// `Corrupt`: the medium lost it, and it stays dirty.
    fn copy_newest(&self, picked: &Picked, out: &mut [u8]) -> Result<()>;

    /// Ends a round: of the picked blocks that did not change, those that the disk has are clean, and those go that
    /// are to leave. The others are as they were.
    ///
    /// # Errors
    /// The medium's.
    fn settle(&self, picked: &[Picked]) -> Result<Settled>;
}

/// Blocks that are copied before it is asked which of them changed meanwhile: soon after, so that few have.
const ASKED_AT_ONCE: usize = 64;

/// What a round works with; held throughout one.
#[derive(Default)]
pub(crate) struct Round {
    buffer: Vec<u8>,
}

/// The cleaner of one engine.
pub(crate) struct Cleaner {
    pub(super) marks: Watermarks,
    pub(super) wakeup: Wakeup,
    pub(super) health: Health,
    round: Mutex<Round>,
}

impl Cleaner {
    /// A cleaner that keeps to the marks.
    pub(crate) fn new(marks: Watermarks) -> Cleaner {
        Cleaner {
            marks,
            wakeup: Wakeup::default(),
            health: Health::default(),
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
    /// The medium's; once it failed nothing is written any more, on the disk neither.
    pub(super) fn run<C: Cleanable>(
        &self,
        cache: &C,
        round: &mut Round,
        goals: &[(usize, Goal)],
    ) -> Result<Outcome> {
        check_alive(cache.region())?;
        self.carry_out(cache, round, cache.pick(goals))
    }

    /// Runs a round for the first of what is dirty at these positions; returns where the next one begins.
    ///
    /// # Errors
    /// As [`Cleaner::run`].
    pub(super) fn run_portion<C: Cleanable>(
        &self,
        cache: &C,
        round: &mut Round,
        positions: Range<u64>,
    ) -> Result<(Outcome, Option<u64>)> {
        check_alive(cache.region())?;
        let Portion { picked, next } =
            cache.pick_dirty(positions, plan::round_blocks(cache.block_bytes()));
        Ok((self.carry_out(cache, round, picked)?, next))
    }

    /// The rest of a round. Where the disk refuses a write or the sync, none of the round's blocks counts as written, the
    /// rest of them is not tried, and all are dirty as before: it may have any part of what it was given.
    fn carry_out<C: Cleanable>(
        &self,
        cache: &C,
        round: &mut Round,
        mut picked: Vec<Picked>,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        if picked.is_empty() {
            return Ok(outcome);
        }
        let is_dirty = |&number: &usize| picked[number].standing == Standing::Dirty;
        let mut dirty: Vec<usize> = (0..picked.len()).filter(is_dirty).collect();
        dirty.sort_unstable_by_key(|&number| picked[number].block);
        let mut written = Vec::with_capacity(dirty.len());
        let mut on_disk = Ok(());
        for some in dirty.chunks(plan::round_blocks(cache.block_bytes())) {
            let copied = copy_some(cache, &mut round.buffer, &picked, some, &mut outcome);
            // A commit whose fence failed meanwhile may have changed what was copied.
            check_alive(cache.region())?;
            let numbers: Vec<u64> = copied.iter().map(|&number| picked[number].block).collect();
            on_disk = cache.disk().write_copied(&numbers, &round.buffer);
            if on_disk.is_err() {
                break;
            }
            written.extend(copied);
        }
        if on_disk.is_ok() && !written.is_empty() && !mutated(C::CLEAN_BEFORE_SYNC) {
            // One sync for all of it, begun after the last write. Only then may anything count on the disk.
            on_disk = cache.disk().sync();
        }
        match on_disk {
            Ok(()) if written.is_empty() => {}
            Ok(()) => self.health.succeeded(),
            Err(error) => {
                self.health.failed(&error, Instant::now());
                outcome.has_disk_failed = true;
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

/// Copies blocks out, one behind the other; returns those that the medium has whole.
///
/// They are copied without the mutex, from where they were when they were picked. Such a copy may be torn, or of another block
/// that has the room now, but only of a block that a thread began to change since: it says so under the mutex before its first
/// store. So it is asked under the mutex afterwards, and what did change is copied again under it, one block at a time.
fn copy_some<C: Cleanable>(
    cache: &C,
    buffer: &mut Vec<u8>,
    picked: &[Picked],
    some: &[usize],
    outcome: &mut Outcome,
) -> Vec<usize> {
    let block_bytes = cache.block_bytes();
    buffer.resize(buffer.len().max(some.len() * block_bytes), 0);
    let mut copied = Vec::with_capacity(some.len());
    for numbers in some.chunks(ASKED_AT_ONCE) {
        let ones: Vec<Picked> = numbers.iter().map(|&number| picked[number]).collect();
        let first = copied.len() * block_bytes;
        let out = &mut buffer[first..first + ones.len() * block_bytes];
        let places = out.chunks_exact_mut(block_bytes);
        let copies = ones.iter().zip(places);
        let mut results: Vec<Result<()>> = copies
            .map(|(one, out)| copy_from(cache.region(), one, out))
            .collect();
        for (at, has_changed) in cache.have_changed(&ones).into_iter().enumerate() {
            if has_changed {
                let out = &mut out[at * block_bytes..][..block_bytes];
                results[at] = cache.copy_newest(&ones[at], out);
            }
        }
        let mut from = first;
        for (&number, result) in numbers.iter().zip(results) {
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
    copied
}

/// Copies what lies where a block was when it was picked.
fn copy_from(region: &Region, picked: &Picked, out: &mut [u8]) -> Result<()> {
    region.read(picked.offset, out);
    match region.has_media_error(picked.offset, out.len()) {
        false => Ok(()),
        true => Err(ErrorKind::Corrupt {
            volume: 0,
            block: picked.block,
        }
        .into()),
    }
}
