//! The commit: one record, one fence, then publish.
//!
//! Every change of a mapping that needs a record happens here: writes, deltas, appends, zeroes and
//! evictions are batches of one of four shapes (`shape`). Each batch goes through the same states, and a
//! state can be made only from the one before it. The steps carry the numbers of
//! `docs/inside/protocol.md`; step 1, taking private slots, is the caller's.

mod appended;
mod changes;
mod one;
mod shape;
#[cfg(test)]
mod tests;
mod whole;

use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::engine::plan::Effect;
use crate::error::{ErrorKind, Result};
use crate::log::lanes::HeldLane;
use crate::media::entry::Entry;
use crate::mutants::{Mutant, mutated};
use crate::table::index::Bucket;
use crate::table::states::Dirtied;
use shape::{Shape, StripeSet, Unfinished};

pub(crate) use appended::{Append, WordPatch};
pub(crate) use one::OneBlock;
pub(crate) use whole::{Block, NO_SLOT, Source};

/// A batch, a lane with room for its record, and its stripes, which are locked.
struct Batch<'b, 'e, S: Shape> {
    engine: &'e Engine,
    lane: &'b HeldLane<'e>,
    stripes: S::Stripes,
    shape: S,
}

// The states hold the batch by reference, and no field of it has a destructor: moving it, or keeping it for
// a destructor, would write it to the stack and read it back, and a read behind a block's stores waits for
// all of them.

/// Steps 2 and 3 are done: the lane is held and the keys are locked.
struct Locked<'b, 'l, 'e, S: Shape>(&'b mut Batch<'l, 'e, S>);
/// Each key's new entry is chosen.
struct Planned<'b, 'l, 'e, S: Shape>(&'b mut Batch<'l, 'e, S>);
/// What came of the plan.
enum Planning<'b, 'l, 'e, S: Shape> {
    Ready(Planned<'b, 'l, 'e, S>),
    /// There is nothing to commit, or it cannot be; the locks are released.
    Ended(Outcome),
}
/// Steps 4 and 5 are done: the sequence is drawn and everything is streamed, the record last; the number is
/// its length in bytes. A crash from here on leaves the batch whole or absent.
struct Sequenced<'b, 'l, 'e, S: Shape>(&'b mut Batch<'l, 'e, S>, u64);
/// Step 6 is done: the batch survives every crash.
struct Durable<'b, 'l, 'e, S: Shape>(&'b mut Batch<'l, 'e, S>, u64);

impl Engine {
    /// Steps 2 to 8. Unless it returns `Done`, nothing has changed. If the fence itself fails, it is unknown
    /// whether the batch is durable, and the pool is poisoned.
    #[inline(always)]
    fn commit_batch<S: Shape>(&self, mut shape: S) -> Result<Outcome> {
        // Steps 2 and 3. No lock is held while a checkpoint makes room. The lane is released last.
        let lane = self.hold_lane(shape.record_bytes())?;
        let unfinished = Unfinished::new(self);
        let mut batch = Batch {
            engine: self,
            lane: &lane,
            stripes: shape.stripes(),
            shape,
        };
        let outcome = batch.lock().commit();
        unfinished.finish();
        self.have_reclaimed_in_time();
        outcome
    }
}

impl<'l, 'e, S: Shape> Batch<'l, 'e, S> {
    #[inline(always)]
    fn lock<'b>(&'b mut self) -> Locked<'b, 'l, 'e, S> {
        let index = self.engine.table.index();
        for stripe in self.stripes.locks(index) {
            stripe.lock();
        }
        Locked(self)
    }

    /// Releases the locks without a change.
    #[inline(always)]
    fn unlock(&self) {
        let index = self.engine.table.index();
        for stripe in self.stripes.locks(index) {
            stripe.unlock();
        }
    }
}

