//! The rest of long ranges of zeroes: a turn zeroes no more than a piece on a backing, so that others have theirs.

use super::core::Log;
use super::write_back::BROUGHT_AT_ONCE;
use crate::error::Result;
use crate::state::take_pieces;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl Log {
    /// Whether the rest of some range is to be zeroed when nothing else is to be done.
    pub fn has_rest(&self) -> bool {
        self.has_rest.load(Ordering::Relaxed)
    }

    /// Zeroes a piece of each volume's ranges, and syncs; false if there is none that has a backing.
    ///
    /// # Errors
    /// A backing's, after all others were asked.
    pub fn zero_rest(&self) -> Result<bool> {
        // Before the look: what is left from now on the next one finds.
        self.has_rest.store(false, Ordering::Relaxed);
        let (mut failure, mut has_zeroed) = (None, false);
        for volume in self.volumes_with_backings() {
            // A turn for each, so that nobody waits for more than one backing.
            let _alone = self.maintain();
            match self.zero_piece(volume) {
                Ok(zeroed) => has_zeroed |= zeroed,
                Err(error) => failure = Some(error),
            }
        }
        if has_zeroed || failure.is_some() {
            self.has_rest.store(true, Ordering::Relaxed);
        }
        failure.map_or(Ok(has_zeroed), Err)
    }

    fn volumes_with_backings(&self) -> Vec<u32> {
        let backings = self.backings.read().unwrap_or_else(PoisonError::into_inner);
        backings.keys().copied().collect()
    }

    /// Whether a volume has more to be zeroed than one turn may.
    pub(crate) fn has_long_ranges(&self, volume: u32) -> bool {
        let ranges = self.lock().zeroed.of_volume(volume);
        let blocks = ranges.iter().map(|range| range.count).sum::<u64>();
        blocks > self.options.zeroed_at_once_blocks
    }

    /// Zeroes as much of a volume's first ranges as one turn may, and syncs; false if it has none. Called in a turn.
    ///
    /// # Errors
    /// The backing's, or the volume has none.
    pub(crate) fn zero_piece(&self, volume: u32) -> Result<bool> {
        let mut ranges = self.lock().zeroed.first_of_volume(volume, BROUGHT_AT_ONCE);
        ranges.reverse();
        let most = (BROUGHT_AT_ONCE, self.options.zeroed_at_once_blocks);
        let pieces = take_pieces(&mut ranges, most);
        if pieces.is_empty() {
            return Ok(false);
        }
        self.clean_volume(volume, (pieces, Vec::new()))
            .map(|()| true)
    }
}
