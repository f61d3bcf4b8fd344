//! The structs on the device, all of them, and how many pages those of several pages take.

use super::structs::media_struct;
use crate::page::PAGE_BYTES;

/// Page of the superblock.
pub(crate) const SUPERBLOCK_PAGE: u64 = 0;
/// Page of the first of the two incarnation lines; incarnation n is in line n mod 2.
pub(crate) const INCARNATION_PAGE: u64 = 1;
/// Page of the first of the two roster lines of a member of a mirrored pool; the roster of epoch e is in line e mod 2. In a pool of one
/// device both are spare.
pub(crate) const ROSTER_PAGE: u64 = 3;
/// The first page of the volume table: two for each number.
pub(crate) const VOLUME_PAGE: u64 = 5;
/// Highest number of a volume.
pub(crate) const VOLUMES_MAX: usize = 64;
/// Most bytes of a block that stand in a record.
pub(crate) const INLINE_BYTES_MAX: usize = PAGE_BYTES / 2;
/// Bytes of the clean points of all volumes.
pub(super) const POINTS_BYTES_MAX: usize = CleanPointLine::BYTES * VOLUMES_MAX;
/// Where the elements of a record begin: room for the clean points of all volumes is always left.
pub(super) const RECORD_ELEMENTS_AT: usize = RecordLine::BYTES + POINTS_BYTES_MAX;
/// The same of a summary.
pub(super) const SUMMARY_ELEMENTS_AT: usize = SummaryLine::BYTES + POINTS_BYTES_MAX;

/// Pages of the record of so many elements, whatever else it says.
pub(crate) const fn record_pages(elements: usize) -> u32 {
    record_pages_with(elements, 0)
}

/// Pages of the record of so many elements, with so many bytes behind them.
pub(crate) const fn record_pages_with(elements: usize, inline_bytes: usize) -> u32 {
    (inline_at(elements) + inline_bytes).div_ceil(PAGE_BYTES) as u32
}

/// Where in a record of so many elements the bytes of its inline ones begin.
pub(crate) const fn inline_at(elements: usize) -> usize {
    RECORD_ELEMENTS_AT + elements * ElementLine::BYTES
}

/// Most elements of a record of so many pages.
pub(crate) const fn record_elements(pages: u32) -> usize {
    (pages as usize * PAGE_BYTES).saturating_sub(RECORD_ELEMENTS_AT) / ElementLine::BYTES
}

/// Pages of the summary of so many elements.
pub(crate) const fn summary_pages(elements: usize) -> u32 {
    (SUMMARY_ELEMENTS_AT + elements * ElementLine::BYTES).div_ceil(PAGE_BYTES) as u32
}

media_struct! {
    /// As it lies in page 0.
    pub(crate) struct SuperblockLine: 64 {
        magic: u64,
        version: u32,
        page_bytes: u32,
        uuid: u128,
        segment_pages: u32,
        places: u32,
        pages: u64,
        flags: u32,
        reserved_1: u32,
        reserved_2: u32,
        crc: u32,
    }
}

media_struct! {
    /// As it lies in its page: in 64 bytes, which no crash tears.
    pub(crate) struct IncarnationStruct: 64 {
        magic: u64,
        uuid: u128,
        number: u64,
        salt: u64,
        first_segment: u64,
        reserved: u64,
        depth: u32,
        crc: u32,
    }
}

media_struct! {
    /// As it lies in its page: in 64 bytes, which no crash tears.
    pub(crate) struct RosterLine: 64 {
        magic: u64,
        uuid: u128,
        epoch: u64,
        id_0: u64,
        id_1: u64,
        member: u32,
        standing_0: u32,
        standing_1: u32,
        crc: u32,
    }
}

media_struct! {
    /// As it lies at the start of a page of the volume table; the path follows, then zeroes.
    pub(crate) struct VolumeLine: 80 {
        magic: u64,
        uuid: u128,
        version: u64,
        size_bytes: u64,
        inode: u64,
        generation: u64,
        number: u32,
        id: u32,
        stage: u32,
        state: u32,
        path_bytes: u32,
        crc: u32,
    }
}

media_struct! {
    /// As it lies at the start of a segment; clean points follow.
    pub(crate) struct SegmentHeaderLine: 72 {
        magic: u64,
        uuid: u128,
        segment: u64,
        incarnation: u64,
        first_sequence: u64,
        first_group: u64,
        tail: u64,
        points: u32,
        crc: u32,
    }
}

media_struct! {
    /// A clean point as it lies.
    pub(crate) struct CleanPointLine: 16 {
        volume: u32,
        reserved: u32,
        sequence: u64,
    }
}

media_struct! {
    /// As it lies; clean points, elements and the bytes of inline elements follow.
    pub(crate) struct RecordLine: 64 {
        tag: u64,
        group: u64,
        first_sequence: u64,
        tail: u64,
        pages: u32,
        blocks: u32,
        elements: u32,
        points: u32,
        settled: u64,
        inline_bytes: u32,
        crc: u32,
    }
}

media_struct! {
    /// As it lies; clean points and elements follow.
    pub(crate) struct SummaryLine: 88 {
        magic: u64,
        uuid: u128,
        segment: u64,
        incarnation: u64,
        first_sequence: u64,
        first_group: u64,
        last_group: u64,
        tail: u64,
        elements: u32,
        points: u32,
        flags: u32,
        crc: u32,
    }
}

media_struct! {
    /// As it lies in records and summaries. The key is `volume:20 | block:36 | shape:4 | flags:4`.
    pub(crate) struct ElementLine: 24 {
        key: u64,
        page: u32,
        check: u32,
        count: u64,
    }
}

const _: () = assert!(SegmentHeaderLine::BYTES + POINTS_BYTES_MAX <= PAGE_BYTES);
/// One element and its bytes have room in the first page of a record.
const _: () = assert!(record_pages_with(1, INLINE_BYTES_MAX) == 1);
const _: () = assert!(INCARNATION_PAGE + 2 <= ROSTER_PAGE && ROSTER_PAGE + 2 <= VOLUME_PAGE);