impl<'b, 'l, 'e, S: Shape> Locked<'b, 'l, 'e, S> {
    #[inline(always)]
    fn commit(self) -> Result<Outcome> {
        match self.plan()? {
            Planning::Ended(outcome) => Ok(outcome),
            Planning::Ready(planned) => Ok(planned.stream().persist()?.publish()),
        }
    }

    #[inline(always)]
    fn plan(self) -> Result<Planning<'b, 'l, 'e, S>> {
        let Batch { engine, shape, .. } = &mut *self.0;
        let ended = match engine.check_still_writable() {
            Ok(()) => shape.plan(engine),
            Err(error) => Err(error),
        };
        if !matches!(ended, Ok(None)) {
            self.0.unlock();
        }
        Ok(match ended? {
            Some(outcome) => Planning::Ended(outcome),
            None => Planning::Ready(Planned(self.0)),
        })
    }
}

impl<'b, 'l, 'e, S: Shape> Planned<'b, 'l, 'e, S> {
    /// Step 4 needs all locks and all chosen entries, so that the sequences of one key, and of one position
    /// of the table, rise in the log in the order of the changes. It comes before the first non-temporal
    /// store of step 5, because its locked operations would wait for that store.
    #[inline(always)]
    fn stream(self) -> Sequenced<'b, 'l, 'e, S> {
        let Batch {
            engine,
            lane,
            shape,
            ..
        } = &mut *self.0;
        let sequence = engine.log.draw(lane);
        let record_bytes = shape.stream(engine, lane, sequence);
        if mutated(Mutant::DeltaBeforeFence) {
            shape.apply_in_place(engine);
        }
        Sequenced(self.0, record_bytes)
    }
}

impl<'b, 'l, 'e, S: Shape> Sequenced<'b, 'l, 'e, S> {
    /// Step 6: **the fence**. It orders everything streamed, including the record, before the publication,
    /// the reuse of the old slots, and the acknowledgement. If it fails, nothing is published. The pool is
    /// poisoned, so that no commit can build on what may be lost, and the lane's `in_flight` mark stays, so
    /// that no watermark and no checkpoint passes the sequence.
    #[inline(always)]
    fn persist(self) -> Result<Durable<'b, 'l, 'e, S>> {
        let Batch {
            engine,
            lane,
            shape,
            ..
        } = &*self.0;
        if !(mutated(Mutant::AppendFenceRemoved) && shape.appends()) {
            if mutated(Mutant::SlotFreedBeforeFence) {
                shape.release_freed(engine);
            }
            if let Err(failed) = engine.fence_record(lane, self.1) {
                self.0.unlock();
                return Err(failed);
            }
        }
        Ok(Durable(self.0, self.1))
    }
}

impl<S: Shape> Durable<'_, '_, '_, S> {
    /// Steps 7 and 8: stores the entries and the bytes in place, then releases the locks, and last the slots
    /// that the keys no longer use: the removal of their last mapping is fenced (I2), and readers see the
    /// new version.
    #[inline(always)]
    fn publish(self) -> Outcome {
        let Durable(batch, record_bytes) = self;
        let Batch {
            engine,
            lane,
            stripes,
            shape,
        } = batch;
        let index = engine.table.index();
        // From here until the unlock, readers of these stripes wait.
        for stripe in stripes.locks(index) {
            stripe.begin_change();
        }
        shape.publish(engine);
        if !mutated(Mutant::DeltaBeforeFence) {
            shape.apply_in_place(engine);
        }
        // From here a checkpoint may pass the sequence (I4); it reads the record to learn what to flush.
        // For a block that was dirty before, nothing above is a locked operation. Such an operation would
        // wait for the fence; without one, the thread's next steps overlap with the fence.
        lane.publish(record_bytes);
        for stripe in stripes.locks(index) {
            stripe.end_change_and_unlock();
        }
        shape.note(engine);
        if !mutated(Mutant::SlotFreedBeforeFence) {
            shape.release_freed(engine);
        }
        Outcome::Done(shape.effects())
    }
}

