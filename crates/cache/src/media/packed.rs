//! Packed blocks: a slot that holds only what a block does not share with its base.
//!
//! A header line tells which pieces of the block follow it; all others are those of the base, which
//! is zeroes or another slot, plain, that is not changed as long as it is one. A piece is a cache
//! line, or a 64th of the block if that is more.

use crate::media::Media;
use crate::media::layout::{LINE_BYTES, PACKED_HEADER_BYTES, PackedHeader};
use crate::media::view::Half;

/// Pieces of a block at most: one bit each in the header.
const PIECES_MAX: usize = 64;

/// What a packed slot is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packing {
    /// One bit for each piece that stands in the slot.
    pub(crate) pieces: u64,
    /// The slot that has the other ones; zeroes if none.
    pub(crate) base: Option<u32>,
}

/// Bytes of a piece of blocks of this size.
#[inline]
pub(crate) fn piece_bytes(block_bytes: usize) -> usize {
    (block_bytes / PIECES_MAX).max(LINE_BYTES as usize)
}

impl Packing {
    /// The pieces of the block that are the base's, each with its offset, which is the same in both.
    pub(super) fn pieces_of_base(self, block: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
        let piece_bytes = piece_bytes(block.len());
        let pieces = block.chunks_exact(piece_bytes).enumerate();
        pieces
            .filter(move |(number, _)| self.pieces >> number & 1 == 0)
            .map(move |(number, piece)| (number * piece_bytes, piece))
    }
}

/// What a slot holds of a block that is packed like this, whole lines.
pub(super) fn packed_bytes(block: &[u8], packing: Packing) -> Vec<u8> {
    let header = PackedHeader {
        pieces: packing.pieces,
        base: packing.base.map_or(0, |base| base + 1),
        reserved: [0; 48],
        crc: 0,
    };
    let mut packed = Vec::with_capacity(block.len() + PACKED_HEADER_BYTES);
    packed.extend_from_slice(&header.encode());
    for (number, piece) in block.chunks_exact(piece_bytes(block.len())).enumerate() {
        if packing.pieces >> number & 1 != 0 {
            packed.extend_from_slice(piece);
        }
    }
    assert!(packed.len() <= block.len(), "a packed block fits its slot");
    packed
}

impl Media {
    /// Streams a block into a private slot, packed. Durable after a fence.
    pub(crate) fn stream_packed(&self, slot: u32, block: &[u8], packing: Packing) {
        let packed = packed_bytes(block, packing);
        self.begin_slot(slot);
        self.stream_slot_lines(slot, 0, &packed);
    }

    /// How a slot is packed; `None` if what stands there is no packed block.
    pub(crate) fn packing(&self, slot: u32) -> Option<Packing> {
        let found = self.packing_on(slot, None);
        match self.is_mirrored() && found.is_none() {
            true => self.packing_elsewhere(slot),
            false => found,
        }
    }

    /// The same of a given half.
    pub(super) fn packing_on(&self, slot: u32, half: Option<Half<'_>>) -> Option<Packing> {
        let mut raw = [0; PACKED_HEADER_BYTES];
        self.read_slot_on(slot, half, 0, &mut raw);
        let header = PackedHeader::decode(&raw)?;
        let base = header.base.checked_sub(1);
        let (block, piece) = (self.block_bytes(), piece_bytes(self.block_bytes()));
        let kept = header.pieces.count_ones() as usize;
        let is_sound = base.is_none_or(|base| base < self.slots() && base != slot)
            && (block / piece == PIECES_MAX || header.pieces >> (block / piece) == 0)
            && PACKED_HEADER_BYTES + kept * piece <= block;
        is_sound.then_some(Packing {
            pieces: header.pieces,
            base,
        })
    }

    /// Puts a packed block together; false if it is none. Whether the result is right, its CRC tells.
    pub(crate) fn read_packed(&self, slot: u32, out: &mut [u8]) -> bool {
        self.read_packed_on(slot, None, None, out)
    }

    /// The same of given halves, of the slot and of its base.
    pub(super) fn read_packed_on(
        &self,
        slot: u32,
        own: Option<Half<'_>>,
        of_base: Option<Half<'_>>,
        out: &mut [u8],
    ) -> bool {
        debug_assert_eq!(out.len(), self.block_bytes());
        let Some(packing) = self.packing_on(slot, own) else {
            return false;
        };
        match packing.base {
            Some(base) => self.read_slot_on(base, of_base, 0, out),
            None => out.fill(0),
        }
        let mut at = PACKED_HEADER_BYTES;
        let piece_bytes = piece_bytes(out.len());
        for (number, piece) in out.chunks_exact_mut(piece_bytes).enumerate() {
            if packing.pieces >> number & 1 != 0 {
                self.read_slot_on(slot, own, at, piece);
                at += piece_bytes;
            }
        }
        of_base.is_some() || !packing.base.is_some_and(|base| self.slot_lost(base))
    }

    /// Copies a part of a slot out, from where it is read or from a given half.
    fn read_slot_on(&self, slot: u32, half: Option<Half<'_>>, offset: usize, out: &mut [u8]) {
        match half {
            None => self.read_slot(slot, offset, out),
            Some(half) => half.region.read(half.offset + offset as u64, out),
        }
    }
}
