//! Repair in place: a half of a mirrored block that does not match its entry's check is made like the one that does.
//!
//! What holds of each repair:
//! * The bytes come from a copy in DRAM that matched the check of the entry that the key has at that moment. Which half
//!   that is, and whether one is wrong at all, is found out anew under the key's lock: what a reader saw before is
//!   only why it is looked at.
//! * Only bytes are written that the check covers: what a slot has behind them may be right in the other half alone, as
//!   in a base, of which other blocks need the rest.
//! * Until the lock is released the entry leads to the slot, so that it is not free, and no other key's holder may change
//!   it in place (I10): nothing else stores to these bytes. Several holders of a slot that repair it store
//!   the same.
//! * No entry and no record changes, and no version: to readers nothing has happened, and a crash finds in each line of
//!   the half what was there, which was wrong, or what is right.
//! * A half that takes no second write, or lies on a page that the medium lost, does not count any more, and the block leaves
//!   its slot (`retire`). That is no reason to refuse writes.

use super::Engine;
use crate::media::entry::{Entry, RawEntry};
use crate::media::halves::{Examined, Settled, Wrong};

/// Times that a half is written before it counts as one that cannot be repaired.
const ATTEMPTS_MAX: usize = 2;

/// How a repair ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repair {
    /// All halves are right now.
    Repaired,
    /// They were right when they were looked at under the lock.
    Right,
    /// One is still wrong, after it was written twice, or the medium lost its page: it does not count from now on.
    Unrepaired,
    /// No half is right.
    Lost,
    /// The key has no block any more, or the pool takes no more changes.
    Gone,
}

impl Engine {
    /// Copies a part of a whole block out, for a change in place. Where the halves of a mirror differ there, from the one
    /// that is right; false if neither is. The caller holds the key's lock.
    #[inline(always)]
    pub(crate) fn read_settled(
        &self,
        entry: Entry,
        slot: u32,
        offset: usize,
        out: &mut [u8],
    ) -> bool {
        self.media().read_slot(slot, offset, out);
        !self.media().is_mirrored() || self.settle_read(entry, slot, offset, out)
    }

    #[cold]
    fn settle_read(&self, entry: Entry, slot: u32, offset: usize, out: &mut [u8]) -> bool {
        let settled = self.media().settle_read(slot, offset, out, entry.crc());
        if settled == Settled::Differ {
            self.suspects.push(entry);
        }
        settled != Settled::Lost
    }

    /// A thread that holds no lock has read a block, by this entry, from another half than the one that is read first.
    #[cold]
    pub(crate) fn repair_read(&self, seen: RawEntry) {
        let Some(seen) = self.media().sound(seen) else {
            return;
        };
        crate::sync::look_hint();
        let stripe = self.table.bucket(seen.key()).stripe;
        if !self.table.index().try_lock(stripe) {
            return self.suspects.push(seen);
        }
        self.repair_locked(seen);
        self.table.index().unlock(stripe);
    }

    /// The same of a thread that holds locks: the block is repaired later.
    #[cold]
    pub(crate) fn repair_later(&self, seen: RawEntry) {
        self.media()
            .sound(seen)
            .into_iter()
            .for_each(|seen| self.suspects.push(seen));
    }

    /// Repairs what threads that could not have come across. The caller holds no stripe.
    pub(crate) fn repair_suspects(&self) {
        if !self.suspects.is_empty() {
            for seen in self.suspects.take() {
                self.repair(seen);
            }
        }
    }

    /// Repairs a block of which a half was wrong when its entry was this. The caller holds no stripe.
    #[cold]
    pub(crate) fn repair(&self, seen: Entry) -> Repair {
        let stripe = self.table.bucket(seen.key()).stripe;
        self.table.index().lock(stripe);
        let repair = self.repair_locked(seen);
        self.table.index().unlock(stripe);
        repair
    }

    /// The same under the key's lock.
    fn repair_locked(&self, seen: Entry) -> Repair {
        if self.check_writable().is_err() {
            // Which may mean that the medium is another process's by now.
            return Repair::Gone;
        }
        let key = seen.key();
        let found = self.table.find(self.table.bucket(key), key);
        let entry = match found.and_then(|(_, raw)| self.media().sound(raw)) {
            Some(entry) if entry.key() == key => entry,
            _ => return Repair::Gone,
        };
        let mut block = vec![0; self.block_bytes()];
        // A second look, not at what the first one left in a cache.
        self.media().evict_block(entry);
        for attempt in 0..=ATTEMPTS_MAX {
            let wrong = match self.media().examine(entry, &mut block) {
                Examined::Differ(wrong) => wrong,
                Examined::Lost => return Repair::Lost,
                Examined::Right if attempt > 0 => {
                    self.tallies.mine().repaired(1);
                    return Repair::Repaired;
                }
                Examined::Right => {
                    // Of another entry the halves were right from the start.
                    let is_same = entry.as_clean() == seen.as_clean();
                    self.tallies.mine().transient(u64::from(is_same));
                    return Repair::Right;
                }
            };
            let is_lost = self.media().is_on_lost_page(&wrong);
            if is_lost || attempt == ATTEMPTS_MAX {
                return self.give_up(&wrong, is_lost);
            }
            self.media().restore(&wrong, &block);
        }
        unreachable!("the last attempt is given up")
    }

    /// A half that is wrong stays so. The caller holds the key's lock.
    fn give_up(&self, wrong: &Wrong<'_>, is_lost: bool) -> Repair {
        let is_held = |slot| self.table.is_held(slot);
        match is_lost {
            true => self.media().note_lost_pages(&is_held),
            false => {
                self.tallies.mine().unrepaired(1);
                // If its member can neither stay nor go, no write is taken any more; the block reads all the same.
                let _ = self.fatal(self.media().note_unrepaired(wrong, &is_held));
            }
        }
        self.wakeup.notify_work();
        Repair::Unrepaired
    }
}
