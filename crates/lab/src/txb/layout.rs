//! What lies where in a region: the log in the first unit, nothing in the other units of that row, objects from then
//! on.
//!
//! An object is a header of one word and its words. It begins with a cache line and lies within one unit, and the
//! next one begins where it ends, so that all of a unit's can be found from its beginning on.

use std::mem::size_of;

/// Bytes of a word.
pub(super) const WORD: u64 = size_of::<u64>() as u64;
/// Bytes of a cache line.
pub(super) const LINE: u64 = 64;
/// Bytes of a page: what txb-page has a checksum of.
pub(super) const PAGE: u64 = 4096;
/// Words of a line.
pub(super) const LINE_WORDS: usize = (LINE / WORD) as usize;

/// What the first word of the first object says.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"FBTXHEAP");
/// Words of the first object: the magic.
pub(super) const ROOT_MAGIC: u64 = 0;
/// Where no object has been yet.
pub(super) const ROOT_END: u64 = 1;
/// What the program finds its own by.
pub(super) const ROOT_PROGRAM: u64 = 2;
/// For each class the first of the objects that were freed.
pub(super) const ROOT_FREE: u64 = 3;
/// Classes of objects: of one line, of two, and so on.
pub(super) const CLASSES: u64 = 32;
/// Words of the first object.
pub(super) const ROOT_WORDS: u64 = ROOT_FREE + CLASSES;

const _: () = assert!(PAGE.is_multiple_of(LINE) && LINE.is_multiple_of(WORD));
const _: () = assert!(block_bytes(ROOT_WORDS) <= PAGE);

/// Bytes of an object of so many words with its header.
pub(super) const fn block_bytes(words: u64) -> u64 {
    ((words + 1) * WORD).next_multiple_of(LINE)
}

/// Words of an object that has so many bytes with its header.
pub(super) const fn words_of_block(bytes: u64) -> u64 {
    bytes / WORD - 1
}

/// An allocation, by the place of its header; or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object(u64);

impl Object {
    /// No object.
    pub const NONE: Object = Object(0);

    /// The one whose header lies there.
    #[must_use]
    pub(super) fn at(header: u64) -> Object {
        Object(header)
    }

    /// From a word that names it.
    #[must_use]
    pub fn from_word(word: u64) -> Object {
        Object(word)
    }

    /// The word that names it.
    #[must_use]
    pub fn to_word(self) -> u64 {
        self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Where its header lies.
    pub(super) fn header(self) -> u64 {
        self.0
    }

    /// Where one of its words lies.
    #[inline]
    pub(super) fn word(self, number: u64) -> u64 {
        self.0 + WORD * (1 + number)
    }
}

/// An object's header: `words:32 | check:32`, low first. The check is of txb-object alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub words: u64,
    pub check: u32,
}

impl Header {
    pub fn decode(word: u64) -> Header {
        Header {
            words: word & u64::from(u32::MAX),
            check: (word >> 32) as u32,
        }
    }

    pub fn encode(self) -> u64 {
        debug_assert!(self.words <= u64::from(u32::MAX));
        self.words | u64::from(self.check) << 32
    }

    /// Bytes of the object with its header.
    pub fn block_bytes(self) -> u64 {
        block_bytes(self.words)
    }

    /// Whether an object of this header may lie so many bytes before the end of its unit.
    pub fn is_possible(self, room: u64) -> bool {
        self.words > 0
            && words_of_block(self.block_bytes()) == self.words
            && self.block_bytes() <= room
    }
}
