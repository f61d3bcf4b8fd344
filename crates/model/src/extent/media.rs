//! What the units of an extent and its sidecar mean: pages, the region line, sums.

use super::config::{Config, DEVICES_MAX};
use crate::memory::Word;

/// Bit 63: the unit was written.
const WRITTEN: Word = 1 << 63;
const UNVERIFIED: Word = 1 << 62;
const LOST: Word = 1 << 61;
const CONTENT: Word = (1 << 32) - 1;
/// Generations of an epoch.
const EPOCH: u8 = 32;

/// What a sum says of a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sum {
    /// The content that it vouches for.
    pub content: u32,
    /// The pass that made it.
    pub pass: u8,
    /// The page was taken as written after an unorderly end, and nobody said since that it is right.
    pub is_unverified: bool,
    /// The page could not be rebuilt and reads as zero.
    pub is_lost: bool,
}

impl Sum {
    /// What stands in a sidecar.
    pub fn word(self) -> Word {
        let flags = if self.is_unverified { UNVERIFIED } else { 0 };
        let lost = if self.is_lost { LOST } else { 0 };
        WRITTEN | flags | lost | Word::from(self.pass) << 32 | Word::from(self.content)
    }

    /// The sum that a word stands for, if it was ever written.
    pub fn read(word: Word) -> Option<Sum> {
        (word & WRITTEN != 0).then_some(Sum {
            content: (word & CONTENT) as u32,
            pass: (word >> 32) as u8,
            is_unverified: word & UNVERIFIED != 0,
            is_lost: word & LOST != 0,
        })
    }

    /// Whether the page is named.
    pub fn is_named(self) -> bool {
        self.is_unverified || self.is_lost
    }
}

/// What a region line says of the region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// Somebody may store.
    Open,
    /// All sums and parity are right, and nobody has it mapped.
    Sealed,
    /// Sealed, and no program can open it: the keeper has ended in order.
    Closed,
}

/// A region line; both of a sidecar are one unit here, since a torn one leaves the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Line {
    /// Rises with every change: by one, or to the next epoch where an extent is left out.
    pub generation: u8,
    /// What it says of the region.
    pub state: State,
    /// For each extent, the generation that last began without it: of what it held before nothing counts.
    pub since: [u8; DEVICES_MAX],
    /// The boot in which it was written.
    pub boot: u8,
}

impl Line {
    /// The first generation of the next epoch. What an extent that is left out ever had written on it, be it by an open
    /// that nobody else remembers, is of an earlier one.
    pub fn next_epoch(generation: u8) -> u8 {
        (generation / EPOCH + 1) * EPOCH
    }

    /// What stands in a sidecar.
    pub fn word(self) -> Word {
        let [first, second, third] = self.since;
        let state = match self.state {
            State::Open => 0,
            State::Sealed => 1,
            State::Closed => 2,
        };
        let fields = [
            self.generation,
            state,
            self.boot,
            first,
            second,
            third,
            0,
            0,
        ];
        WRITTEN | Word::from_le_bytes(fields)
    }

    /// The line that a word stands for, if it was ever written.
    pub fn read(word: Word) -> Option<Line> {
        let [generation, state, boot, first, second, third, ..] = word.to_le_bytes();
        (word & WRITTEN != 0).then_some(Line {
            generation,
            state: match state {
                0 => State::Open,
                1 => State::Sealed,
                _ => State::Closed,
            },
            since: [first, second, third],
            boot,
        })
    }
}

/// The units of an extent and its sidecar.
#[derive(Clone, Copy)]
pub struct Layout {
    width: usize,
    pages: usize,
}

impl Layout {
    /// The layout of a world.
    pub fn new(config: &Config) -> Self {
        Layout {
            width: config.width,
            pages: config.pages,
        }
    }
    /// Number of units, of any extent.
    pub fn units(self) -> usize {
        self.pages + 1 + self.width * self.pages
    }
    /// The region line.
    pub fn line(self) -> usize {
        self.pages
    }
    /// The sum of a data page, in its own extent's sidecar or the parity's.
    pub fn sum(self, device: usize, page: usize) -> usize {
        let base = self.pages + 1;
        if device == self.width {
            base + page
        } else {
            base + page % self.pages
        }
    }
    /// The unit of a data page within its extent, or of a row's parity.
    pub fn page(self, page: usize) -> usize {
        page % self.pages
    }
    /// The extent of a data page.
    pub fn extent(self, page: usize) -> usize {
        page / self.pages
    }
}
