//! The bytes on the media, Spindle's Figure 3, and nothing else.
//!
//! ```text
//! header | Head, Tail | ring | data entries | data blocks
//!        | log headers | log sub-blocks | metadata entries | metadata blocks
//! ```
//!
//! An entry is the number of a disk block and a mapping, 8 bytes each. A mapping is 0 ("NON"), or the
//! number of an NVM block plus one, with a bit for "the disk does not have it". A ring element is an
//! entry with the lap of its position in the top bits of both words; see [`element_words`].

use std::ops::Range;

use forebay::{ErrorKind, Result};
use forebay_pmem::{LINE_BYTES, crc32c};

use crate::engines::{EngineName, EngineOptions};
use crate::shared::{HEADER_BYTES, Header};

/// Where the ring position is of which every earlier one is committed.
pub(super) const HEAD: u64 = HEADER_BYTES;
/// Where the position is that the next ring element gets; on Head's line, so that both move in order.
pub(super) const TAIL: u64 = HEAD + 8;
const RING: u64 = HEAD + LINE;

/// Bytes of an entry, of a ring element and of a log header (§3.1).
pub(super) const ENTRY_BYTES: u64 = 16;

const LINE: u64 = LINE_BYTES as u64;
/// Bits of a ring element's words below its lap.
const ELEMENT_BITS: u32 = 40;
/// Laps are counted from 1 to this and then from 1 again; 0 is in elements that were never written.
const LAPS: u64 = (1 << (64 - ELEMENT_BITS)) - 1;
/// In a mapping: the disk does not have the block.
const DIRTY: u64 = 1 << (ELEMENT_BITS - 1);
/// In a log header's place: the block was not cached, so there is no content to go back to.
const FRESH: u64 = 1 << 31;

/// Tinca's 1 MiB of ring, in Spindle's larger elements, as [`EngineOptions`] has it.
const RING_BYTES: u64 = 1 << 20;
const SLOTS_MAX: u64 = 1 << 31;
const BLOCK_BYTES_MAX: u64 = 1 << 24;

const _: () = assert!(HEADER_BYTES.is_multiple_of(LINE) && RING.is_multiple_of(LINE));
const _: () = assert!(TAIL / LINE == HEAD / LINE);
const _: () = assert!(LINE.is_multiple_of(ENTRY_BYTES));
const _: () = assert!(SLOTS_MAX < DIRTY, "a slot and its flag fit a mapping");

/// Which of the two caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    /// Whole blocks, copy on write.
    Data,
    /// Blocks that are updated in place, sub-block by sub-block.
    Metadata,
}

impl Cache {
    /// Both, in the order of their numbers.
    pub(super) const BOTH: [Cache; 2] = [Cache::Data, Cache::Metadata];
}

/// Where a cached block is, and whether the disk has it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// The NVM block.
    pub(super) slot: u32,
    /// The disk does not have it.
    pub(super) is_dirty: bool,
}

/// The word of an entry whose block is not cached: the paper's NON.
pub(super) const NON: u64 = 0;

/// A mapping as a word; none is [`NON`].
pub(super) fn mapping_word(mapping: Option<Mapping>) -> u64 {
    mapping.map_or(NON, |mapping| {
        let flag = if mapping.is_dirty { DIRTY } else { 0 };
        (u64::from(mapping.slot) + 1) | flag
    })
}

/// The mapping that a word is, of `slots` NVM blocks; an error is a word that none is.
pub(super) fn mapping_of(word: u64, slots: u32) -> Result<Option<Mapping>, u64> {
    if word == NON {
        return Ok(None);
    }
    let number = word & !DIRTY;
    if number == 0 || number > u64::from(slots) {
        return Err(word);
    }
    Ok(Some(Mapping {
        slot: (number - 1) as u32,
        is_dirty: word & DIRTY != 0,
    }))
}

/// The two words of the ring element at a position whose lap is `lap`. A power cut may keep one word
/// and lose the other, so each of them says its lap.
pub(super) fn element_words(block: u64, mapping: u64, lap: u64) -> [u64; 2] {
    assert!(block < 1 << ELEMENT_BITS && mapping < 1 << ELEMENT_BITS);
    [block | lap << ELEMENT_BITS, mapping | lap << ELEMENT_BITS]
}

