//! The commit of one whole block: the steps of `commit_whole` with all that is decided in registers.

use super::whole::Block;
use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::engine::plan::Effect;
use crate::error::Slim;
use crate::log::lanes::HeldLane;
use crate::log::record::{self, padded, record_bytes};
use crate::mutants::{Mutant, mutated};
use crate::table::slots::SlotCache;

impl Engine {
    /// Commits a block; what [`Engine::commit`] says holds here.
    pub(crate) fn commit_one(
        &self,
        block: &mut Block,
        data: &[u8],
        slot_cache: &SlotCache<'_>,
    ) -> Slim<Outcome> {
        let lane = self.hold_lane(padded(record_bytes(1, 0)))?;
        self.table.index().lock(block.bucket.stripe);
        let outcome = self.commit_one_locked(block, data, &lane, slot_cache);
        if !matches!(outcome, Ok(Outcome::Done(_))) {
            self.table.index().unlock(block.bucket.stripe);
        }
        outcome
    }

    /// Steps 4 to 8 with the lock held. Only on `Done` it is released.
    #[inline]
    fn commit_one_locked(
        &self,
        block: &mut Block,
        data: &[u8],
        lane: &HeldLane<'_>,
        slot_cache: &SlotCache<'_>,
    ) -> Slim<Outcome> {
        self.still_writable()?;
        if !self.choose_entry(block)? {
            return Ok(Outcome::NoEntry);
        }
        let Effect {
            index,
            fresh,
            freed,
            ..
        } = block.effect;
        let sequence = self.log.draw(lane);
        let header = self.log.header(lane, sequence);
        // Step 5.
        let entry = self.stream_block(block, data);
        self.content.prefetch(entry.crc());
        let offset = self.log.record_offset(self.media(), lane);
        record::stream_one(self.media().main(), offset, &header, entry, index);
        // Step 6: as in `commit_locked`.
        if let (true, Some(slot_ref)) = (mutated(Mutant::SlotFreedBeforeFence), freed) {
            self.table.release_slot(slot_ref, slot_cache);
        }
        let bytes = padded(record_bytes(1, 0));
        self.persist(lane, bytes)?;
        // Steps 7 and 8: as in `publish`.
        self.table.index().begin_change(block.bucket.stripe);
        self.publish_block(block.bucket, index, entry, fresh);
        lane.publish(bytes);
        self.table
            .index()
            .end_change_and_unlock(block.bucket.stripe);
        self.note_block(entry.crc(), index, block.sketch);
        if let (false, Some(slot_ref)) = (mutated(Mutant::SlotFreedBeforeFence), freed) {
            self.table.release_slot(slot_ref, slot_cache);
        }
        Ok(Outcome::Done(1))
    }
}
