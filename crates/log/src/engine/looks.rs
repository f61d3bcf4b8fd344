//! Looks at what the pool holds, without reading it.

use super::core::Log;
use super::read::Reading;
use crate::media::Key;
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};
use crate::state::Entry;

/// Blocks that are looked through before other threads get the lock.
const LOOKED_AT_ONCE: usize = 1024;

/// What the pool knows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It has it.
    Cached,
    /// It reads as zeroes.
    Zeroes,
    /// The backing has it.
    Nothing,
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Segments that may be written before one is recycled.
    pub free_segments: u64,
    /// Blocks that their backings lack.
    pub dirty_blocks: u64,
    /// The oldest segment that counts.
    pub tail: u64,
}

impl Log {
    /// Looks where blocks are, at one moment: no transaction is seen in part.
    pub fn begin_reads(&self, volume: u32, first: u64, count: u64) -> Vec<Reading> {
        let mut state = self.lock();
        let blocks = first..first + count;
        blocks
            .map(|block| Reading::begin(&mut state, Key { volume, block }))
            .collect()
    }

    /// Whether none of the blocks has changed since: what was read of all of them meanwhile was there at one moment.
    pub fn are_current(&self, readings: &[Reading]) -> bool {
        let state = self.lock();
        readings.iter().all(|reading| reading.is_current(&state))
    }

    /// What is known of blocks.
    pub fn known(&self, volume: u32, first: u64, count: u64) -> Vec<Known> {
        let state = self.lock();
        let blocks = first..first + count;
        let known = blocks.map(|block| {
            let key = Key { volume, block };
            match (state.table.get(key), state.zeroed.get(key)) {
                (Some(_), _) => Known::Cached,
                (None, Some(_)) => Known::Zeroes,
                (None, None) => Known::Nothing,
            }
        });
        known.collect()
    }

    /// Whether the pool has a block, or may find it again after a crash: also one that it let go of a moment ago counts, until a
    /// durable record says that its segment is gone. Of a block that it may not have, the backing may be written past the pool.
    pub fn may_have(&self, volume: u32, block: u64) -> bool {
        let state = self.lock();
        let key = Key { volume, block };
        let is_letting_go = state.tail > state.settled.tail_durable();
        state.table.get(key).is_some()
            || state.zeroed.get(key).is_some()
            || state.pending.has_any(key, 1)
            || is_letting_go && !mutated(Mutant::SsdLetGoBeforeTail)
    }

    /// Blocks of a volume that the pool has, and how many of them, or of ranges of zeroes, the backing lacks.
    pub fn usage(&self, volume: u32) -> (u64, u64) {
        let state = self.lock();
        let of_volume = |entry: &Entry| entry.key().volume == volume;
        let (mut cached, mut dirty) = (0, 0);
        for entry in state.table.iter().filter(of_volume) {
            cached += 1;
            dirty += u64::from(!entry.is_clean());
        }
        let zeroed = state.zeroed.of_volume(volume);
        let zeroed: u64 = zeroed.iter().map(|range| range.count).sum();
        (cached + zeroed, dirty + zeroed)
    }

    /// Calls `visit` with each block that the pool has, also of ranges of zeroes, and whether its backing lacks it.
    pub fn visit_blocks(&self, volume: u32, mut visit: impl FnMut(u64, bool)) {
        let (entries, zeroed) = {
            let state = self.lock();
            let of_volume = |entry: &Entry| entry.key().volume == volume;
            let entries: Vec<Entry> = state.table.iter().filter(of_volume).collect();
            (entries, state.zeroed.of_volume(volume))
        };
        for entry in entries {
            visit(entry.key().block, !entry.is_clean());
        }
        for range in zeroed {
            let blocks = range.first.block..range.first.block + range.count;
            blocks.for_each(|block| visit(block, true));
        }
    }

    /// Blocks, of all volumes, that their backings lack, but for ranges of zeroes.
    pub fn dirty_blocks(&self) -> usize {
        self.lock().table.dirty_len()
    }

    /// A number that stands still as long as nothing makes room: no backing takes anything that is dirty, and no segment comes free.
    pub fn progress(&self) -> u64 {
        self.lock().progress.count()
    }

    /// How much room there is, at one moment.
    pub fn room(&self) -> Room {
        let state = self.lock();
        Room {
            free_segments: state.settled.tail_durable() + u64::from(self.geometry.places)
                - state.next_segment,
            dirty_blocks: state.table.dirty_len() as u64,
            tail: state.tail,
        }
    }

    /// Reads every block that the pool has and compares it with its check. `progress` is told how many are done, of how many.
    /// Returns how many are good, and volume and block of those that are not, or that the device does not give.
    pub fn check_all(&self, progress: &mut dyn FnMut(u64, u64)) -> (u64, Vec<(u32, u64)>) {
        let entries: Vec<Entry> = self.lock().table.iter().collect();
        let (all, mut good, mut bad) = (entries.len() as u64, 0, Vec::new());
        let mut bytes = Pages::zeroed(1);
        for (number, entry) in entries.into_iter().enumerate() {
            if number.is_multiple_of(LOOKED_AT_ONCE) {
                progress(number as u64, all);
            }
            let key = entry.key();
            let held = self.lock().held(entry);
            let out = &mut bytes[..PAGE_BYTES];
            // Of a mirror both copies are read, and the one that is wrong is noted; such a pool has no patches.
            let loaded = match held {
                None => Ok(()),
                Some(_) if self.load_other(entry, out) => Ok(()),
                Some(held) => self.load_held(&held, out),
            };
            match loaded {
                Ok(()) => good += 1,
                Err(_) => {
                    let now = self.lock().table.get(key);
                    match now.is_some_and(|now| now.page == entry.page) {
                        true => bad.push((key.volume, key.block)),
                        // It was written anew meanwhile.
                        false => good += 1,
                    }
                }
            }
        }
        progress(all, all);
        (good, bad)
    }

    /// Why nothing is written any more, if that is so.
    pub fn why_poisoned(&self) -> Option<String> {
        self.lock().poisoned.clone()
    }

    /// The pool's identity.
    pub fn uuid(&self) -> u128 {
        self.uuid
    }

    /// Whether it was made for tests.
    pub fn is_test(&self) -> bool {
        self.is_test
    }

    /// The number of this incarnation: how often the pool was opened.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.number
    }

    /// Segments of the ring, and bytes of one.
    pub fn segments(&self) -> (u64, u64) {
        let bytes = u64::from(self.geometry.segment_pages) * PAGE_BYTES as u64;
        (u64::from(self.geometry.places), bytes)
    }

    /// The last sequence that was given out.
    pub fn last_sequence(&self) -> u64 {
        self.lock().next_sequence - 1
    }
}