/// An element's block, mapping, and the laps of its two words.
pub(super) fn element_parts(words: [u64; 2]) -> (u64, u64, [u64; 2]) {
    let [block, mapping] = words.map(|word| word & ((1 << ELEMENT_BITS) - 1));
    (block, mapping, words.map(|word| word >> ELEMENT_BITS))
}

/// Which part of the metadata cache a log record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogPlace {
    /// This sub-block, counted through all metadata blocks, had the content that follows.
    SubBlock(u32),
    /// This metadata block was free.
    Fresh(u32),
}

/// The two words of a log header: the transaction's position; the place and a checksum of everything.
pub(super) fn log_header(position: u64, place: LogPlace, content: &[u8]) -> [u64; 2] {
    let place = match place {
        LogPlace::SubBlock(number) => u64::from(number),
        LogPlace::Fresh(slot) => u64::from(slot) | FRESH,
    };
    let mut bytes = Vec::with_capacity(16 + content.len());
    bytes.extend_from_slice(&position.to_le_bytes());
    bytes.extend_from_slice(&place.to_le_bytes());
    bytes.extend_from_slice(content);
    [position, place | u64::from(crc32c(&bytes)) << 32]
}

/// What a log header says that it is about.
pub(super) fn log_place(header: [u64; 2]) -> LogPlace {
    let place = header[1] & u64::from(u32::MAX);
    let number = (place & !FRESH) as u32;
    match place & FRESH {
        0 => LogPlace::SubBlock(number),
        _ => LogPlace::Fresh(number),
    }
}

/// How a region is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a block.
    pub(super) block_bytes: u64,
    /// Bytes of a sub-block.
    pub(super) inode_bytes: u64,
    /// Bytes of the disk.
    pub(super) disk_bytes: u64,
    /// Elements of the ring.
    pub(super) ring_elements: u64,
    /// Blocks of the data cache.
    pub(super) data_slots: u32,
    /// Blocks of the metadata cache.
    pub(super) metadata_slots: u32,
    /// Sub-blocks of the metadata log.
    pub(super) log_records: u32,
    /// The paper's protocol without our repairs.
    pub(super) as_printed: bool,
}

impl Layout {
    /// Divides a region of `region_bytes`: an eighth of it for metadata (§5.1), of that a sixteenth
    /// for the log, and two blocks' worth at least of each.
    ///
    /// # Errors
    /// `Options`: sizes that do not fit each other or the region.
    pub(super) fn plan(
        region_bytes: u64,
        disk_bytes: u64,
        options: &EngineOptions,
    ) -> Result<Layout> {
        let ring_bytes = RING_BYTES.min(region_bytes / 64);
        let mut layout = Layout {
            block_bytes: options.block_bytes as u64,
            inode_bytes: options.inode_bytes as u64,
            disk_bytes,
            ring_elements: options
                .ring_elements
                .unwrap_or((ring_bytes / ENTRY_BYTES).max(2)),
            data_slots: 2,
            metadata_slots: 2,
            log_records: 0,
            as_printed: options.as_printed,
        };
        layout.check_sizes().map_err(ErrorKind::Options)?;
        let metadata_bytes = region_bytes / 8;
        let record_bytes = layout.inode_bytes + ENTRY_BYTES;
        let least_records = 2 * layout.sub_blocks();
        let records = (metadata_bytes / 16 / record_bytes).max(least_records);
        layout.log_records = records.min(SLOTS_MAX - 1) as u32;
        let cached_bytes = layout.block_bytes + ENTRY_BYTES;
        let blocks = metadata_bytes.saturating_sub(records * record_bytes) / cached_bytes;
        layout.metadata_slots = blocks.clamp(2, SLOTS_MAX / layout.sub_blocks() - 1) as u32;
        let needed = layout.end();
        if needed > region_bytes {
            return Err(ErrorKind::Options(format!(
                "Spindle needs {needed} bytes for its ring, its log and two blocks each of data and \
                 metadata, and has {region_bytes}; make the region larger or the ring smaller"
            )).into());
        }
        let more = (region_bytes - needed) / cached_bytes;
        layout.data_slots = (2 + more).min(SLOTS_MAX - 1) as u32;
        while layout.end() > region_bytes {
            layout.data_slots -= 1;
        }
        Ok(layout)
    }

