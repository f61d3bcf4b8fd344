//! How much is written back and evicted at once, what is written together, how much room is kept, and how long a backing that
//! fails is left alone, as far as numbers alone say. The laboratory's cleaner for other designs keeps to the same.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

/// Bytes of a round: several long runs in flight, and small enough to stay in the cache.
pub const ROUND_BYTES_MAX: usize = 4 << 20;
/// Blocks of a round, whatever their size; a word of the queue always fits.
pub const ROUND_BLOCKS: RangeInclusive<usize> = 64..=4096;
/// Longest merged run: beyond it devices split the request anyway.
pub const RUN_BYTES_MAX: usize = 1 << 20;
/// Blocks evicted with one record and one fence.
pub const EVICT_BATCH_MAX: usize = 64;
/// Pause after a backing's first failure: a path that flaps is back within milliseconds.
pub const RETRY_PAUSE_FIRST: Duration = Duration::from_millis(10);
/// Longest pause: how late at most the drain starts once a backing is back.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Blocks that are copied out at once, at most.
#[must_use]
pub fn round_blocks(block_bytes: usize) -> usize {
    (ROUND_BYTES_MAX / block_bytes).clamp(*ROUND_BLOCKS.start(), *ROUND_BLOCKS.end())
}

/// Blocks of the longest merged run.
#[must_use]
pub fn run_blocks(block_bytes: usize) -> usize {
    (RUN_BYTES_MAX / block_bytes).max(1)
}

/// Parts a round's blocks, in the order of the disk, into runs: of neighbours that `join`, each of at most
/// so many as `len_max` says of its first.
pub fn runs<T>(
    blocks: &[T],
    join: impl Fn(&T, &T) -> bool,
    len_max: impl Fn(&T) -> usize,
) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        if let Some(last) = runs.last_mut()
            && join(&blocks[number - 1], block)
            && last.len() < len_max(&blocks[last.start])
        {
            last.end = number + 1;
        } else {
            runs.push(number..number + 1);
        }
    }
    runs
}

/// How long a backing is left alone after `failures` failures in a row.
#[must_use]
pub fn retry_pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    RETRY_PAUSE_FIRST
        .saturating_mul(1 << doublings)
        .min(RETRY_PAUSE_MAX)
}

/// Slots that reclaim keeps free.
#[must_use]
pub fn free_target(slots: u64, free_low_per_mille: u32) -> u64 {
    (slots * u64::from(free_low_per_mille) / 1000).max(1)
}

/// Free slots with which reclaim rests.
#[must_use]
pub fn ample(free_target: u64) -> u64 {
    2 * free_target
}

/// Whether more than seven eighths of the slots are dirty, and write-back rests all the same: then the coldest
/// blocks leave whatever they are, and the dirty ones of them are written back first.
#[must_use]
pub fn is_dirty_throughout(slots: u64, dirty: u64, dirty_low: u64) -> bool {
    dirty > slots - slots / 8 && dirty <= dirty_low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_limit() {
        assert_eq!(retry_pause(1), RETRY_PAUSE_FIRST);
        assert_eq!(retry_pause(3), RETRY_PAUSE_FIRST * 4);
        assert_eq!(retry_pause(u32::MAX), RETRY_PAUSE_MAX);
    }
}
