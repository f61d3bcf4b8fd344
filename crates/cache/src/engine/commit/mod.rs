//! The commit: one record, one fence, then publish.
//!
//! Here is the only way in which a mapping with a record changes: writes, deltas, appends, zeroes and
//! evictions all pass `commit`, or `commit_whole` and `commit_one` where they are whole blocks. The
//! steps carry the numbers of `docs/inside/protocol.md`.

mod appended;
mod one;
mod whole;

use crate::engine::Engine;
use crate::engine::change::{Action, Change, Outcome, record_bound};
use crate::engine::plan::{Effect, Scratch, push_elements};
use crate::error::{Error, Result, Slim};
use crate::log::lanes::{HeldLane, thread_hint};
use crate::log::record::{self};
use crate::media::encode_partial_len;
use crate::media::entry::Entry;
use crate::media::layout::LINE_BYTES;
use crate::mutants::{Mutant, mutated};
use crate::table::index::Bucket;
use crate::table::slots::SlotCache;
use crate::table::states::Dirtied;

pub(crate) use appended::{Append, WordPatch};
pub(crate) use whole::{Block, Source};

impl Engine {
    /// Commits changes that bring no new blocks.
    pub(crate) fn commit_mappings(&self, changes: &[Change]) -> Slim<Outcome> {
        let slot_cache = self.table.slots().slot_cache(thread_hint());
        self.commit(changes, &[], &slot_cache, &mut Scratch::default())
    }

    /// Commits all changes or none. On `Done` they are durable and published; slots named by
    /// `Block` and `Fresh` actions belong to the pool then, otherwise still to the caller. Slots
    /// without a mapping go into `slot_cache`, which is held throughout: nothing that could make the
    /// non-temporal stores wait happens between them and their fence.
    pub(crate) fn commit(
        &self,
        changes: &[Change],
        data: &[u8],
        slot_cache: &SlotCache<'_>,
        scratch: &mut Scratch,
    ) -> Slim<Outcome> {
        self.writable()?;
        if changes.is_empty() {
            return Ok(Outcome::Done(0));
        }
        let lane = self.hold_lane(record_bound(changes))?;
        scratch.stripes.clear();
        let stripes = changes.iter().map(|change| change.bucket.stripe);
        scratch.stripes.extend(stripes);
        self.table.lock_stripes(&mut scratch.stripes);
        let outcome = self.commit_locked(changes, data, &lane, scratch, slot_cache);
        let Ok(Outcome::Done(_)) = outcome else {
            self.table.unlock_stripes(&scratch.stripes);
            return outcome;
        };
        // Step 8, the slots: their last mapping's removal is fenced (I2), readers were told.
        if !mutated(Mutant::SlotFreedBeforeFence) {
            self.release_freed(scratch, slot_cache);
        }
        outcome
    }

