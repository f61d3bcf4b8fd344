//! Where a block like this one was put lately: small tables from what a block looks like to the entry
//! that has it. Lossy hints: the caller compares the bytes.

use crate::sync::{AtomicU32, Ordering};

/// Places of the table for equal blocks, a slot.
const DUPLICATES_PER_SLOT_SHIFT: u32 = 1;
/// Places of the table for blocks that differ little.
const SIMILAR_PER_SLOT_SHIFT: u32 = 3;
/// Words that two blocks which differ little have in common, mostly.
const SAMPLES: usize = 8;
/// Where in its eighth of the block a sampled word lies: in file systems' tables of 128- or 256-byte
/// records, where time stamps and sizes are not.
const SAMPLE_OFFSET: usize = 40;

/// Entries by what their blocks look like.
pub(crate) struct Candidates {
    /// By the CRC of the block.
    duplicates: Box<[AtomicU32]>,
    /// By a few of its words.
    similar: Box<[AtomicU32]>,
}

/// A block in a few words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sketch(u32);

impl Sketch {
    /// Samples a block.
    pub(crate) fn of(block: &[u8]) -> Sketch {
        let eighth = block.len() / SAMPLES;
        let offset = SAMPLE_OFFSET.min(eighth / 2) & !7;
        let mut hash = 0u64;
        for number in 0..SAMPLES {
            let at = number * eighth + offset;
            hash = (hash ^ word(block, at)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            hash ^= hash >> 32;
        }
        Sketch(hash as u32)
    }
}

/// Whether a block may be zero for the most part.
#[inline]
pub(crate) fn may_be_sparse(block: &[u8]) -> bool {
    let (words, _) = block.as_chunks::<8>();
    let quarter = words.len() / 4;
    // The last first: that the others are inside follows.
    let last = u64::from_le_bytes(words[3 * quarter]);
    last | u64::from_le_bytes(words[quarter]) | u64::from_le_bytes(words[2 * quarter]) == 0
}

#[inline]
fn word(block: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&block[at..at + 8]);
    u64::from_le_bytes(raw)
}

impl Candidates {
    pub(crate) fn new(slots: u32) -> Candidates {
        let table = |shift: u32| {
            let places = (slots >> shift).max(16);
            (0..places).map(|_| AtomicU32::new(0)).collect()
        };
        Candidates {
            duplicates: table(DUPLICATES_PER_SLOT_SHIFT),
            similar: table(SIMILAR_PER_SLOT_SHIFT),
        }
    }

    /// Notes that this entry has a block with this CRC.
    #[inline]
    pub(crate) fn note_duplicate(&self, crc: u32, index: u32) {
        place(&self.duplicates, crc).store(index + 1, Ordering::Relaxed);
    }
    /// Prefetches what `note_duplicate` will store to: behind a block's stores, in time for the next
    /// locked operation, which waits for all stores.
    #[inline]
    pub(crate) fn prefetch_duplicate(&self, crc: u32) {
        forebay_pmem::prefetch(place(&self.duplicates, crc));
    }
    /// The entry that a block with this CRC was last noted for.
    pub(crate) fn duplicate(&self, crc: u32) -> Option<u32> {
        place(&self.duplicates, crc)
            .load(Ordering::Relaxed)
            .checked_sub(1)
    }
    /// Notes that this entry has a block that looks like this.
    pub(crate) fn note_similar(&self, sketch: Sketch, index: u32) {
        place(&self.similar, sketch.0).store(index + 1, Ordering::Relaxed);
    }
    /// The entry that a block like this was last noted for.
    pub(crate) fn similar(&self, sketch: Sketch) -> Option<u32> {
        place(&self.similar, sketch.0)
            .load(Ordering::Relaxed)
            .checked_sub(1)
    }

    /// Bytes of DRAM.
    pub(crate) fn dram_bytes(&self) -> u64 {
        4 * (self.duplicates.len() + self.similar.len()) as u64
    }
}

#[inline]
fn place(table: &[AtomicU32], hash: u32) -> &AtomicU32 {
    // The upper bits of a CRC are as good as the lower ones.
    &table[((u64::from(hash) * table.len() as u64) >> 32) as usize]
}
