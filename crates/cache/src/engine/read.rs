//! Reading a cached block, and what is done about a bad copy.

use super::Engine;
use super::change::Outcome;
use crate::error::Result;
use crate::media::entry::{Entry, Key, RawEntry, check_of};
use crate::mutants::{Mutant, mutated};

impl Engine {
    /// Reads a whole block whose entry is at home and that no thread is changing: nearly every read
    /// of a cached block, in few instructions, so that the next one's loads start early. False
    /// only means that the caller has to take the slow path.
    #[inline]
    pub(crate) fn read_hit(&self, key: Key, out: &mut [u8], verify: bool) -> bool {
        let bucket = self.table.bucket(key);
        let stripe = self.table.index().stripe(bucket.stripe);
        let Some(version) = stripe.try_read_begin() else {
            return false;
        };
        let Some((index, raw)) = self.table.entries().find_in_line(bucket.home, key) else {
            return false;
        };
        let Some((slot, check)) = self.media().sound_plain(raw) else {
            return false;
        };
        let slot = self.media().slot_at(slot);
        if verify {
            if check_of(bucket.hash_bits, slot.read_crc(out)) != check {
                return false;
            }
        } else {
            slot.read(out);
        }
        let stands = stripe.read_valid(version) || mutated(Mutant::ReadHitVersionIgnored);
        if slot.is_lost() || !stands {
            return false;
        }
        self.replacement.on_hit(index);
        self.tallies.mine().read_hits(1);
        true
    }

    /// Copies a block out that a transaction has staged in a private slot, with this CRC.
    ///
    /// # Errors
    /// No member has it any more.
    pub(crate) fn read_staged(&self, key: Key, slot: u32, crc: u32, out: &mut [u8]) -> Result<()> {
        match self.media().read_staged(slot, crc, out) {
            true => Ok(()),
            false => Err(self.corrupt(key)),
        }
    }

    /// A cached block does not match its check. If the backing has the same bytes the copy goes;
    /// otherwise it is the only one, and the reader gets an error, never wrong bytes.
    pub(crate) fn heal(&self, index: u32, bad: RawEntry) -> Result<()> {
        let Some(entry) = self.replaceable(index, bad) else {
            self.tallies.mine().corrupt(1);
            self.tallies.mine().lost(1);
            return Err(self.corrupt(bad.key()));
        };
        if self.commit_mappings(&[self.eviction(entry)])? == Outcome::Done(1) {
            self.tallies.mine().healed(1);
        }
        Ok(())
    }

    /// Whether the backing has what this entry stands for.
    pub(crate) fn is_replaceable(&self, index: u32, bad: RawEntry) -> bool {
        self.replaceable(index, bad).is_some()
    }

    fn replaceable(&self, index: u32, bad: RawEntry) -> Option<Entry> {
        let entry = self.media().sound(bad)?;
        let is_replaceable = entry.is_clean() && !self.table.states().is_dirty(index);
        is_replaceable.then_some(entry)
    }
}
