//! Claiming dirty blocks: until the end of the round they are not evicted, and a thread that changes one
//! marks it so.

use crate::background::Pipeline;
use crate::background::volume_state::VolumeState;
use crate::background::writeback::WritebackBatch;
use crate::background::writeback::merge::InFlightBlock;
use crate::backing::Backing;
use crate::error::ErrorKind;
use crate::media::entry::{Entry, Key};
use crate::mutants::{Mutant, mutated};
use crate::table::CopiedFrom;
use crate::table::states::{STATE_DIFFERS, STATE_DIRTY, STATE_WRITING};

/// Copies tried without the block's lock; then writers of this block wait for the copy.
const OPTIMISTIC_COPIES: usize = 4;

/// What became of a claim.
enum Claim {
    Copied(Entry),
    /// Not this key's any more, or clean.
    Gone,
    Corrupt,
}

impl Pipeline {
    /// Claims blocks and copies them out one behind the other, as many as the buffer has room for.
    pub(super) fn claim_all(
        &self,
        volume: &VolumeState,
        blocks: &[(Key, u32)],
        backing: &Backing,
        buffer: &mut [u8],
        in_flight: &mut Vec<InFlightBlock>,
        round: &mut WritebackBatch,
    ) {
        let entries = blocks
            .iter()
            .filter_map(|(_, index)| self.media().sound(self.table().entries().load(*index)));
        // Unlocked, so some may be others by now: it is a hint.
        self.media()
            .read_slots_ahead(entries.filter_map(|entry| entry.slot()));
        let mut places = buffer.chunks_exact_mut(self.engine.block_bytes());
        let mut place = places.next();
        for &(key, index) in blocks {
            let out = place.as_deref_mut().expect("the buffer has room for them");
            match self.claim(volume, key, index, out) {
                Claim::Copied(entry) => {
                    in_flight.push(InFlightBlock {
                        index,
                        key,
                        entry,
                        domain: self.domain_of(backing, key),
                    });
                    place = places.next();
                }
                Claim::Gone => {}
                Claim::Corrupt => {
                    round.corrupt += 1;
                    round.note(
                        ErrorKind::Corrupt {
                            volume: key.volume(),
                            block: key.block(),
                        }
                        .into(),
                    );
                }
            }
        }
    }

    /// Claims a dirty block and copies it out as it stands published.
    fn claim(&self, volume: &VolumeState, key: Key, index: u32, out: &mut [u8]) -> Claim {
        let bucket = self.table().bucket(key);
        self.table().index().lock(bucket.stripe);
        // A thread that zeroes it behind the cache lists that before it takes this lock to see that it is
        // not cached: either that thread sees this block, or this one sees the listing. What is claimed is
        // written to the backing, and stays cached until it is synced.
        while volume.zeroings.is_under_way(key.block()) && !mutated(Mutant::WrittenBackUnderZeroing)
        {
            self.table().index().unlock(bucket.stripe);
            volume.zeroings.wait(key.block()..key.block() + 1);
            self.table().index().lock(bucket.stripe);
        }
        let ours = self.table().entries().load(index).key() == key
            && self.table().state(index) & (STATE_DIRTY | STATE_WRITING) == STATE_DIRTY;
        if ours {
            self.table().states().unmark_deferred(index);
            // From here on it is not evicted, and a thread that changes it marks it so.
            let kept = self.table().state(index) & STATE_DIFFERS;
            self.table()
                .set_state(index, kept | STATE_DIRTY | STATE_WRITING);
        } else if self.table().state(index) & STATE_DIRTY != 0 {
            // The entry went to another key since it was taken off the queue.
            self.table().states().announce(index);
        }
        self.table().index().unlock(bucket.stripe);
        if !ours {
            return Claim::Gone;
        }
        for attempt in 0..=OPTIMISTIC_COPIES {
            let locked = attempt == OPTIMISTIC_COPIES;
            if locked {
                self.table().index().lock(bucket.stripe);
            }
            let version = self.table().index().read_begin(bucket.stripe);
            let entry = self.media().sound(self.table().entries().load(index));
            let copied = entry.map(|entry| (entry, self.table().copy_out(entry, true, out)));
            let stood = self.table().index().read_valid(bucket.stripe, version);
            if locked {
                self.table().index().unlock(bucket.stripe);
            }
            match (stood, copied) {
                (true, Some((entry, CopiedFrom::First))) => return Claim::Copied(entry),
                (true, Some((entry, CopiedFrom::Other))) => {
                    self.engine.repair_read(entry.into());
                    return Claim::Copied(entry);
                }
                (true, Some((_, CopiedFrom::Nowhere)) | None) => break,
                (false, _) => {}
            }
        }
        self.engine.tallies().mine().lost(1);
        self.release_corrupt(key, index);
        Claim::Corrupt
    }

    /// A corrupt block stays dirty and in the queue, in case a caller overwrites it.
    fn release_corrupt(&self, key: Key, index: u32) {
        let bucket = self.table().bucket(key);
        self.table().index().lock(bucket.stripe);
        self.table().set_state(index, STATE_DIRTY);
        self.table().states().announce(index);
        self.table().index().unlock(bucket.stripe);
    }
}
