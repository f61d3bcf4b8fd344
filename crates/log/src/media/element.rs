//! Elements: what became of one block, or of a range of blocks.

use super::geometry::Geometry;
use super::layout::{ElementLine, INLINE_BYTES_MAX, VOLUMES_MAX};
use crate::page::PAGE_BYTES;
use forebay_pmem::crc32c;

/// Bits of a block number.
pub(crate) const BLOCK_BITS: u32 = 36;
/// Blocks of the largest volume.
const BLOCKS_MAX: u64 = 1 << BLOCK_BITS;
const VOLUME_SHIFT: u32 = 44;
const BLOCK_SHIFT: u32 = 8;
const FLAG_CLEAN: u64 = 1;
/// Of an inline element: what lies behind its bytes in the block is zero.
const INLINE_END_ZERO: u64 = 1;
const SHAPE_SHIFT: u32 = 4;
const SHAPE_MASK: u64 = 0xF;

/// Which block of which volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) volume: u32,
    pub(crate) block: u64,
}

impl Key {
    /// A well mixed hash.
    pub(crate) fn hash(self) -> u64 {
        let bits = u64::from(self.volume) << VOLUME_SHIFT | self.block << BLOCK_SHIFT;
        let mut h = bits ^ bits >> 32;
        h = h.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        h ^= h >> 29;
        h = h.wrapping_mul(0xBF58_476D_1CE4_E5B9);
        h ^ h >> 32
    }
}

/// The check of a block: its CRC-32C, mixed with its key so that a block that strays never matches.
pub(crate) fn check_of(key: Key, bytes: &[u8]) -> u32 {
    crc32c(bytes) ^ ((key.hash() >> 7) as u32 | 1)
}

/// Bytes of a block that stand in the record itself, to be laid over what the block was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inline {
    /// The page in which they begin, and at which of its bytes: known when the group is closed.
    pub(crate) page: u32,
    pub(crate) at: u16,
    /// The check of these bytes.
    pub(crate) check: u32,
    /// The first of them in the block.
    pub(crate) offset: u16,
    pub(crate) len: u16,
    /// What lies behind them in the block is zero.
    pub(crate) is_end_zero: bool,
}

impl Inline {
    /// The bytes of the block that it says.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        let offset = usize::from(self.offset);
        match self.is_end_zero {
            true => offset..PAGE_BYTES,
            false => offset..offset + usize::from(self.len),
        }
    }

    /// Whether it says all of the block.
    pub(crate) fn is_whole(&self) -> bool {
        self.range().len() == PAGE_BYTES
    }

    fn encode(&self) -> u64 {
        u64::from(self.offset)
            | u64::from(self.len) << 16
            | u64::from(self.at) << 32
            | (u64::from(self.is_end_zero) * INLINE_END_ZERO) << 48
    }

    fn decode(line: &ElementLine) -> Option<Inline> {
        let word = |shift: u32| (line.count >> shift) as u16;
        let inline = Inline {
            page: line.page,
            at: word(32),
            check: line.check,
            offset: word(0),
            len: word(16),
            is_end_zero: u64::from(word(48)) & INLINE_END_ZERO != 0,
        };
        let end = usize::from(inline.offset) + usize::from(inline.len);
        let is_one = usize::from(inline.len) <= INLINE_BYTES_MAX
            && end <= PAGE_BYTES
            && usize::from(inline.at) < PAGE_BYTES;
        is_one.then_some(inline)
    }
}

/// What an element says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A page has the block.
    Block { page: u32, check: u32 },
    /// From the block on so many read as zeroes.
    Zero { count: u64 },
    /// From the block on so many are as the backing has them: the pool has let go of them.
    Gone { count: u64 },
    /// The record has some of its bytes.
    Inline(Inline),
}

/// An element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) key: Key,
    pub(crate) shape: Shape,
    /// The backing has the same.
    pub(crate) is_clean: bool,
}

impl Element {
    /// Stores it at the start of `out`.
    ///
    /// # Panics
    /// A volume has no such blocks: what no bits are left for would name another volume's.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        let (shape, page, check, count) = match self.shape {
            Shape::Block { page, check } => (1, page, check, 1),
            Shape::Zero { count } => (2, 0, 0, count),
            Shape::Gone { count } => (3, 0, 0, count),
            Shape::Inline(inline) => (4, inline.page, inline.check, inline.encode()),
        };
        let blocks = match self.shape {
            Shape::Inline(_) => 1,
            _ => count,
        };
        let is_within = self.key.block < BLOCKS_MAX && blocks <= BLOCKS_MAX - self.key.block;
        assert!(is_within, "{self:?} is of one volume");
        let key = (u64::from(self.key.volume) << VOLUME_SHIFT)
            | (self.key.block << BLOCK_SHIFT)
            | (shape << SHAPE_SHIFT)
            | (u64::from(self.is_clean) * FLAG_CLEAN);
        let line = ElementLine {
            key,
            page,
            check,
            count,
        };
        line.encode(out);
    }

    /// What the start of `bytes` says; none if no element of a pool of this plan says so.
    pub(crate) fn decode(bytes: &[u8], geometry: Geometry) -> Option<Element> {
        let line = ElementLine::decode(bytes);
        let key = Key {
            volume: (line.key >> VOLUME_SHIFT) as u32,
            block: line.key >> BLOCK_SHIFT & ((1 << BLOCK_BITS) - 1),
        };
        if key.volume == 0 || key.volume as usize > VOLUMES_MAX {
            return None;
        }
        let is_range =
            (1..=BLOCKS_MAX).contains(&line.count) && key.block + line.count <= BLOCKS_MAX;
        let shape = match line.key >> SHAPE_SHIFT & SHAPE_MASK {
            1 if geometry.place_of_page(line.page).is_some() => Shape::Block {
                page: line.page,
                check: line.check,
            },
            2 if is_range => Shape::Zero { count: line.count },
            3 if is_range => Shape::Gone { count: line.count },
            4 if geometry.place_of_page(line.page).is_some() => {
                Shape::Inline(Inline::decode(&line)?)
            }
            _ => return None,
        };
        Some(Element {
            key,
            shape,
            is_clean: line.key & FLAG_CLEAN != 0,
        })
    }

    /// Whether a page of the group has its bytes.
    pub(crate) fn has_block(&self) -> bool {
        matches!(self.shape, Shape::Block { .. })
    }

    /// How many of its bytes the record has.
    pub(crate) fn inline_bytes(&self) -> usize {
        match self.shape {
            Shape::Inline(inline) => inline.len.into(),
            _ => 0,
        }
    }
}
