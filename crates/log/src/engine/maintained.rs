//! What the thread that maintains the log remembers from one turn to the next.

use std::collections::BTreeMap;

/// Which volumes are behind. Changed by the thread that maintains the log alone.
#[derive(Debug, Default)]
pub(crate) struct Maintained {
    /// Volumes of which something in the segments that were cleaned is not on the backing, with the number of the last failure. Their clean
    /// points stay where they are until a round that began after it writes all of them back.
    behind: BTreeMap<u32, u64>,
    /// Of a volume that is behind and brought piece by piece, the blocks that were dirty when it was looked through and are still to
    /// be tried, the first of them last.
    left: BTreeMap<u32, Vec<u64>>,
    /// Failures so far, of any volume.
    failures: u64,
}

impl Maintained {
    /// The segments are looked at again from the tail on, as after an opening: each failure is found anew before a point moves past it.
    pub(crate) fn begin_again(&mut self) {
        self.behind.clear();
        self.left.clear();
    }

    /// Something of a volume in a segment that counts as cleaned is not on its backing.
    pub(crate) fn note_behind(&mut self, volume: u32) {
        self.failures += 1;
        self.behind.insert(volume, self.failures);
    }

    /// Whether a clean point of a volume has to stay.
    pub(crate) fn is_behind(&self, volume: u32) -> bool {
        self.behind.contains_key(&volume)
    }

    /// The volumes that are behind.
    pub(crate) fn behind(&self) -> impl Iterator<Item = u32> {
        self.behind.keys().copied()
    }

    /// How many failures a round that begins now has seen.
    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// A round that began after so many failures has written back all that its volume had then. What failed since may be newer
    /// than what it wrote.
    pub(crate) fn note_whole(&mut self, volume: u32, seen: u64) {
        let last = self.behind.get(&volume);
        if last.is_some_and(|last| *last <= seen) {
            self.behind.remove(&volume);
            self.left.remove(&volume);
        }
    }

    /// Of a volume that has more dirty blocks than `most`, the next ones to be tried, in their order; none if it has fewer. `look` looks
    /// through the whole table for them, once for all pieces: so what is brought is not paid for with a look each.
    pub(crate) fn take_piece(
        &mut self,
        volume: u32,
        most: usize,
        look: impl FnOnce() -> Vec<u64>,
    ) -> Option<Vec<u64>> {
        let mut left = match self.left.remove(&volume) {
            Some(left) => left,
            None => {
                let mut dirty = look();
                dirty.sort_unstable_by(|one, other| other.cmp(one));
                Some(dirty).filter(|dirty| dirty.len() > most)?
            }
        };
        let mut piece = left.split_off(left.len().saturating_sub(most));
        piece.reverse();
        if !left.is_empty() {
            self.left.insert(volume, left);
        }
        Some(piece)
    }

    /// The log has nothing of a volume any more.
    pub(crate) fn note_gone(&mut self, volume: u32) {
        self.behind.remove(&volume);
        self.left.remove(&volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_looked_through_once_for_all_of_its_pieces() {
        let mut maintained = Maintained::default();
        let mut looks = 0;
        let mut next = |maintained: &mut Maintained, dirty: u64| {
            maintained.take_piece(1, 8, || {
                looks += 1;
                (0..dirty).rev().collect()
            })
        };
        for expected in [0..8, 8..16, 16..20] {
            let piece = next(&mut maintained, 20).expect("more than a piece");
            assert_eq!(piece, expected.collect::<Vec<_>>());
        }
        assert_eq!(next(&mut maintained, 8), None);
        assert!(next(&mut maintained, 20).is_some());
        // Its number has another volume.
        maintained.note_gone(1);
        assert_eq!(next(&mut maintained, 3), None);
        assert_eq!(looks, 4);
    }

    #[test]
    fn a_failure_since_a_round_began_is_not_forgotten_by_its_end() {
        let mut maintained = Maintained::default();
        maintained.note_behind(1);
        maintained.note_behind(2);
        let seen = maintained.failures();
        maintained.note_behind(2);
        maintained.note_whole(1, seen);
        maintained.note_whole(2, seen);
        assert_eq!(maintained.behind().collect::<Vec<_>>(), [2]);
        // Also one that is noted after all of them were found anew.
        maintained.begin_again();
        maintained.note_behind(2);
        maintained.note_whole(2, seen);
        assert!(maintained.is_behind(2));
        maintained.note_whole(2, maintained.failures());
        assert!(!maintained.is_behind(2));
    }
}
