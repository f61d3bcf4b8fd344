//! The bytes of Classic on its media: the region of the cache, and the journal on the disk.
//!
//! The region holds the header, then the cache's metadata blocks, then the slots. A metadata block
//! holds the entries of as many slots as fit, 16 bytes each as in Flashcache. The last blocks of the
//! disk are the journal: its superblock, then the log, which is a ring.

use forebay::{ErrorKind, Result};

use crate::engines::{EngineOptions, JournalMode};
use crate::shared::HEADER_BYTES;

/// Bytes of a slot's entry in a metadata block.
pub(super) const ENTRY_BYTES: usize = 16;
/// Bytes of a journal block before its tags or revoked numbers.
pub(super) const JOURNAL_HEADER_BYTES: usize = 32;
/// Bytes of a descriptor's tag: the block's number on the disk, then its flags.
pub(super) const TAG_BYTES: usize = 16;
/// Bytes of a revoked number.
pub(super) const REVOKE_BYTES: usize = 8;
/// What every block of the journal but the log blocks begins with.
pub(super) const JOURNAL_MAGIC: u32 = 0x464a_424c;
/// A tag's flag: the log block began with the magic, which stands there as zero.
pub(super) const TAG_ESCAPED: u64 = 1;

/// Fewest blocks of a journal: the superblock, a descriptor, a log block and a commit block.
const JOURNAL_BLOCKS_MIN: u64 = 4;
/// Bits of a position in the log, below the sequence in the superblock's tail word.
const POSITION_BITS: u32 = 24;
const BLOCK_BYTES_MIN: usize = 128;

const VALID_BIT: u64 = 1;
const DIRTY_BIT: u64 = 2;
const STATE_BITS: u32 = 2;

const FLAG_AS_PRINTED: u64 = 1;
const FLAG_NO_METADATA: u64 = 2;

// A metadata block and a descriptor of the smallest block hold something, and an entry's words lie
// in one line.
const _: () = assert!(BLOCK_BYTES_MIN.is_multiple_of(ENTRY_BYTES));
const _: () = assert!(JOURNAL_HEADER_BYTES + TAG_BYTES <= BLOCK_BYTES_MIN);
const _: () = assert!(64usize.is_multiple_of(ENTRY_BYTES) && ENTRY_BYTES == 2 * 8);
const _: () = assert!(HEADER_BYTES.is_multiple_of(64));

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing.
    #[default]
    Invalid,
    /// What the disk has, too.
    Clean,
    /// What the disk does not have.
    Dirty,
}

/// A slot's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The block's number on the disk.
    pub(super) number: u64,
    /// What the slot holds of it.
    pub(super) state: State,
}

impl Entry {
    /// The entry's bytes. Flashcache keeps the number and the state in two words, of which a power
    /// cut may keep either: a reused slot's old number with its new state is another block's content
    /// under this block's number. Without `as_printed` both are in one word.
    pub(super) fn to_bytes(self, as_printed: bool) -> [u8; ENTRY_BYTES] {
        let state = match self.state {
            State::Invalid => 0,
            State::Clean => VALID_BIT,
            State::Dirty => VALID_BIT | DIRTY_BIT,
        };
        let (first, second) = if as_printed {
            (self.number, state)
        } else {
            (self.number << STATE_BITS | state, 0)
        };
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        bytes
    }

    /// The entry of these bytes; none if they are not one.
    pub(super) fn from_bytes(bytes: &[u8], as_printed: bool) -> Option<Entry> {
        let (first, second) = (word_at(bytes, 0), word_at(bytes, 8));
        let (number, state) = match as_printed {
            true => (first, second),
            false if second != 0 => return None,
            false => (first >> STATE_BITS, first & (VALID_BIT | DIRTY_BIT)),
        };
        let state = match state {
            0 => State::Invalid,
            VALID_BIT => State::Clean,
            state if state == VALID_BIT | DIRTY_BIT => State::Dirty,
            _ => return None,
        };
        Some(Entry { number, state })
    }
}

