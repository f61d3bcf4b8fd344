//! Journal blocks that write-back defers, and in which order they go when there is no other way.
//!
//! What holds, under the lock of an entry's stripe: [`STATE_DEFERRED`] is set only on a dirty entry, and
//! only while its number is in the list here. A number in the list whose entry lacks the mark is stale
//! and means nothing. A thread that takes a number out to write the block clears the mark first.
//!
//! A ring is overwritten from its tail on, so the block that was written last stays useless for
//! longest, and the dead ones are overwritten next. Under pressure the newest go first: a lap then
//! writes only those blocks for which there is no room (Belady's rule), where the oldest first would
//! write every block of every lap.

use std::collections::BTreeMap;

use super::deferred::DeferredBlocks;
use super::state::Tables;
use crate::background::Pipeline;
use crate::media::entry::Key;
use crate::policy::journal::jbd2::{self, HEADER_BYTES};
use crate::policy::journal::table::Ring;
use crate::policy::journal::{JournalKind, xfs};
use crate::table::states::{STATE_DEFERRED, STATE_DIRTY, STATE_WRITING};

/// Stale numbers that the list may have beside one for each that is not.
const STALE_MAX: u64 = 4096;

/// The newest block that was seen of a ring.
#[derive(Clone, Copy)]
struct Head {
    /// A transaction and whether it ends there, or a lap.
    age: (u32, bool),
    position: u64,
}

impl Pipeline {
    /// Before a round takes new work: which journals were found, and whether they matter.
    pub(crate) fn prepare_deferred(&self, deferred: &mut DeferredBlocks) {
        let journal = &self.write_back.journal;
        if journal.is_on() {
            deferred.tables = journal.tables();
            // A flush writes blocks and leaves their numbers.
            if deferred.list.len() as u64 > 2 * self.table().states().deferred_count() + STALE_MAX {
                self.put_in_order(deferred);
            }
            return;
        }
        deferred.tables = Tables::default();
        for index in std::mem::take(&mut deferred.list) {
            if self.stop_deferring(index) {
                self.table().states().announce(index);
            }
        }
    }

    /// Sets a dirty entry aside if its block is a journal's. False where it is to be written in its
    /// turn, or is not this key's any more.
    pub(crate) fn defer(&self, deferred: &mut DeferredBlocks, key: Key, index: u32) -> bool {
        let is_journal = self.is_journal(deferred, key)
            // Its backing is asked with whatever there is.
            && self.volume(key.volume()).is_some_and(|volume| !volume.health.is_degraded());
        if !is_journal {
            return false;
        }
        let bucket = self.table().bucket(key);
        self.table().index().lock(bucket.stripe);
        let state = self.table().state(index);
        let is_dirty = self.table().entries().load(index).key() == key
            && state & (STATE_DIRTY | STATE_WRITING) == STATE_DIRTY;
        if is_dirty && state & STATE_DEFERRED == 0 {
            self.table().states().mark_deferred(index);
            deferred.list.push(index);
            deferred.moved += 1;
        }
        self.table().index().unlock(bucket.stripe);
        is_dirty
    }

    /// Whether a block is a journal's that is known.
    pub(crate) fn is_journal(&self, deferred: &DeferredBlocks, key: Key) -> bool {
        let table = deferred.tables.get(&key.volume());
        table.is_some_and(|table| table.find(key.block()).is_some())
    }

    /// Releases `wanted` blocks, those that will be overwritten last; they are the caller's to write.
    pub(crate) fn take_deferred(
        &self,
        deferred: &mut DeferredBlocks,
        wanted: u64,
    ) -> Vec<(Key, u32)> {
        if wanted == 0 || deferred.list.is_empty() {
            return Vec::new();
        }
        let overwritten = self.engine.tallies().sums().journal_overwritten;
        let moved = deferred.moved as u64 + overwritten.saturating_sub(deferred.overwritten);
        if moved > deferred.list.len() as u64 / 4 {
            self.put_in_order(deferred);
            deferred.moved = 0;
            deferred.overwritten = overwritten;
        }
        let mut released = Vec::new();
        while (released.len() as u64) < wanted
            && let Some(index) = deferred.list.pop()
        {
            if self.stop_deferring(index) {
                deferred.moved += 1;
                released.push((self.table().entries().load(index).key(), index));
            }
        }
        released
    }

    /// Takes the mark from an entry; whether it had it.
    fn stop_deferring(&self, index: u32) -> bool {
        while self.table().state(index) & STATE_DEFERRED != 0 {
            let key = self.table().entries().load(index).key();
            let bucket = self.table().bucket(key);
            self.table().index().lock(bucket.stripe);
            let is_same = self.table().entries().load(index).key() == key;
            let had = is_same && self.table().states().unmark_deferred(index);
            self.table().index().unlock(bucket.stripe);
            if is_same {
                return had;
            }
        }
        false
    }

    /// Forgets stale numbers, and sorts the others: what will be overwritten last comes last.
    fn put_in_order(&self, deferred: &mut DeferredBlocks) {
        let mut list = std::mem::take(&mut deferred.list);
        list.sort_unstable();
        list.dedup();
        list.retain(|index| self.table().state(*index) & STATE_DEFERRED != 0);
        let heads = self.heads(deferred, &list);
        list.sort_by_cached_key(|index| {
            let key = self.table().entries().load(*index).key();
            let next = self.blocks_until_overwritten(deferred, &heads, key);
            (next, key)
        });
        deferred.list = list;
    }

