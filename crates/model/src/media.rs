//! What the units of the pool's memory mean: incarnation lines, checkpoint lines, lanes, the entry table, slots.

use crate::config::Config;
use crate::memory::{Memory, Word};
use crate::rules::{Mutant, Rules};

/// The bytes of a block: a value for each half, [`ZERO`] for a half that reads as zeroes.
pub type Content = [u8; 2];
/// The value of a zeroed half.
pub const ZERO: u8 = 0;

/// A decoded entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// Whose block.
    pub key: u8,
    /// Where it is; none for a zero entry.
    pub slot: Option<u8>,
    /// The backing has the same bytes.
    pub clean: bool,
    /// Only the first half is valid.
    pub partial: bool,
    /// The checksum, here the covered bytes themselves.
    pub check: u32,
}

/// The checksum of a block: exact, so that neither a torn block nor another key's ever matches.
pub fn check_of(key: u8, content: Content, partial: bool) -> u32 {
    let second = if partial { 0xff } else { content[1] };
    u32::from(key) << 16 | u32::from(content[0]) << 8 | u32::from(second)
}

/// What two halves of a table position say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// Nothing there.
    Free,
    /// One half is missing.
    Torn,
    /// Nothing that was ever stored.
    Damaged,
    /// An entry.
    Holds(Entry),
}

const KEY_ZERO: Word = 1 << 8;
const KEY_PARTIAL: Word = 1 << 9;
const KEY_CLEAN: Word = 1 << 10;
/// A slot half is never all zeroes, not even a zero entry's.
const SLOT_USED: Word = 1 << 8;
/// Where a mutant keeps one parity for both halves. Otherwise each half has its own, which a torn
/// entry always fits, so that it tells the model nothing.
const PARITY_AT: u32 = 40;

fn parity_of_both(key_half: Word, slot_half: Word) -> Word {
    // Any function of all bits that is not zero will do.
    let mixed = (key_half ^ slot_half.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 45 | 1) << PARITY_AT
}

impl Entry {
    /// The key half and the slot half.
    pub fn encode(self, rules: Rules) -> [Word; 2] {
        let mut key_half = Word::from(self.key) + 1;
        let mut slot_half = Word::from(self.check) << 16 | SLOT_USED;
        if self.partial {
            key_half |= KEY_PARTIAL;
        }
        if self.clean {
            key_half |= KEY_CLEAN;
        }
        match self.slot {
            Some(slot) => slot_half |= Word::from(slot) + 1,
            None => key_half |= KEY_ZERO,
        }
        if self.slot.is_none() && rules.breaks(Mutant::ZeroEntryLooksTorn) {
            slot_half = 0;
        } else if rules.breaks(Mutant::OneParityForBothHalves) {
            slot_half |= parity_of_both(key_half, slot_half);
        }
        [key_half, slot_half]
    }
}

/// Decodes a table position.
pub fn decode(halves: [Word; 2]) -> Position {
    let [key_half, slot_half] = halves;
    if key_half == 0 && slot_half == 0 {
        return Position::Free;
    }
    if key_half == 0 || slot_half == 0 {
        return Position::Torn;
    }
    let fields = slot_half & ((1 << PARITY_AT) - 1);
    if fields != slot_half && fields | parity_of_both(key_half, fields) != slot_half {
        return Position::Damaged;
    }
    let zero = key_half & KEY_ZERO != 0;
    let slot = ((fields & 0xff) as u8).checked_sub(1);
    if zero == slot.is_some() {
        return Position::Damaged;
    }
    Position::Holds(Entry {
        key: (key_half & 0xff) as u8 - 1,
        slot,
        clean: key_half & KEY_CLEAN != 0,
        partial: key_half & KEY_PARTIAL != 0,
        check: (fields >> 16) as u32,
    })
}

/// What a record says of one key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Element {
    /// The key.
    pub key: u8,
    /// Its table position.
    pub position: u8,
    /// The kind and its argument.
    pub kind: Kind,
}

/// The kinds of element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// The slot holds the block: a new one, or one shared with another key.
    Block(Entry),
    /// Redo bytes for one half of the slot.
    Delta {
        /// The whole new entry.
        entry: Entry,
        /// Which half.
        half: u8,
        /// Its new bytes.
        value: u8,
    },
    /// The slot's unused half was filled.
    Append(Entry),
    /// The block reads as zeroes.
    Zero(Entry),
    /// The key leaves the cache.
    Tombstone,
}

impl Kind {
    /// The mapping after this element.
    pub fn entry(self) -> Option<Entry> {
        match self {
            Kind::Block(entry)
            | Kind::Append(entry)
            | Kind::Zero(entry)
            | Kind::Delta { entry, .. } => Some(entry),
            Kind::Tombstone => None,
        }
    }
}

/// A log record. The two halves of its place hold its number: it is whole when both do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// The lane it stands in.
    pub lane: u8,
    /// Its absolute place in the lane, laps included.
    pub place: u8,
    /// The salt of the incarnation that wrote it.
    pub salt: u8,
    /// Its sequence.
    pub sequence: u8,
    /// Every sequence up to this one was fenced when the record was written.
    pub watermark: u8,
    /// One for each key.
    pub elements: Vec<Element>,
}

/// Where things are.
#[derive(Clone, Copy)]
pub struct Layout {
    places: usize,
    lanes: usize,
    positions: usize,
    slots: usize,
}

impl Layout {
    /// The layout of a world.
    pub fn new(config: &Config) -> Self {
        Layout {
            places: config.places,
            lanes: config.lanes,
            positions: config.positions,
            slots: config.slots,
        }
    }

    /// Number of units.
    pub fn units(self) -> usize {
        self.slot(self.slots)[0]
    }

    /// One of the two incarnation lines: incarnation and salt.
    pub fn incarnation_line(self, line: usize) -> [usize; 2] {
        [2 * line, 2 * line + 1]
    }

    /// One of the two checkpoint lines: incarnation and S.
    pub fn checkpoint_line(self, line: usize) -> [usize; 2] {
        [4 + 2 * line, 5 + 2 * line]
    }

    /// A lane's commit word: see [`commit_word`].
    pub fn commit_word(self, lane: usize) -> usize {
        8 + lane
    }

    /// A record's place in a lane.
    pub fn place(self, lane: usize, place: u8) -> [usize; 2] {
        let at = 8 + self.lanes + 2 * (lane * self.places + place as usize % self.places);
        [at, at + 1]
    }

    /// An entry: key half, slot half.
    pub fn position(self, position: usize) -> [usize; 2] {
        let at = self.place(self.lanes, 0)[0] + 2 * position;
        [at, at + 1]
    }

    /// A slot's halves.
    pub fn slot(self, slot: usize) -> [usize; 2] {
        let at = self.position(self.positions)[0] + 2 * slot;
        [at, at + 1]
    }
}

/// An incarnation line's or checkpoint line's content, told whole from torn by both units being equal.
pub fn read_line(memory: &Memory, units: [usize; 2]) -> Option<[u8; 2]> {
    let word = memory.view(units[0]);
    (word != 0 && word == memory.view(units[1])).then_some([word as u8, (word >> 8) as u8])
}

/// The word that [`read_line`] takes apart: incarnation, then salt or S.
pub fn line_word(fields: [u8; 2]) -> Word {
    Word::from(fields[0]) | Word::from(fields[1]) << 8
}

/// What a lane's commit word holds: the end of its last fenced record, bound to the incarnation by its salt.
pub fn commit_word(salt: u8, end: u8) -> Word {
    Word::from(salt) << 8 | Word::from(end)
}