    /// Step 2. No lock is held while a checkpoint makes room.
    #[inline]
    fn hold_lane(&self, bytes: u64) -> Slim<HeldLane<'_>> {
        let lane = match self.log.lanes().try_hold(bytes) {
            Some(lane) => lane,
            None => self.make_log_room(bytes)?,
        };
        if lane.follows_full_one {
            self.lane_filled();
        }
        Ok(lane)
    }

    #[cold]
    fn make_log_room(&self, bytes: u64) -> Slim<HeldLane<'_>> {
        loop {
            if self.log.lanes().are_worn_out(bytes) {
                return Err(Box::new(Error::WornOut { path: self.path() }));
            }
            let mut state = forebay_pmem::lock_or_yield(&self.checkpoint);
            // Another thread's checkpoint may have made room meanwhile. With this lock held, a lane may
            // be waited for: holders of lanes, and of the stripes those wait for, never wait for a checkpoint.
            if let Some(lane) = self.log.lanes().try_hold(bytes) {
                return Ok(lane);
            }
            self.checkpoint_as(&mut state)?;
        }
    }

    /// To be asked with lane and locks held. A thread that held one of them before may have released it
    /// because its fence failed: a record of ours would prove to recovery that it did not.
    #[inline]
    pub(crate) fn still_writable(&self) -> Result<()> {
        if mutated(Mutant::CommittedAfterFailedFence) {
            return Ok(());
        }
        self.writable()
    }

    /// Steps 4 to 8 with the locks held. Only on `Done` with an effect they are released.
    fn commit_locked(
        &self,
        changes: &[Change],
        data: &[u8],
        lane: &HeldLane<'_>,
        scratch: &mut Scratch,
        slot_cache: &SlotCache<'_>,
    ) -> Slim<Outcome> {
        self.still_writable()?;
        if let Some(outcome) = self.plan(changes, scratch)? {
            return Ok(outcome);
        }
        if scratch.steps.is_empty() {
            self.table.unlock_stripes(&scratch.stripes);
            return Ok(Outcome::Done(0));
        }
        let sequence = self.log.draw(lane);
        // Step 5.
        self.stream_fresh(changes, data, scratch);
        self.stage_appends(changes, scratch);
        if mutated(Mutant::DeltaBeforeFence) {
            self.apply_in_place(changes, scratch);
        }
        self.stream_record(lane, sequence, scratch);
        // Step 6. A crash before the fence leaves the transaction whole or absent. If it fails
        // nothing is published; the pool is poisoned, so no commit can build on what may be lost, and
        // the lane's `in_flight` mark stays: no watermark and no checkpoint passes the sequence.
        let is_append = |change: &Change| matches!(change.action, Action::Append { .. });
        if !(mutated(Mutant::AppendPublishedBeforeFence) && changes.iter().any(is_append)) {
            if mutated(Mutant::SlotFreedBeforeFence) {
                self.release_freed(scratch, slot_cache);
            }
            self.persist(lane, scratch.record.len() as u64)?;
        }
        // Steps 7 and 8.
        self.publish(changes, lane, scratch);
        Ok(Outcome::Done(scratch.steps.len()))
    }

    /// Part of step 5: fresh blocks go into their private slots; with their CRCs known the entries,
    /// and so the record's elements, are complete.
    fn stream_fresh(&self, changes: &[Change], data: &[u8], scratch: &mut Scratch) {
        for number in 0..scratch.steps.len() {
            let step = &mut scratch.steps[number];
            let change = &changes[step.change];
            if let Action::Fresh {
                slot,
                at,
                valid_bytes,
            } = change.action
            {
                let block = &data[at..at + self.block_bytes()];
                let crc = match valid_bytes {
                    None => self.media().stream_slot(slot, block),
                    Some(valid) => self.stream_partial(slot, block, valid),
                };
                let entry = Entry::data(change.key, slot, crc);
                step.effect.entry = valid_bytes.map_or(entry, |_| entry.as_partial());
            }
            if let Action::Packed {
                slot, at, packing, ..
            } = change.action
            {
                let block = &data[at..at + self.block_bytes()];
                self.media().stream_packed(slot, block, packing);
            }
            let (entry, index) = (step.effect.entry, step.effect.index);
            push_elements(&change.action, entry, index, scratch);
        }
    }

    /// Streams the lines of a block that count: those with valid bytes, and the trailer's. Returns the
    /// check of the valid bytes.
    fn stream_partial(&self, slot: u32, block: &[u8], valid: usize) -> u32 {
        let line = LINE_BYTES as usize;
        let trailer = self.media().trailer_offset() / line * line;
        let end = valid.next_multiple_of(line).min(trailer);
        self.media().stream_slot_lines(slot, 0, &block[..end]);
        self.media()
            .stream_slot_lines(slot, trailer, &block[trailer..]);
        self.media().crc(&block[..valid])
    }

    /// Part of step 5: appended bytes go straight behind the valid ones, where no reader looks (I1).
    fn stage_appends(&self, changes: &[Change], scratch: &Scratch) {
        for step in &scratch.steps {
            if let Action::Append { at, bytes } = &changes[step.change].action {
                let slot = step.effect.entry.slot().expect("partial blocks have slots");
                let line = LINE_BYTES as usize;
                let start = at / line * line;
                let end = (at + bytes.len()).next_multiple_of(line);
                assert!(
                    at + bytes.len() <= self.media().trailer_offset(),
                    "the trailer stays free"
                );
                let mut lines = vec![0; end - start];
                self.media().read_slot(slot, start, &mut lines);
                lines[at - start..at - start + bytes.len()].copy_from_slice(bytes);
                self.media().stream_slot_lines(slot, start, &lines);
            }
        }
    }

    fn stream_record(&self, lane: &HeldLane<'_>, sequence: u64, scratch: &mut Scratch) {
        let header = self.log.header(lane, sequence);
        record::encode(
            &header,
            &scratch.elements,
            &scratch.payload,
            &mut scratch.record,
        );
        let offset = self.log.record_offset(self.media(), lane);
        self.media().main().stream(offset, &scratch.record);
    }

    /// Step 6. After it the transaction survives every crash. The record has so many bytes.
    #[inline]
    fn persist(&self, lane: &HeldLane<'_>, record_bytes: u64) -> Result<()> {
        if mutated(Mutant::StrictWordBeforeFence) && self.log.is_strict() {
            self.log.store_commit_word(self.media(), lane, record_bytes);
            return self.fence();
        }
        if !mutated(Mutant::CommitFenceRemoved) {
            // Orders the blocks, the appended tails and the record before everything that follows:
            // the entries, the reuse of the old slots, the acknowledgement.
            self.fence()?;
        }
        if self.log.is_strict() {
            self.log.store_commit_word(self.media(), lane, record_bytes);
            // Orders the commit word before the acknowledgement.
            self.fence()?;
        }
        Ok(())
    }

    /// Steps 7 and 8: entries, index, in-place bytes; then the locks are released.
    fn publish(&self, changes: &[Change], lane: &HeldLane<'_>, scratch: &mut Scratch) {
        for stripe in &scratch.stripes {
            self.table.index().begin_change(*stripe);
        }
        for step in &scratch.steps {
            self.publish_entry(changes[step.change].bucket, &step.effect);
        }
        if !mutated(Mutant::DeltaBeforeFence) {
            self.apply_in_place(changes, scratch);
        }
        // From here a checkpoint may pass the sequence (I4): it reads the record to know what to
        // flush. Nothing above is a locked operation: it would wait for the fence, whereas so the
        // thread's next steps overlap with it.
        lane.publish(scratch.record.len() as u64);
        for stripe in &scratch.stripes {
            self.table.index().end_change_and_unlock(*stripe);
        }
    }

    #[inline]
    fn publish_entry(&self, bucket: Bucket, effect: &Effect) {
        if effect.entry.slot_half() == 0 {
            return self.publish_tombstone(bucket, effect.index);
        }
        self.publish_block(bucket, effect.index, effect.entry, effect.fresh);
    }

    #[inline]
    fn publish_block(&self, bucket: Bucket, index: u32, entry: Entry, fresh: bool) {
        let dirtied = self.table.install(bucket, index, entry, fresh);
        if fresh {
            self.replacement.on_insert(index);
        } else {
            self.replacement.on_hit(index);
        }
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

    /// The keys leave their old slots.
    fn release_freed(&self, scratch: &Scratch, slot_cache: &SlotCache<'_>) {
        for slot_ref in scratch.steps.iter().filter_map(|step| step.effect.freed) {
            self.table.release_slot(slot_ref, slot_cache);
        }
    }

    /// Deltas go into their slots after the fence of their redo bytes (I8); partial blocks get their
    /// valid length. The record tells the next checkpoint which lines these are.
    fn apply_in_place(&self, changes: &[Change], scratch: &Scratch) {
        for step in &scratch.steps {
            let Some(slot) = step.effect.entry.slot() else {
                continue;
            };
            match &changes[step.change].action {
                Action::Delta { patches, .. } => {
                    let references = &self.table.references();
                    assert!(
                        references.is_sole(slot) || mutated(Mutant::SharedSlotPatched),
                        "a slot that is changed in place has one holder"
                    );
                    references.mark_patched(slot);
                    for patch in patches {
                        self.media().store_slot(slot, patch.offset, &patch.bytes);
                    }
                }
                Action::Append { at, bytes } => {
                    let trailer = encode_partial_len(at + bytes.len());
                    self.media()
                        .store_slot(slot, self.media().trailer_offset(), &trailer);
                }
                _ => {}
            }
        }
    }
}