/// The little-endian word at a byte offset.
pub(super) fn word_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

/// Where the log's oldest live transaction begins. On the media it is one word, so that no tear
/// parts the position from the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Position in the log, in blocks.
    pub(super) position: u64,
    /// The sequence number that the transaction there has, or will have.
    pub(super) sequence: u64,
}

impl Tail {
    pub(super) fn to_word(self) -> u64 {
        assert!(self.position >> POSITION_BITS == 0, "a position fits");
        assert!(
            self.sequence >> (64 - POSITION_BITS) == 0,
            "a sequence fits"
        );
        self.sequence << POSITION_BITS | self.position
    }

    pub(super) fn from_word(word: u64) -> Tail {
        Tail {
            position: word & ((1 << POSITION_BITS) - 1),
            sequence: word >> POSITION_BITS,
        }
    }
}

/// Where everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Bytes of a block.
    pub(super) block_bytes: usize,
    /// Slots of the cache.
    pub(super) slots: u64,
    /// Neighbouring blocks of the disk that share a set: a power of two.
    pub(super) set_blocks: u64,
    /// Whole blocks of the disk, the journal's included.
    pub(super) disk_blocks: u64,
    /// Blocks of the journal, the last ones of the disk; none without a journal.
    pub(super) journal_blocks: u64,
    /// Entries lie in two words, as Flashcache has them.
    pub(super) as_printed: bool,
    /// Metadata blocks are written at all.
    pub(super) updates_metadata: bool,
}

impl Geometry {
    /// What `options` make of a region and a disk.
    pub(super) fn plan(
        region_bytes: u64,
        disk_bytes: u64,
        options: &EngineOptions,
    ) -> Result<Geometry> {
        let block_bytes = options.block_bytes;
        check_block_bytes(block_bytes)?;
        let blocks = region_bytes.saturating_sub(metadata_offset(block_bytes)) / block_bytes as u64;
        let entries = (block_bytes / ENTRY_BYTES) as u64;
        let disk_blocks = disk_bytes / block_bytes as u64;
        let geometry = Geometry {
            block_bytes,
            slots: blocks - blocks.div_ceil(entries + 1),
            set_blocks: options.set_blocks as u64,
            disk_blocks,
            journal_blocks: journal_blocks(disk_blocks, options),
            as_printed: options.as_printed,
            updates_metadata: options.updates_metadata,
        };
        if let Some(problem) = geometry.problem(region_bytes) {
            return Err(ErrorKind::Options(problem).into());
        }
        Ok(geometry)
    }

    /// What is wrong with it over a region of that size.
    pub(super) fn problem(&self, region_bytes: u64) -> Option<String> {
        if self.slots == 0 || self.slots > u64::from(u32::MAX) {
            return Some(format!(
                "{region_bytes} bytes make {} slots of {} bytes; it takes 1 to 2^32 - 1",
                self.slots, self.block_bytes
            ));
        }
        let blocks = region_bytes.saturating_sub(metadata_offset(self.block_bytes))
            / self.block_bytes as u64;
        if self.slots + self.metadata_blocks() > blocks {
            let slots = self.slots;
            return Some(format!("{slots} slots do not fit {region_bytes} bytes"));
        }
        if !self.set_blocks.is_power_of_two() {
            let set_blocks = self.set_blocks;
            return Some(format!(
                "sets of {set_blocks} blocks; it takes a power of two"
            ));
        }
        let journal = self.journal_blocks;
        let has_journal = (JOURNAL_BLOCKS_MIN..=1 << POSITION_BITS).contains(&journal);
        if journal != 0 && !has_journal || journal >= self.disk_blocks {
            return Some(format!(
                "a journal of {journal} blocks on a disk of {} blocks; it takes \
                 {JOURNAL_BLOCKS_MIN} to 2^{POSITION_BITS}, and one block of the disk for data",
                self.disk_blocks
            ));
        }
        None
    }

