//! The tags of a set-associative cache, with the order in which a set's lines were last used.
//!
//! A slot is a place for a line: what a cache holds beside the tag, it keeps in arrays of its own by slot. A partition of
//! a cache's ways is an array of that many ways: lines of one never take a way of another.

use crate::line::NO_LINE;
use crate::mutants::{Mutant, mutated};

/// The most ways that a set can have: as many as half bytes in a word.
pub const MOST_WAYS: usize = 16;

/// The tag of a place beyond a set's ways: the last line of DRAM, which no machine has.
const NO_WAY: u32 = NO_LINE - 1;
/// Tags that are compared at once.
const CHUNK: usize = 8;
/// One in each half byte.
const ONES: u64 = 0x1111_1111_1111_1111;

/// What is known of a set beside its tags.
#[derive(Clone, Copy, Debug)]
struct Set {
    /// Its ways in the order in which they were last used, the latest lowest: half a byte each.
    order: u64,
    /// A bit for each way that has no line.
    empty: u16,
    /// How many lines it may hold.
    limit: u8,
}

/// Tags and recency.
#[derive(Debug)]
pub struct Array {
    ways: usize,
    /// A set has places for a power of two of lines, as a shift; those beyond its ways have a tag that no line has.
    places_shift: u32,
    tags: Vec<u32>,
    sets: Vec<Set>,
}

impl Array {
    /// An empty one, whose sets may hold as many lines as they have ways.
    ///
    /// # Panics
    /// Of no ways, or more than [`MOST_WAYS`].
    pub fn new(sets: usize, ways: usize) -> Array {
        assert!((1..=MOST_WAYS).contains(&ways), "{ways} ways");
        let places = ways.next_power_of_two();
        let tag = |place: usize| if place < ways { NO_LINE } else { NO_WAY };
        let set = Set {
            order: 0xFEDC_BA98_7654_3210,
            empty: (u16::MAX >> (MOST_WAYS - ways)),
            limit: ways as u8,
        };
        Array {
            ways,
            places_shift: places.trailing_zeros(),
            tags: (0..sets).flat_map(|_| (0..places).map(tag)).collect(),
            sets: vec![set; sets],
        }
    }

    /// Lets each set hold another number of lines than it has ways.
    ///
    /// # Panics
    /// As of [`Array::limit`].
    pub fn limit_each(&mut self, limit: impl Fn(usize) -> u32) {
        for set in 0..self.sets.len() {
            self.limit(set, limit(set));
        }
    }

    /// Lets a set hold so many lines from now on.
    ///
    /// # Panics
    /// It holds more, or has fewer ways.
    pub fn limit(&mut self, set: usize, limit: u32) {
        assert!(limit as usize <= self.ways && self.over(set, limit).is_none());
        self.sets[set].limit = limit as u8;
    }

    /// How many lines a set may hold.
    #[inline]
    pub fn limit_of(&self, set: usize) -> usize {
        self.sets[set].limit.into()
    }

    /// The slot used longest ago of a set that holds more lines than so many.
    #[inline]
    pub fn over(&self, set: usize, limit: u32) -> Option<usize> {
        let Set { order, empty, .. } = self.sets[set];
        if self.ways as u32 - empty.count_ones() <= limit {
            return None;
        }
        let by_age = (0..self.ways)
            .rev()
            .map(|age| (order >> (4 * age) & 15) as usize);
        let mut taken = by_age.filter(|way| empty & 1 << way == 0);
        taken.next().map(|way| self.first(set) + way)
    }

    #[inline]
    fn first(&self, set: usize) -> usize {
        set << self.places_shift
    }

    #[inline]
    fn set_and_way(&self, slot: usize) -> (usize, usize) {
        let set = slot >> self.places_shift;
        (set, slot - self.first(set))
    }

    /// The slots of a set that have lines.
    pub fn taken_in(&self, set: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, empty) = (self.first(set), self.sets[set].empty);
        let taken = (0..self.ways).filter(move |way| empty & 1 << way == 0);
        taken.map(move |way| first + way)
    }

    /// One more than the highest slot.
    pub fn slots(&self) -> usize {
        self.tags.len()
    }

    /// The slot that has a line.
    #[inline]
    pub fn find(&self, set: usize, line: u32) -> Option<usize> {
        let first = self.first(set);
        let tags = &self.tags[first..first + (1 << self.places_shift)];
        let (chunks, rest) = tags.as_chunks::<CHUNK>();
        for (number, tags) in chunks.iter().enumerate() {
            // At most one has it. Without branches, all are compared at once.
            let found: u32 = (tags.iter().zip(1..))
                .map(|(tag, place)| if *tag == line { place } else { 0 })
                .sum();
            if found != 0 {
                return Some(first + number * CHUNK + found as usize - 1);
            }
        }
        let place = rest.iter().position(|tag| *tag == line);
        place.map(|place| first + place)
    }

    /// Notes that a slot was used now.
    #[inline]
    pub fn touch(&mut self, slot: usize) {
        if mutated(Mutant::UseNotNoted) {
            return;
        }
        let (set, way) = self.set_and_way(slot);
        let order = &mut self.sets[set].order;
        // The lowest half byte that is nought here is the way's: borrows go up from it alone.
        let differing = *order ^ (ONES * way as u64);
        let nought = differing.wrapping_sub(ONES) & !differing & ONES << 3;
        let later = (1 << (nought.trailing_zeros() & !3)) - 1;
        *order = *order & !(later << 4 | 15) | (*order & later) << 4 | way as u64;
    }

    /// The slot that a new line of a set goes to: an empty one, or the one used longest ago.
    #[inline]
    pub fn victim(&self, set: usize) -> usize {
        let Set {
            order,
            empty,
            limit,
        } = self.sets[set];
        if empty == 0 {
            return self.first(set) + (order >> (4 * (self.ways - 1)) & 15) as usize;
        }
        let over = match usize::from(limit) < self.ways {
            true => self.over(set, u32::from(limit) - 1),
            false => None,
        };
        over.unwrap_or(self.first(set) + empty.trailing_zeros() as usize)
    }

    /// The line in a slot; [`NO_LINE`] where there is none.
    #[inline]
    pub fn line(&self, slot: usize) -> u32 {
        self.tags[slot]
    }

    /// Puts a line into a slot, as used now.
    #[inline]
    pub fn put(&mut self, slot: usize, line: u32) {
        let (set, way) = self.set_and_way(slot);
        self.tags[slot] = line;
        self.sets[set].empty &= !(1 << way);
        self.touch(slot);
    }

    /// Empties a slot.
    #[inline]
    pub fn clear(&mut self, slot: usize) {
        let (set, way) = self.set_and_way(slot);
        self.tags[slot] = NO_LINE;
        self.sets[set].empty |= 1 << way;
    }

    /// Every slot that has a line.
    pub fn taken(&self) -> Vec<usize> {
        let sets = 0..self.sets.len();
        sets.flat_map(|set| self.taken_in(set)).collect()
    }
}

#[cfg(all(test, not(feature = "mutants")))]
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