    /// How many blocks a ring has to take before this one is overwritten.
    fn blocks_until_overwritten(
        &self,
        deferred: &DeferredBlocks,
        heads: &BTreeMap<(u32, usize), Head>,
        key: Key,
    ) -> u64 {
        let table = deferred.tables.get(&key.volume());
        let Some((table, place)) = table.and_then(|table| Some((table, table.find(key.block())?)))
        else {
            // Not a journal's any more.
            return u64::MAX;
        };
        let ring = table.ring(place.journal);
        let head = heads.get(&(key.volume(), place.journal));
        let head = head.map(|head| head.position);
        place
            .position
            .map_or(0, |position| distance(ring, head, position))
    }

    /// The head of each ring, by the blocks that are deferred: the newest were not released yet.
    fn heads(&self, deferred: &DeferredBlocks, list: &[u32]) -> BTreeMap<(u32, usize), Head> {
        let mut heads: BTreeMap<(u32, usize), Head> = BTreeMap::new();
        let mut block = vec![0; self.engine.block_bytes()];
        for index in list {
            let Some(entry) = self.media().sound(self.table().entries().load(*index)) else {
                continue;
            };
            let (key, Some(slot)) = (entry.key(), entry.slot()) else {
                continue;
            };
            let Some(table) = deferred.tables.get(&key.volume()) else {
                continue;
            };
            let Some((place, position)) = table
                .find(key.block())
                .and_then(|place| Some((place, place.position?)))
            else {
                continue;
            };
            // Not under a lock: a concurrent overwrite only misleads a hint.
            let mut header = [0; HEADER_BYTES];
            if entry.is_packed() {
                // Mostly zeroes, as the blocks are that have headers.
                self.table().copy_out(entry, false, &mut block);
                header.copy_from_slice(&block[..HEADER_BYTES]);
            } else {
                self.media().read_slot(slot, 0, &mut header);
            }
            let kind = table.ring(place.journal).kind;
            if let Some(age) = age(kind, &header) {
                let one = Head { age, position };
                heads
                    .entry((key.volume(), place.journal))
                    .and_modify(|head| *head = newer(kind, one, *head))
                    .or_insert(one);
            }
        }
        heads
    }
}

fn age(kind: JournalKind, header: &[u8; HEADER_BYTES]) -> Option<(u32, bool)> {
    match kind {
        JournalKind::Jbd2 => jbd2::age(header),
        JournalKind::Xfs => header.first_chunk().map(|header| (xfs::lap(header), false)),
    }
}

fn newer(kind: JournalKind, one: Head, other: Head) -> Head {
    let is_newer = match kind {
        JournalKind::Jbd2 if one.age.0 != other.age.0 => jbd2::is_newer(one.age.0, other.age.0),
        JournalKind::Jbd2 => (one.age.1, one.position) > (other.age.1, other.position),
        // Within a lap the head is as far as it got.
        JournalKind::Xfs => (one.age.0, one.position) > (other.age.0, other.position),
    };
    if is_newer { one } else { other }
}

/// Blocks from the head on until the ring gets to `position`: next to none for the oldest, a lap for
/// the newest. Without a head the ring is taken to be full up to where it is live from.
fn distance(ring: Ring, head: Option<u64>, position: u64) -> u64 {
    let last = ring.blocks - 1;
    let head = head.unwrap_or(match ring.live_from {
        Some(from) => (from + last) % ring.blocks,
        None => last,
    });
    (position + last - head.min(last)) % ring.blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(live_from: Option<u64>) -> Ring {
        Ring {
            kind: JournalKind::Jbd2,
            blocks: 10,
            live_from,
        }
    }

    #[test]
    fn the_block_behind_the_head_is_overwritten_last_and_the_one_before_it_next() {
        assert_eq!(distance(ring(None), Some(4), 4), 9);
        assert_eq!(distance(ring(None), Some(4), 3), 8);
        assert_eq!(distance(ring(None), Some(4), 5), 0);
        assert_eq!(distance(ring(None), Some(9), 0), 0);
        assert_eq!(distance(ring(None), None, 9), 9);
        assert_eq!(distance(ring(Some(3)), None, 3), 0);
        assert_eq!(distance(ring(Some(0)), None, 9), 9);
        assert_eq!(distance(ring(None), Some(u64::MAX), 9), 9);
    }

    #[test]
    fn a_commit_block_is_newer_than_what_it_commits() {
        let head = |sequence, is_commit, position| Head {
            age: (sequence, is_commit),
            position,
        };
        let pick = |one, other| newer(JournalKind::Jbd2, one, other).position;
        assert_eq!(pick(head(5, true, 1), head(5, false, 9)), 1);
        assert_eq!(pick(head(5, true, 1), head(6, false, 3)), 3);
        assert_eq!(pick(head(0, true, 1), head(u32::MAX, true, 3)), 1);
        let pick = |one, other| newer(JournalKind::Xfs, one, other).position;
        assert_eq!(pick(head(5, false, 7), head(4, false, 9)), 7);
    }
}
