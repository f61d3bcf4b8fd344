//! The log: lanes of records, each tagged with the incarnation that wrote it.
//!
//! What a record is, and which of what is found on the medium is one, is decided in `record` and `read`;
//! where the next one goes, in `lanes`. Recovery and the checkpoint read what commits wrote.
//!
//! It owns the lanes, the incarnation's salt and the sequences. In a lane sequences only rise (I5), and no byte at
//! or above its tail is overwritten (I3).

pub(crate) mod lanes;
mod read;
pub(crate) mod record;

use crate::media::Media;
use crate::media::salt::Salt;
use crate::mutants::{Mutant, mutated};
use lanes::{HeldLane, Lanes};
use record::RecordHeader;

pub(crate) use read::read_record;

/// After this many sequences the acknowledged watermark that rides in records is refreshed. Counted by
/// the sequence: a counter of its own would be one more line that all threads write to.
const REFRESH_PERIOD: u64 = 16;
/// The log is checkpointed in the background beyond this share. What is left has to last committers
/// until that is done, which takes about half as long as the records took; not less than that, because
/// the longer the wait, the more changes of a table line are flushed as one.
const USED_PER_MILLE_MAX: u64 = 600;
/// As that share, of a log of a single lane, which has no other to be full.
const SINGLE_LANE_USED_PER_MILLE_MAX: u64 = 500;

/// The running incarnation's log.
pub(crate) struct Log {
    lanes: Lanes,
    salt: Salt,
    incarnation: u64,
    /// Whether a commit stores its end, too, and fences that.
    strict: bool,
}

impl Log {
    /// An empty log of a new incarnation.
    pub(crate) fn new(lanes: Lanes, salt: Salt, incarnation: u64, strict: bool) -> Log {
        Log {
            lanes,
            salt,
            incarnation,
            strict,
        }
    }

    #[inline]
    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }
    #[inline]
    pub(crate) fn salt(&self) -> Salt {
        self.salt
    }
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }
    #[inline]
    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Draws a commit's sequence: in the log, sequences of one key, and of one position of the table, rise
    /// in the order in which they happen, since the caller holds all its locks and has chosen all its
    /// entries.
    #[inline]
    pub(crate) fn draw(&self, lane: &HeldLane<'_>) -> u64 {
        let sequence = lane.draw();
        if sequence.is_multiple_of(REFRESH_PERIOD) {
            let passing = mutated(Mutant::WatermarkPassesInFlight);
            self.lanes.refresh_acknowledged(passing);
        }
        sequence
    }

    /// What the record of a drawn sequence starts with.
    #[inline]
    pub(crate) fn header(&self, lane: &HeldLane<'_>, sequence: u64) -> RecordHeader {
        RecordHeader {
            salt: self.salt,
            lane: lane.number,
            position: lane.position(),
            lap: lane.lap,
            sequence,
            acknowledged: self.lanes.acknowledged(),
        }
    }

    /// Where on the medium the record goes.
    #[inline]
    pub(crate) fn record_offset(&self, media: &Media, lane: &HeldLane<'_>) -> u64 {
        media.geometry.lane_offset(lane.number) + lane.offset
    }

    /// Stores and flushes the word that says that all of the lane, up to `end`, is committed.
    pub(crate) fn store_commit_word(&self, media: &Media, lane: u32, end: u64) {
        let word = self.salt.commit_word(lane, end);
        let offset = media.geometry.commit_word(lane);
        media.on_metadata(|region| {
            region.store_u64(offset, word);
            region.flush(offset, 8);
        });
    }

    /// Whether the log is used beyond its share, or all lanes but one are full, nearly.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let lanes = self.lanes.count() as u64;
        let mark = match lanes {
            1 => SINGLE_LANE_USED_PER_MILLE_MAX,
            // What a record did not fit into is left over at a lane's end.
            _ => ((lanes - 1) * 950 / lanes).min(USED_PER_MILLE_MAX),
        };
        self.lanes.used_per_mille() > mark
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Backing, MemoryStore, Pool, PoolOptions, Region};

    /// When a log's last lane is begun, the others are checkpointed meanwhile, however few they are.
    #[test]
    fn a_log_with_one_lane_left_is_nearly_full() {
        for lanes in [2, 3] {
            let mut options = PoolOptions::default();
            options.format.block_bytes = 128;
            options.format.unit_bytes = 256;
            options.format.volumes = 2;
            options.format.lanes = Some(lanes);
            options.format.lane_bytes = Some(4096);
            options.runtime.background = false;
            let pool = Pool::create_on(vec![Region::shadow(64 << 10)], &options).expect("create");
            let store = Arc::new(MemoryStore::new(4096));
            let volume = pool.attach(Backing::from_store(store)).expect("attach");
            let log = volume.memory().expect("in memory").pipeline.engine().log();
            let begun = || {
                log.lanes()
                    .each_used_per_mille()
                    .iter()
                    .filter(|used| **used > 0)
                    .count()
            };
            while begun() < lanes as usize {
                volume.write(1, &[1; 128]).expect("write");
            }
            assert!(log.is_nearly_full(), "{lanes} lanes");
        }
    }
}
