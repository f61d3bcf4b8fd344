//! Where Tinca's bytes lie (Tinca §4.2, Figure 5), and what the two words of a cache entry say.
//!
//! ```text
//! 0        header of the lab: which engine, over which disk
//! 256      Head          positions that count up for ever; the ring's element is the position
//! 320      Tail          modulo the number of elements, so that a full ring is not an empty one
//! 384      ring          8-byte disk block numbers
//!          entries       16 bytes each, four to a line
//!          blocks        the slots; block-aligned
//! ```
//!
//! Head and Tail have a line each: the paper does not say, and a line that goes bad then takes one of
//! them only. It makes no difference to the counts.

use forebay::{ErrorKind, Result};
use forebay_pmem::LINE_BYTES;

use super::Protocol;
use crate::engines::EngineOptions;
use crate::shared::HEADER_BYTES;

/// Offset of Head, the position of the next element to write.
pub(super) const HEAD_OFFSET: u64 = HEADER_BYTES;
/// Offset of Tail, the position of the first element of the transaction under commit.
pub(super) const TAIL_OFFSET: u64 = HEAD_OFFSET + LINE_BYTES as u64;
const RING_OFFSET: u64 = TAIL_OFFSET + LINE_BYTES as u64;
const ELEMENT_BYTES: u64 = 8;
/// Bytes of a cache entry.
pub(super) const ENTRY_BYTES: u64 = 16;

/// Where Head can be at most, so that it never overflows: it takes centuries of commits to get there.
pub(super) const POSITION_MAX: u64 = 1 << 62;

/// Bytes of the ring unless the options or a small region say otherwise (§5.1).
const RING_BYTES_DEFAULT: u64 = 1 << 20;
/// A region has this many times the bytes of its ring, if not more.
const REGION_PER_RING: u64 = 64;
const BLOCK_BYTES_MIN: usize = 128;
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// The fewest with which one block can be committed in any state of the cache.
const SLOTS_MIN: u64 = 2;

/// Word 0: the flags are its topmost byte, the disk block number the other seven.
const PRINTED_ROLE: u64 = 1 << 63;
const MODIFIED: u64 = 1 << 62;
const PRINTED_VALID: u64 = 1 << 61;
const DISK_BLOCK_BITS: u32 = 56;
const DISK_BLOCKS_MAX: u64 = 1 << DISK_BLOCK_BITS;
/// Word 1: the previous slot is its upper half, the current slot its lower half.
const ROLE: u64 = 1 << 63;
const VALID: u64 = 1 << 31;
/// The tag in place of the previous slot of a block that had none.
const FRESH: u64 = (1 << 31) - 1;
const SLOT_MASK: u64 = FRESH;

const _: () = {
    assert!(HEADER_BYTES.is_multiple_of(LINE_BYTES as u64));
    assert!(RING_OFFSET.is_multiple_of(LINE_BYTES as u64));
    assert!(LINE_BYTES as u64 == 4 * ENTRY_BYTES && LINE_BYTES as u64 == 8 * ELEMENT_BYTES);
    assert!((PRINTED_ROLE | MODIFIED | PRINTED_VALID) >> DISK_BLOCK_BITS << DISK_BLOCK_BITS != 0);
    assert!((PRINTED_ROLE | MODIFIED | PRINTED_VALID) & (DISK_BLOCKS_MAX - 1) == 0);
    assert!(ROLE & (SLOT_MASK << 32) == 0 && VALID & SLOT_MASK == 0);
};

/// What a region is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Bytes of a block.
    pub(super) block_bytes: usize,
    /// Blocks of the disk, the last of which it may not have whole.
    pub(super) disk_blocks: u64,
    /// Elements of the ring.
    pub(super) ring_elements: u64,
    /// Slots for blocks, and entries too: a cached block has one entry and at least one slot.
    pub(super) slots: u32,
    entries_offset: u64,
    blocks_offset: u64,
}

