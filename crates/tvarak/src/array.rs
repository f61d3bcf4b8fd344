//! The tags of a set-associative cache, with the order in which a set's lines were last used.
//!
//! A slot is a place for a line: what a cache holds beside the tag, it keeps in arrays of its own by slot. A partition of
//! a cache's ways is an array of that many ways: lines of one never take a way of another.

use crate::line::NO_LINE;

/// Tags and recency.
#[derive(Debug)]
pub struct Array {
    ways: usize,
    tags: Vec<u32>,
    /// When each slot was last used; the clock never comes round.
    used: Vec<u64>,
    clock: u64,
    /// How many lines each set may hold, where that changes; it has room for `ways`.
    limits: Option<Vec<u8>>,
}

impl Array {
    /// An empty one.
    pub fn new(sets: usize, ways: usize) -> Array {
        Array {
            ways,
            tags: vec![NO_LINE; sets * ways],
            used: vec![0; sets * ways],
            clock: 0,
            limits: None,
        }
    }

    /// Lets each set hold another number of lines than it has ways. All are empty.
    pub fn limit_each(&mut self, sets: usize, limit: impl Fn(usize) -> u32) {
        self.limits = Some(vec![0; sets]);
        for set in 0..sets {
            self.limit(set, limit(set));
        }
    }

    /// Lets a set hold so many lines from now on.
    ///
    /// # Panics
    /// It holds more, or has fewer ways.
    pub fn limit(&mut self, set: usize, limit: u32) {
        assert!(limit as usize <= self.ways && self.over(set, limit).is_none());
        let limits = self.limits.as_mut().expect("its limits change");
        limits[set] = limit as u8;
    }

    /// How many lines a set may hold.
    #[inline]
    pub fn limit_of(&self, set: usize) -> usize {
        self.limits
            .as_ref()
            .map_or(self.ways, |limits| limits[set].into())
    }

    /// The slot used longest ago of a set that holds more lines than so many.
    pub fn over(&self, set: usize, limit: u32) -> Option<usize> {
        let taken = self.taken_in(set);
        let oldest = taken.clone().min_by_key(|slot| self.used[*slot]);
        oldest.filter(|_| taken.count() > limit as usize)
    }

    /// The slots of a set that have lines.
    pub fn taken_in(&self, set: usize) -> impl Iterator<Item = usize> + Clone {
        let first = set * self.ways;
        (first..first + self.ways).filter(|slot| self.tags[*slot] != NO_LINE)
    }

    /// How many lines it has room for.
    pub fn slots(&self) -> usize {
        self.tags.len()
    }

    /// The slot that has a line.
    #[inline]
    pub fn find(&self, set: usize, line: u32) -> Option<usize> {
        let first = set * self.ways;
        let tags = &self.tags[first..first + self.ways];
        tags.iter()
            .position(|&tag| tag == line)
            .map(|way| first + way)
    }

    /// Notes that a slot was used now.
    #[inline]
    pub fn touch(&mut self, slot: usize) {
        self.clock += 1;
        self.used[slot] = self.clock;
    }

    /// The slot that a new line of a set goes to: an empty one, or the one used longest ago.
    #[inline]
    pub fn victim(&self, set: usize) -> usize {
        if self.limits.is_some()
            && let Some(slot) = self.over(set, self.limit_of(set) as u32 - 1)
        {
            return slot;
        }
        let first = set * self.ways;
        let slots = first..first + self.ways;
        let age = |&slot: &usize| match self.tags[slot] {
            NO_LINE => 0,
            _ => self.used[slot],
        };
        slots.min_by_key(age).expect("a set has ways")
    }

    /// The line in a slot; [`NO_LINE`] where there is none.
    #[inline]
    pub fn line(&self, slot: usize) -> u32 {
        self.tags[slot]
    }

    /// Puts a line into a slot, as used now.
    #[inline]
    pub fn put(&mut self, slot: usize, line: u32) {
        self.tags[slot] = line;
        self.touch(slot);
    }

    /// Empties a slot.
    #[inline]
    pub fn clear(&mut self, slot: usize) {
        self.tags[slot] = NO_LINE;
    }

    /// Every slot that has a line.
    pub fn taken(&self) -> Vec<usize> {
        let slots = 0..self.tags.len();
        slots.filter(|&slot| self.tags[slot] != NO_LINE).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_slot_goes_first_then_the_one_used_longest_ago() {
        let mut array = Array::new(2, 3);
        for line in [10, 11, 12] {
            let slot = array.victim(1);
            assert_eq!(array.line(slot), NO_LINE);
            array.put(slot, line);
        }
        array.touch(array.find(1, 10).unwrap());
        assert_eq!(array.line(array.victim(1)), 11);
        array.clear(array.find(1, 12).unwrap());
        assert_eq!(array.line(array.victim(1)), NO_LINE);
        assert_eq!(array.find(0, 10), None);
    }

    /// The same accesses, in the caches of Table 3, hit as often in pycachesim 0.3.1 (RRZE), whose counts these are.
    #[test]
    fn hits_are_those_of_an_independent_simulator() {
        for (sets, ways, expected) in [(64, 8, 37_073), (512, 8, 126_935), (2048, 16, 148_876)] {
            let mut array = Array::new(sets, ways);
            let mut state = 7_u64;
            let mut hits = 0;
            for number in 0..200_000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let drawn = state >> 33;
                let line = match (drawn >> 20).is_multiple_of(4) {
                    true => drawn % 65_536,
                    false => (number / 8 + drawn % 1_500) % 65_536,
                };
                let (line, set) = (line as u32, line as usize % sets);
                match array.find(set, line) {
                    Some(slot) => {
                        hits += 1;
                        array.touch(slot);
                    }
                    None => array.put(array.victim(set), line),
                }
            }
            assert_eq!(hits, expected, "{sets} sets of {ways} ways");
        }
    }
}
