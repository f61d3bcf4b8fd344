//! What the units of a member mean: roster, incarnation and checkpoint lines, lanes, table, seals, places.

use super::config::Config;
use crate::memory::Word;

/// A table entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// Whose block.
    pub key: u8,
    /// Twice the pair, plus the member of its first half.
    pub slot: u8,
    /// The backing has the same.
    pub clean: bool,
    /// The check, here the content itself.
    pub value: u8,
}

impl Entry {
    /// The pair that it is in.
    pub fn pair(self) -> usize {
        self.slot as usize / 2
    }
    /// The member of its first half.
    pub fn first(self) -> usize {
        self.slot as usize % 2
    }
    /// What stands in the table.
    pub fn word(self) -> Word {
        let fields = [
            self.key + 1,
            self.slot + 1,
            u8::from(self.clean),
            self.value,
        ];
        Word::from(u32::from_le_bytes(fields))
    }
}

/// The entry that a word of the table stands for.
pub fn decode(word: Word) -> Option<Entry> {
    let [key, slot, clean, value] = (word as u32).to_le_bytes();
    Some(Entry {
        key: key.checked_sub(1)?,
        slot: slot.checked_sub(1)?,
        clean: clean != 0,
        value,
    })
}

/// Bit 63: the unit was written.
const WRITTEN: Word = 1 << 63;

/// What a seal says: the word of its line, and the S that wrote it.
pub fn seal(word: Word, through: u8) -> Word {
    WRITTEN | Word::from(through) << 40 | word
}

/// The seal's word and S, if it was ever written.
pub fn read_seal(seal: Word) -> Option<(Word, u8)> {
    (seal & WRITTEN != 0).then_some((seal & 0xffff_ffff, (seal >> 40) as u8))
}

/// A roster: epoch, the members that are in.
pub fn roster(epoch: u8, members: u8) -> Word {
    WRITTEN | Word::from(epoch) << 8 | Word::from(members)
}

/// Epoch and members of a roster line, if it was written.
pub fn read_roster(word: Word) -> Option<(u8, u8)> {
    (word & WRITTEN != 0).then_some(((word >> 8) as u8, word as u8))
}

/// Incarnation and S, or the sequence that it starts with.
pub fn checkpoint(incarnation: u8, through: u8) -> Word {
    Word::from(incarnation) << 8 | Word::from(through)
}

/// What a record says of one key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Element {
    /// The key.
    pub key: u8,
    /// Its table position.
    pub position: u8,
    /// The entry after it; none where the key left.
    pub entry: Option<Entry>,
    /// The block is changed in place, to the entry's value.
    pub is_delta: bool,
}

/// A log record; its place holds its number plus one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// Its lane.
    pub lane: u8,
    /// Its absolute place in the lane, laps included.
    pub place: u8,
    /// The incarnation that wrote it.
    pub incarnation: u8,
    /// Its sequence.
    pub sequence: u8,
    /// Every sequence up to this one was fenced when it was written.
    pub watermark: u8,
    /// One for each key.
    pub elements: Vec<Element>,
}

/// Where things are, on every member.
#[derive(Clone, Copy)]
pub struct Layout {
    places: usize,
    lanes: usize,
    positions: usize,
    pairs: usize,
}

impl Layout {
    /// The layout of a world.
    pub fn new(config: &Config) -> Self {
        Layout {
            places: config.places,
            lanes: config.lanes,
            positions: config.positions,
            pairs: config.pairs,
        }
    }
    /// Number of units.
    pub fn units(self) -> usize {
        self.half(self.pairs)
    }
    /// One of two lines.
    pub fn roster(self, line: u8) -> usize {
        line as usize % 2
    }
    /// One of two lines.
    pub fn incarnation(self, line: u8) -> usize {
        2 + line as usize % 2
    }
    /// One of two lines.
    pub fn checkpoint(self, line: u8) -> usize {
        4 + line as usize % 2
    }
    /// A record's place.
    pub fn place(self, lane: usize, place: u8) -> usize {
        6 + lane * self.places + place as usize % self.places
    }
    /// All places of all lanes.
    pub fn lanes(self) -> std::ops::Range<usize> {
        self.place(0, 0)..self.place(self.lanes, 0)
    }
    /// A line of the table.
    pub fn position(self, position: u8) -> usize {
        self.place(self.lanes, 0) + position as usize
    }
    /// Its seal.
    pub fn seal(self, position: u8) -> usize {
        self.position(self.positions as u8) + position as usize
    }
    /// This member's half of a pair.
    pub fn half(self, pair: usize) -> usize {
        self.seal(self.positions as u8) + pair
    }
}