impl Geometry {
    /// The largest cache that fits `region_bytes`.
    ///
    /// # Errors
    /// `Options`: a block size that no engine takes, or too little room.
    pub(super) fn fit(
        region_bytes: u64,
        disk_bytes: u64,
        options: &EngineOptions,
    ) -> Result<Geometry> {
        let block_bytes = options.block_bytes;
        if !is_block_size(block_bytes) {
            return Err(ErrorKind::Options(format!(
                "blocks of {block_bytes} bytes; a power of two from {BLOCK_BYTES_MIN} to \
                 {BLOCK_BYTES_MAX} is needed"
            ))
            .into());
        }
        let ring_bytes = RING_BYTES_DEFAULT.min(region_bytes / REGION_PER_RING);
        let ring_elements = options
            .ring_elements
            .unwrap_or((ring_bytes / ELEMENT_BYTES).max(1));
        // An upper bound; rounding costs a few blocks at most.
        let bound = (region_bytes / (block_bytes as u64 + ENTRY_BYTES)).min(FRESH);
        let fitting = (SLOTS_MIN..=bound).rev().find_map(|slots| {
            Geometry::new(block_bytes, disk_bytes, ring_elements, slots)
                .filter(|geometry| geometry.end() <= region_bytes)
        });
        fitting.ok_or_else(|| {
            ErrorKind::Options(format!(
                "{region_bytes} bytes are too few for a ring of {ring_elements} elements and \
                 {SLOTS_MIN} blocks of {block_bytes} bytes"
            ))
            .into()
        })
    }

    /// The division by these numbers, unless one of them is out of range.
    pub(super) fn new(
        block_bytes: usize,
        disk_bytes: u64,
        ring_elements: u64,
        slots: u64,
    ) -> Option<Geometry> {
        let disk_blocks = disk_bytes.div_ceil(block_bytes.max(1) as u64);
        let is_sound = is_block_size(block_bytes)
            && ring_elements > 0
            && (SLOTS_MIN..FRESH).contains(&slots)
            && disk_blocks <= DISK_BLOCKS_MAX;
        if !is_sound {
            return None;
        }
        let line = LINE_BYTES as u64;
        let ring_bytes = ring_elements
            .checked_mul(ELEMENT_BYTES)?
            .checked_next_multiple_of(line)?;
        let entries_offset = RING_OFFSET.checked_add(ring_bytes)?;
        let blocks_offset = entries_offset
            .checked_add(slots * ENTRY_BYTES)?
            .checked_next_multiple_of(block_bytes as u64)?;
        blocks_offset.checked_add(slots * block_bytes as u64)?;
        Some(Geometry {
            block_bytes,
            disk_blocks,
            ring_elements,
            slots: u32::try_from(slots).ok()?,
            entries_offset,
            blocks_offset,
        })
    }

    /// The byte after the last slot.
    pub(super) fn end(&self) -> u64 {
        self.slot(self.slots)
    }

    /// Offset of a slot's block.
    pub(super) fn slot(&self, slot: u32) -> u64 {
        self.blocks_offset + u64::from(slot) * self.block_bytes as u64
    }

    /// Offset of an entry.
    pub(super) fn entry(&self, index: u32) -> u64 {
        self.entries_offset + u64::from(index) * ENTRY_BYTES
    }

    /// Offset of the ring's element for a position of Head or Tail.
    pub(super) fn element(&self, position: u64) -> u64 {
        RING_OFFSET + position % self.ring_elements * ELEMENT_BYTES
    }

    /// Blocks that a transaction may change: each needs an element of the ring and, with its previous
    /// version, up to two slots that cannot be evicted (§4.6).
    pub(super) fn transaction_blocks_max(&self) -> usize {
        self.ring_elements.min(u64::from(self.slots) / 2) as usize
    }
}

fn is_block_size(block_bytes: usize) -> bool {
    block_bytes.is_power_of_two() && (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes)
}

/// What a cache entry in use says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The block's number on the disk.
    pub(super) disk_block: u64,
    /// Its role: under commit (log block), or not (buffer block).
    pub(super) is_log: bool,
    /// Whether the disk may hold something older.
    pub(super) is_modified: bool,
    /// The slot of the version before the newest commit of the block, none where there was none. It
    /// means something only until that commit has moved Tail.
    pub(super) previous: Option<u32>,
    /// The slot of its newest version.
    pub(super) current: u32,
}