    /// What the region's header holds of this.
    pub(super) fn header(&self) -> Header {
        let log_and_metadata = u64::from(self.metadata_slots) | u64::from(self.log_records) << 32;
        Header {
            engine: EngineName::Spindle,
            block_bytes: self.block_bytes,
            disk_bytes: self.disk_bytes,
            layout: [
                self.ring_elements,
                u64::from(self.data_slots),
                log_and_metadata,
                self.inode_bytes | u64::from(self.as_printed) << 32,
            ],
        }
    }

    /// The layout that a header tells of, if it is one that fits a region of `region_bytes`.
    pub(super) fn from_header(header: &Header, region_bytes: u64) -> Result<Layout, String> {
        let [ring_elements, data_slots, log_and_metadata, inode_and_flags] = header.layout;
        let layout = Layout {
            block_bytes: header.block_bytes,
            inode_bytes: inode_and_flags & u64::from(u32::MAX),
            disk_bytes: header.disk_bytes,
            ring_elements,
            data_slots: u32::try_from(data_slots).map_err(|_| "too many data blocks")?,
            metadata_slots: log_and_metadata as u32,
            log_records: (log_and_metadata >> 32) as u32,
            as_printed: inode_and_flags >> 32 != 0,
        };
        layout.check_sizes()?;
        let sub_blocks = u64::from(layout.metadata_slots) * layout.sub_blocks();
        if u64::from(layout.data_slots).max(sub_blocks) >= SLOTS_MAX
            || layout.data_slots < 2
            || inode_and_flags >> 33 != 0
        {
            return Err(format!("a layout that Spindle never makes: {layout:?}"));
        }
        if layout.end() > region_bytes {
            return Err(format!(
                "a cache of {} bytes in {region_bytes} bytes",
                layout.end()
            ));
        }
        Ok(layout)
    }

    fn check_sizes(&self) -> Result<(), String> {
        let (block, inode) = (self.block_bytes, self.inode_bytes);
        if !block.is_power_of_two() || !(2 * LINE..=BLOCK_BYTES_MAX).contains(&block) {
            return Err(format!(
                "blocks of {block} bytes; Spindle's are a power of two from 128 to {BLOCK_BYTES_MAX}"
            ));
        }
        if !inode.is_power_of_two() || !(LINE..=block).contains(&inode) {
            return Err(format!(
                "inodes of {inode} bytes; a power of two from 64 to the block size is possible"
            ));
        }
        if !(2..=SLOTS_MAX).contains(&self.ring_elements) {
            return Err(format!(
                "a ring of {} elements; Spindle's has from 2 to {SLOTS_MAX}",
                self.ring_elements
            ));
        }
        if self.disk_blocks() >= 1 << ELEMENT_BITS {
            return Err(format!(
                "a disk of {} blocks; a ring element has room for 2^{ELEMENT_BITS}",
                self.disk_blocks()
            ));
        }
        Ok(())
    }

    /// Blocks of the disk, a part of one at its end included.
    pub(super) fn disk_blocks(&self) -> u64 {
        self.disk_bytes.div_ceil(self.block_bytes)
    }

    /// Sub-blocks of a block.
    pub(super) fn sub_blocks(&self) -> u64 {
        self.block_bytes / self.inode_bytes
    }

    /// Blocks of one of the caches.
    pub(super) fn slots(&self, cache: Cache) -> u32 {
        match cache {
            Cache::Data => self.data_slots,
            Cache::Metadata => self.metadata_slots,
        }
    }

    /// The lap in which the ring is at a position.
    pub(super) fn lap(&self, position: u64) -> u64 {
        position / self.ring_elements % LAPS + 1
    }

    /// Where a position's ring element is.
    pub(super) fn element(&self, position: u64) -> u64 {
        RING + position % self.ring_elements * ENTRY_BYTES
    }

    /// Where an entry is.
    pub(super) fn entry(&self, cache: Cache, number: u32) -> u64 {
        self.entries(cache).start + u64::from(number) * ENTRY_BYTES
    }

