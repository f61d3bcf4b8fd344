//! Blocks leave slots of which a half is bad, and the slots are retired.
//!
//! * A slot is retired before any block leaves it, so that none comes to it afterwards.
//! * A block that the backing lacks is committed anew, as any write is, from a half that matches its
//!   check, and only if it is still what was read. One that the backing has is evicted. Until then it is in the good
//!   half alone, and the member of that one is not taken out.
//! * What cannot go now (no room, a volume that is not attached, a block in use) goes with a later turn, and a block of
//!   which no half is right stays, an error for its readers, until it is overwritten.

use super::Engine;
use super::change::{Action, Change, Outcome};
use crate::engine::plan::Scratch;
use crate::error::Result;
use crate::log::lanes::thread_hint;
use crate::media::encode_partial_len;
use crate::media::entry::Entry;
use crate::mutants::{Mutant, mutated};
use crate::table::CopiedFrom;

impl Engine {
    /// Retires slots that were found bad, and has blocks leave them. The caller holds no stripe.
    ///
    /// # Errors
    /// A fence failed.
    #[inline]
    pub(crate) fn leave_bad_places(&self) -> Result<()> {
        match self.media().has_bad_places_to_leave() {
            true => self.leave_bad_slots(),
            false => Ok(()),
        }
    }

    #[cold]
    fn leave_bad_slots(&self) -> Result<()> {
        let bad = self.retire_bad_slots();
        // Before a block leaves a place: what is free there is not used after a crash either.
        self.media().list_bad_places();
        let slots = self.table.slots();
        let is_bad = |slot: u32| bad.binary_search(&slot).is_ok();
        for index in 0..self.media().geometry.entries {
            if self.table.lies_in(self.table.entries().load(index), is_bad) {
                self.check_writable()?;
                self.leave(index, is_bad)?;
            }
        }
        let is_reused = mutated(Mutant::RetiredSlotReused);
        self.media()
            .settle_bad_places(|slot| is_reused || slots.is_gone(slot));
        // Whatever has left rests on no member alone any more.
        self.media().list_bad_places();
        Ok(())
    }

    /// Retires slots of which a half is bad; returns those in which a block may be.
    pub(super) fn retire_bad_slots(&self) -> Vec<u32> {
        let slots = self.table.slots();
        // One that no block and no thread has any more, or ever had.
        let bad = self.media().settle_bad_places(|slot| slots.is_gone(slot));
        if !bad.is_empty() && !mutated(Mutant::RetiredSlotReused) {
            bad.iter().for_each(|slot| slots.retire(*slot));
            slots.drop_retired();
        }
        bad
    }

    /// Has the block of an entry leave its slots, if they are bad and it can.
    fn leave(&self, index: u32, is_bad: impl Fn(u32) -> bool) -> Result<()> {
        let entry = self.media().sound(self.table.entries().load(index));
        let Some(entry) = entry.filter(|entry| !entry.is_free()) else {
            return Ok(());
        };
        let (key, mut block) = (entry.key(), vec![0; self.block_bytes()]);
        let bucket = self.table.bucket(key);
        let version = self.table.index().read_begin(bucket.stripe);
        if self.table.entries().load(index) != entry || !self.table.lies_in(entry.into(), is_bad) {
            return Ok(());
        }
        let copied = self.table.copy_out(entry, true, &mut block);
        let valid = self.table.valid_bytes_of(entry, &block);
        if !self.table.index().read_valid(bucket.stripe, version) {
            return Ok(());
        }
        if self.is_replaceable(index, entry.into()) {
            self.commit_mappings(&[self.eviction(entry)])?;
            return Ok(());
        }
        let (Some(valid), true) = (valid, copied != CopiedFrom::Nowhere) else {
            return Ok(());
        };
        if !self.table.live().contains(key.volume()) {
            return Ok(());
        }
        let valid_bytes = entry.is_partial().then_some(valid);
        if let Some(valid) = valid_bytes {
            let trailer = self.media().trailer_offset();
            block[trailer..].copy_from_slice(&encode_partial_len(valid));
        }
        self.commit_anew(entry, version, block, valid_bytes)
    }

    /// Commits a block that was read at this version to another slot, if there is one.
    fn commit_anew(
        &self,
        entry: Entry,
        version: crate::table::index::Version,
        block: Vec<u8>,
        valid_bytes: Option<usize>,
    ) -> Result<()> {
        let slot_cache = self.table.slots().slot_cache(thread_hint());
        let Some(slot) = slot_cache.take() else {
            self.wakeup.notify_work();
            return Ok(());
        };
        let change = Change {
            key: entry.key(),
            bucket: self.table.bucket(entry.key()),
            action: Action::Fresh {
                slot,
                at: 0,
                valid_bytes,
            },
            based_on: Some(version),
        };
        let committed = self.commit(&[change], &block, &slot_cache, &mut Scratch::default());
        match committed {
            Ok(Outcome::Done(_)) => {
                self.tallies.mine().moved(1);
                Ok(())
            }
            Ok(Outcome::Stale | Outcome::NoEntry) => {
                self.give_unused(&slot_cache, slot);
                Ok(())
            }
            // It was detached meanwhile, or a fence failed; only that matters here.
            Err(error) => {
                self.give_unused(&slot_cache, slot);
                self.check_writable().map_err(|_| error)
            }
        }
    }
}