impl Entry {
    /// The two words of the entry.
    ///
    /// **Differs from the paper** (docs/inside/papers.md, Tinca, finding 2): Figure 5 has the role in word 0,
    /// and a bit for "in use" can then only stand there too. Ours have both in word 1, which is whole
    /// after a power cut, so that it alone says what the entry is.
    pub(super) fn words(&self, protocol: Protocol) -> [u64; 2] {
        let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        let number = self.disk_block | bit(self.is_modified, MODIFIED);
        let slots = self.previous.map_or(FRESH, u64::from) << 32 | u64::from(self.current);
        match protocol {
            Protocol::Printed => [
                number | PRINTED_VALID | bit(self.is_log, PRINTED_ROLE),
                slots,
            ],
            Protocol::Hardened => [number, slots | VALID | bit(self.is_log, ROLE)],
        }
    }

    /// The words of the entry once it is free: all but the "in use" bit may stay.
    pub(super) fn freed_words(&self, protocol: Protocol) -> [u64; 2] {
        let [number, slots] = self.words(protocol);
        match protocol {
            Protocol::Printed => [number & !PRINTED_VALID, slots],
            Protocol::Hardened => [number, slots & !VALID],
        }
    }

    /// What two words say; none for a free entry. Any words are taken.
    pub(super) fn from_words([number, slots]: [u64; 2], protocol: Protocol) -> Option<Entry> {
        let (is_valid, is_log) = match protocol {
            Protocol::Printed => (number & PRINTED_VALID != 0, number & PRINTED_ROLE != 0),
            Protocol::Hardened => (slots & VALID != 0, slots & ROLE != 0),
        };
        let previous = slots >> 32 & SLOT_MASK;
        is_valid.then_some(Entry {
            disk_block: number & (DISK_BLOCKS_MAX - 1),
            is_log,
            is_modified: number & MODIFIED != 0,
            previous: (previous != FRESH).then_some(previous as u32),
            current: (slots & SLOT_MASK) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_its_words_in_both_protocols() {
        for protocol in [Protocol::Hardened, Protocol::Printed] {
            for (is_log, is_modified, previous) in [
                (true, true, Some(7)),
                (false, true, None),
                (false, false, Some(0)),
            ] {
                let entry = Entry {
                    disk_block: DISK_BLOCKS_MAX - 1,
                    is_log,
                    is_modified,
                    previous,
                    current: 0x7fff_fffe,
                };
                assert_eq!(
                    Entry::from_words(entry.words(protocol), protocol),
                    Some(entry)
                );
                assert_eq!(
                    Entry::from_words(entry.freed_words(protocol), protocol),
                    None
                );
            }
            assert_eq!(Entry::from_words([0, 0], protocol), None);
        }
    }

    #[test]
    fn the_papers_example_needs_0_4_percent_for_entries() {
        let options = EngineOptions::default();
        let geometry = Geometry::fit(8 << 30, 128 << 30, &options).expect("it fits");
        assert_eq!(geometry.ring_elements * ELEMENT_BYTES, 1 << 20);
        let entry_bytes = u64::from(geometry.slots) * ENTRY_BYTES;
        assert!(
            (31 << 20..=32 << 20).contains(&entry_bytes),
            "{entry_bytes}"
        );
        assert!(geometry.end() <= 8 << 30 && geometry.end() + 3 * 4096 > 8 << 30);
    }

    #[test]
    fn numbers_out_of_range_make_no_geometry() {
        assert!(Geometry::new(4096, 1 << 20, 8, 8).is_some());
        for (block_bytes, disk_bytes, ring, slots) in [
            (0, 1 << 20, 8, 8),
            (4095, 1 << 20, 8, 8),
            (4096, 1 << 20, 0, 8),
            (4096, 1 << 20, u64::MAX / 8, 8),
            (4096, 1 << 20, 8, 1),
            (4096, 1 << 20, 8, u64::MAX),
        ] {
            let made = Geometry::new(block_bytes, disk_bytes, ring, slots);
            assert_eq!(made, None, "{block_bytes} {disk_bytes} {ring} {slots}");
        }
        let tiny = EngineOptions {
            block_bytes: 128,
            ring_elements: Some(8),
            ..EngineOptions::default()
        };
        assert!(Geometry::fit(600, 1 << 20, &tiny).is_err());
        assert!(
            Geometry::fit(
                1 << 20,
                1 << 20,
                &EngineOptions {
                    block_bytes: 100,
                    ..tiny
                }
            )
            .is_err()
        );
    }
}
