//! What stands on the disk, and where.

use super::config::Config;
use crate::memory::{Memory, Word};

/// What became of a block, or of both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// A block has these bytes, which stand in that unit.
    Block {
        /// Where.
        unit: u8,
        /// Both halves; the check of a block is of these.
        value: u8,
    },
    /// So many blocks read as zeroes.
    Zero(u8),
    /// So many blocks are as the backing has them.
    Gone(u8),
}

/// One element of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Element {
    /// The first block.
    pub key: u8,
    /// What became of it.
    pub shape: Shape,
    /// Whether the backing has it.
    pub is_clean: bool,
}

impl Element {
    /// The blocks that it is of.
    pub fn keys(&self) -> std::ops::Range<usize> {
        let count = match self.shape {
            Shape::Block { .. } => 1,
            Shape::Zero(count) | Shape::Gone(count) => count,
        };
        usize::from(self.key)..usize::from(self.key + count)
    }
}

/// What a page has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Page {
    /// The first page of a segment.
    Header {
        /// Its number.
        segment: u8,
        /// That in which it was written.
        incarnation: u8,
        /// The number of its first group.
        first_group: u8,
    },
    /// The first page of a group.
    Record {
        /// Its number.
        group: u8,
        /// Where it stands: a record elsewhere is none.
        place: (u8, u8),
        /// The incarnation that wrote it: its tag is made with the salt.
        incarnation: u8,
        /// The sequence of its first element.
        first_sequence: u8,
        /// The oldest segment that counts.
        tail: u8,
        /// What is clean by a sequence.
        point: u8,
        /// Its elements.
        elements: Vec<Element>,
    },
    /// A block.
    Block(u8),
    /// The last page of a segment.
    Summary {
        /// Its number.
        segment: u8,
        /// The sequence of its first element.
        first_sequence: u8,
        /// The first and the last group.
        groups: (u8, u8),
        /// As a record's.
        tail: u8,
        /// As a record's.
        point: u8,
        /// All elements of the segment.
        elements: Vec<Element>,
    },
    /// An incarnation line.
    Line {
        /// Its number.
        incarnation: u8,
        /// The first segment that it may write.
        first_segment: u8,
    },
}

/// Every page that was ever written; what stands on the disk is a number of one, and 0 is none.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Pages(Vec<Page>);

impl Pages {
    /// The word for a page.
    pub fn word(&mut self, page: Page) -> Word {
        let known = self.0.iter().position(|known| *known == page);
        let at = known.unwrap_or_else(|| {
            self.0.push(page);
            self.0.len() - 1
        });
        at as Word + 1
    }

    /// What a unit has.
    pub fn read(&self, disk: &Memory, unit: u8) -> Option<&Page> {
        let word = disk.view(usize::from(unit));
        self.0.get(usize::try_from(word).ok()?.checked_sub(1)?)
    }
}

/// Units of the incarnation lines; segments follow.
pub const LINES: u8 = 2;

/// Where things are.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    places: u8,
    pages: u8,
}

impl Layout {
    /// Of a world.
    pub fn new(config: &Config) -> Self {
        Layout {
            places: config.places,
            pages: config.pages,
        }
    }

    /// All units.
    pub fn units(self) -> usize {
        usize::from(LINES + self.places * (self.pages + 1))
    }

    /// A page of a segment.
    pub fn unit(self, segment: u8, page: u8) -> u8 {
        LINES + segment % self.places * (self.pages + 1) + page
    }

    /// The page of a segment's summary.
    pub fn summary(self, segment: u8) -> u8 {
        self.unit(segment, self.pages)
    }
}