impl Engine {
    /// Takes a lane with room for a record of `bytes` bytes.
    #[inline(always)]
    fn hold_lane(&self, bytes: u64) -> Result<HeldLane<'_>> {
        match self.log.lanes().try_hold_preferred(bytes) {
            Some(lane) => Ok(lane),
            None => self.hold_any_lane(bytes),
        }
    }

    #[cold]
    fn hold_any_lane(&self, bytes: u64) -> Result<HeldLane<'_>> {
        let (lane, follows_full_one) = match self.log.lanes().try_hold_any(bytes) {
            Some(held) => held,
            None => self.make_log_room(bytes)?,
        };
        if follows_full_one {
            self.lane_filled();
        }
        Ok(lane)
    }

    fn make_log_room(&self, bytes: u64) -> Result<(HeldLane<'_>, bool)> {
        loop {
            if self.log.lanes().are_worn_out(bytes) {
                return Err(ErrorKind::WornOut { path: self.path() }.into());
            }
            let mut state = forebay_pmem::lock_or_yield(&self.checkpoint);
            // Another thread's checkpoint may have made room meanwhile. Waiting for a lane with this lock
            // held is safe: a thread that holds a lane, or a stripe that such a thread waits for, never
            // waits for a checkpoint.
            if let Some(held) = self.log.lanes().try_hold_any(bytes) {
                return Ok(held);
            }
            self.checkpoint_locked(&mut state)?;
        }
    }

    /// Must be called with lane and locks held. The thread that held one of them before may have released
    /// it because its fence failed; a record of this thread would prove to recovery that it succeeded.
    #[inline]
    pub(crate) fn check_still_writable(&self) -> Result<()> {
        if mutated(Mutant::CommittedAfterFailedFence) {
            return Ok(());
        }
        self.check_writable()
    }

    /// When it returns, the record of `record_bytes` bytes and everything streamed before it survive every
    /// crash.
    #[inline(always)]
    fn fence_record(&self, lane: &HeldLane<'_>, record_bytes: u64) -> Result<()> {
        let (number, end) = (lane.number, lane.position() + record_bytes);
        if mutated(Mutant::StrictWordBeforeFence) && self.log.is_strict() {
            self.log.store_commit_word(self.media(), number, end);
            return self.fence();
        }
        if !mutated(Mutant::CommitFenceRemoved) {
            // Orders the blocks, the appended tails and the record before everything that follows:
            // the entries, the reuse of the old slots, the acknowledgement.
            self.fence()?;
        }
        if self.log.is_strict() {
            self.log.store_commit_word(self.media(), number, end);
            // Orders the commit word before the acknowledgement.
            self.fence()?;
        }
        Ok(())
    }

    #[inline]
    fn publish_entry(&self, bucket: Bucket, effect: &Effect) {
        if effect.entry.slot_half() == 0 {
            return self.publish_tombstone(bucket, effect.index);
        }
        self.publish_block(bucket, effect.index, effect.entry, effect.fresh);
    }

    #[inline(always)]
    fn publish_block(&self, bucket: Bucket, index: u32, entry: Entry, fresh: bool) {
        let dirtied = self.table.install(bucket, index, entry, fresh);
        if fresh {
            self.replacement.on_insert(index);
        } else {
            self.replacement.on_hit(index);
        }
        self.note_dirtied(dirtied);
    }

    #[inline(always)]
    fn note_dirtied(&self, dirtied: Dirtied) {
        match dirtied {
            Dirtied::First(count) => self.wakeup.dirty_rose(count),
            Dirtied::Again => {}
            Dirtied::AgainWhileDeferred => self.tallies.mine().journal_overwritten(1),
        }
    }

    fn publish_tombstone(&self, bucket: Bucket, index: u32) {
        self.table.unmap(bucket, index);
        self.replacement.on_remove(index);
        self.table.free_entry(index);
    }
}