    /// What the header keeps of it, beside the sizes of blocks and disk.
    pub(super) fn to_words(self) -> [u64; 4] {
        let as_printed = if self.as_printed { FLAG_AS_PRINTED } else { 0 };
        let no_metadata = if self.updates_metadata {
            0
        } else {
            FLAG_NO_METADATA
        };
        [
            self.slots,
            self.set_blocks,
            self.journal_blocks,
            as_printed | no_metadata,
        ]
    }

    /// The geometry that a header has kept; the caller checks it.
    pub(super) fn from_words(block_bytes: usize, disk_bytes: u64, words: [u64; 4]) -> Geometry {
        Geometry {
            block_bytes,
            slots: words[0],
            set_blocks: words[1],
            disk_blocks: disk_bytes / block_bytes as u64,
            journal_blocks: words[2],
            as_printed: words[3] & FLAG_AS_PRINTED != 0,
            updates_metadata: words[3] & FLAG_NO_METADATA == 0,
        }
    }

    /// Entries of a metadata block.
    pub(super) fn entries_per_block(&self) -> u64 {
        (self.block_bytes / ENTRY_BYTES) as u64
    }

    /// The metadata block that has a slot's entry.
    pub(super) fn metadata_block_of(&self, slot: u32) -> u64 {
        u64::from(slot) / self.entries_per_block()
    }

    /// Metadata blocks of the region.
    pub(super) fn metadata_blocks(&self) -> u64 {
        self.slots.div_ceil(self.entries_per_block())
    }

    /// Byte offset of a metadata block in the region.
    pub(super) fn metadata_offset(&self, block: u64) -> u64 {
        metadata_offset(self.block_bytes) + block * self.block_bytes as u64
    }

    /// Byte offset of a slot in the region.
    pub(super) fn slot_offset(&self, slot: u32) -> u64 {
        self.metadata_offset(self.metadata_blocks() + u64::from(slot))
    }

    /// Sets of the cache; at least one.
    pub(super) fn sets(&self) -> u64 {
        (self.slots / self.set_blocks).max(1)
    }

    /// The set of a block: neighbours share one (Flashcache's design document).
    pub(super) fn set_of(&self, number: u64) -> usize {
        (number / self.set_blocks % self.sets()) as usize
    }

    /// A set's first slot. The slots that do not fill a set of their own are shared out, where
    /// Flashcache leaves them unused.
    pub(super) fn first_slot(&self, set: usize) -> u32 {
        (u128::from(self.slots) * set as u128 / u128::from(self.sets())) as u32
    }

    /// Slots of a set.
    pub(super) fn slots_of(&self, set: usize) -> u32 {
        self.first_slot(set + 1) - self.first_slot(set)
    }

    /// The disk's first block that belongs to the journal: as many are there for data.
    pub(super) fn journal_first(&self) -> u64 {
        self.disk_blocks - self.journal_blocks
    }
}

/// Refuses a block size that Classic cannot have.
pub(super) fn check_block_bytes(block_bytes: usize) -> Result<()> {
    if block_bytes.is_power_of_two() && block_bytes >= BLOCK_BYTES_MIN {
        return Ok(());
    }
    Err(ErrorKind::Options(format!(
        "blocks of {block_bytes} bytes; it takes a power of two from {BLOCK_BYTES_MIN}"
    ))
    .into())
}

/// Where the metadata blocks begin: Flashcache's superblock, here the header, has a block.
fn metadata_offset(block_bytes: usize) -> u64 {
    HEADER_BYTES.next_multiple_of(block_bytes as u64)
}

/// Without a wish, 1/64 of the disk, on small disks 16 blocks but no more than half of it.
fn journal_blocks(disk_blocks: u64, options: &EngineOptions) -> u64 {
    match (options.journal_blocks, options.journal_mode) {
        (Some(blocks), _) => blocks,
        (None, JournalMode::None) => 0,
        (None, JournalMode::Data | JournalMode::Ordered) => (disk_blocks / 64)
            .max(16.min(disk_blocks / 2))
            .clamp(JOURNAL_BLOCKS_MIN, 1 << POSITION_BITS),
    }
}
