//! What the thread that maintains the log remembers from one turn to the next.

use std::collections::BTreeMap;

/// Which volumes are behind. Changed by the thread that maintains the log alone.
#[derive(Debug, Default)]
pub(crate) struct Maintained {
    /// Volumes of which something in the segments that were cleaned is not on the backing, with the number of the last failure. Their clean
    /// points stay where they are until a round that began after it writes all of them back.
    behind: BTreeMap<u32, u64>,
    /// Failures so far, of any volume.
    failures: u64,
}

impl Maintained {
    /// The segments are looked at again from the tail on, as after an opening: each failure is found anew before a point moves past it.
    pub(crate) fn begin_again(&mut self) {
        self.behind.clear();
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
        }
    }

    /// The log has nothing of a volume any more.
    pub(crate) fn note_gone(&mut self, volume: u32) {
        self.behind.remove(&volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