    /// Where an NVM block is.
    pub(super) fn slot(&self, cache: Cache, number: u32) -> u64 {
        self.entries(cache).end + u64::from(number) * self.block_bytes
    }

    /// Where a log record's header is.
    pub(super) fn log_header(&self, record: u32) -> u64 {
        self.log_headers().start + u64::from(record) * ENTRY_BYTES
    }

    /// Where a log record's content is.
    pub(super) fn log_content(&self, record: u32) -> u64 {
        self.log_headers().end + u64::from(record) * self.inode_bytes
    }

    /// Where a sub-block is, counted through all metadata blocks.
    pub(super) fn sub_block(&self, number: u32) -> u64 {
        self.slot(Cache::Metadata, 0) + u64::from(number) * self.inode_bytes
    }

    /// What must be zero in an empty cache.
    pub(super) fn zeroed(&self) -> [Range<u64>; 4] {
        let ring_end = RING + lines(self.ring_elements * ENTRY_BYTES);
        [
            HEAD..ring_end,
            self.entries(Cache::Data),
            self.log_headers(),
            self.entries(Cache::Metadata),
        ]
    }

    /// Where a cache's entries are, in whole lines.
    pub(super) fn entries(&self, cache: Cache) -> Range<u64> {
        let start = match cache {
            Cache::Data => RING + lines(self.ring_elements * ENTRY_BYTES),
            Cache::Metadata => self.log_content(self.log_records),
        };
        start..start + lines(u64::from(self.slots(cache)) * ENTRY_BYTES)
    }

    fn log_headers(&self) -> Range<u64> {
        let start = self.slot(Cache::Data, self.data_slots);
        start..start + lines(u64::from(self.log_records) * ENTRY_BYTES)
    }

    fn end(&self) -> u64 {
        self.slot(Cache::Metadata, self.metadata_slots)
    }
}

fn lines(bytes: u64) -> u64 {
    bytes.next_multiple_of(LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_divided_and_found_again() {
        for (region_bytes, block_bytes, inode_bytes) in [
            (8 << 10, 128, 64),
            (64 << 20, 4096, 256),
            (8 << 30, 4096, 256),
        ] {
            let options = EngineOptions {
                block_bytes,
                inode_bytes,
                ..EngineOptions::default()
            };
            let layout = Layout::plan(region_bytes, 1 << 30, &options).unwrap();
            assert!(layout.end() <= region_bytes);
            assert!(region_bytes - layout.end() < 4 * block_bytes as u64);
            let found = Layout::from_header(&layout.header(), region_bytes).unwrap();
            assert_eq!(found, layout);
            assert!(Layout::from_header(&layout.header(), layout.end() - 1).is_err());
            assert!(layout.slot(Cache::Data, 0).is_multiple_of(LINE));
            assert!(layout.slot(Cache::Metadata, 0).is_multiple_of(LINE));
        }
        let default = Layout::plan(8 << 30, 1 << 40, &EngineOptions::default()).unwrap();
        let metadata_bytes = default.end() - default.log_headers().start;
        assert!(
            metadata_bytes.abs_diff(1 << 30) < 1 << 16,
            "{metadata_bytes}"
        );
        assert_eq!(default.ring_elements, 65536);
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let refusal = |region_bytes, options: &EngineOptions| {
            let error = Layout::plan(region_bytes, 1 << 20, options).unwrap_err();
            error.to_string()
        };
        let options = EngineOptions::default();
        assert!(refusal(4096, &options).contains("4096"));
        let inode_bytes = 100;
        let odd = EngineOptions {
            inode_bytes,
            ..options.clone()
        };
        assert!(refusal(1 << 20, &odd).contains("100"));
        let block_bytes = 64;
        let tiny = EngineOptions {
            block_bytes,
            ..options
        };
        assert!(refusal(1 << 20, &tiny).contains("64"));
    }

    #[test]
    fn elements_say_their_lap_in_both_words() {
        let mapping = Mapping {
            slot: 7,
            is_dirty: true,
        };
        let word = mapping_word(Some(mapping));
        assert_eq!(mapping_of(word, 8), Ok(Some(mapping)));
        assert_eq!(mapping_of(word, 7), Err(word));
        let words = element_words(5, word, 3);
        assert_eq!(element_parts(words), (5, word, [3, 3]));
    }
}
