//! What UBJ keeps in the region: the commit record, one entry for each buffer, and the buffers.
//!
//! The entry of a buffer says which disk block a committed transaction froze in it, and which
//! transaction that was. A buffer that is not frozen has a free entry: what it holds is a buffer
//! cache's business and does not outlive a crash.

use forebay::{Error, ErrorKind, Region, Result};
use forebay_pmem::LINE_BYTES;

use crate::engines::EngineName;
use crate::shared::{HEADER_BYTES, Header};

const LINE: u64 = LINE_BYTES as u64;

/// The commit record: the sequence of the last committed transaction, 8 bytes on a line of their
/// own. Transactions count from 1.
const COMMIT_RECORD: u64 = HEADER_BYTES;
/// The entries, in the order of the buffers: disk block, then sequence, 8 bytes each. Sequence 0 is
/// that of a free entry.
const ENTRIES: u64 = COMMIT_RECORD + LINE;
const ENTRY_BYTES: u64 = 16;
/// Where in an entry the sequence is.
const ENTRY_SEQUENCE: u64 = 8;
/// Blocks of the sizes that the rest of the project knows.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 128..=65536;

const _: () = assert!(COMMIT_RECORD.is_multiple_of(LINE));
const _: () = assert!(ENTRIES.is_multiple_of(LINE));
// An entry lies in one line, so that freeing one flushes one.
const _: () = assert!(LINE.is_multiple_of(ENTRY_BYTES));
const _: () = assert!(ENTRY_SEQUENCE + 8 == ENTRY_BYTES);

/// What a used entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) block: u64,
    pub(super) sequence: u64,
}

/// Where everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) block_bytes: usize,
    /// Buffers, one block each.
    pub(super) slots: u32,
    /// Byte at which the first one is.
    data: u64,
}

impl Layout {
    /// The layout with the most buffers that fits.
    pub(super) fn plan(region_bytes: u64, block_bytes: usize) -> Result<Layout> {
        let block = block_bytes as u64;
        if !block.is_power_of_two() || !BLOCK_BYTES.contains(&block) {
            let (least, most) = (BLOCK_BYTES.start(), BLOCK_BYTES.end());
            return Err(ErrorKind::Options(format!(
                "blocks of {block_bytes} bytes; a power of two from {least} to {most} is possible"
            ))
            .into());
        }
        // The buffers begin at a multiple of their size, which may cost up to one of them.
        let room = region_bytes.saturating_sub(ENTRIES);
        let mut slots = (room / (block + ENTRY_BYTES)).min(u64::from(u32::MAX - 1)) as u32;
        while slots > 0 {
            let layout = Layout::new(block_bytes, slots);
            if layout.end() <= region_bytes {
                return Ok(layout);
            }
            slots -= 1;
        }
        Err(ErrorKind::Options(format!(
            "{region_bytes} bytes leave no room for one block of {block_bytes} bytes"
        ))
        .into())
    }

    fn new(block_bytes: usize, slots: u32) -> Layout {
        let entries_end = ENTRIES + u64::from(slots) * ENTRY_BYTES;
        Layout {
            block_bytes,
            slots,
            data: entries_end.next_multiple_of(block_bytes as u64),
        }
    }

    fn entries_end(&self) -> u64 {
        ENTRIES + u64::from(self.slots) * ENTRY_BYTES
    }

    fn end(&self) -> u64 {
        self.data + u64::from(self.slots) * self.block_bytes as u64
    }

    /// What the header keeps of it.
    pub(super) fn header(&self, disk_bytes: u64) -> Header {
        Header {
            engine: EngineName::Ubj,
            block_bytes: self.block_bytes as u64,
            disk_bytes,
            layout: [u64::from(self.slots), self.data, 0, 0],
        }
    }

    /// The layout that a header describes.
    ///
    /// # Errors
    /// `Damaged` where the region cannot hold that.
    pub(super) fn from_header(header: &Header, region: &Region) -> Result<Layout> {
        let damaged = || {
            damaged(
                region,
                format!("a header that no such cache has: {header:?}"),
            )
        };
        let block = header.block_bytes;
        let slots = u32::try_from(header.layout[0]).map_err(|_| damaged())?;
        if !block.is_power_of_two() || !BLOCK_BYTES.contains(&block) || slots == 0 {
            return Err(damaged());
        }
        let layout = Layout::new(block as usize, slots);
        let is_whole = layout.data == header.layout[1] && layout.end() <= region.len();
        is_whole.then_some(layout).ok_or_else(damaged)
    }

    /// Where a buffer is.
    pub(super) fn buffer(&self, slot: u32) -> u64 {
        debug_assert!(slot < self.slots);
        self.data + u64::from(slot) * self.block_bytes as u64
    }

    fn entry(&self, slot: u32) -> u64 {
        debug_assert!(slot < self.slots);
        ENTRIES + u64::from(slot) * ENTRY_BYTES
    }

    /// Frees all entries and sets the commit record to "none"; the caller fences.
    pub(super) fn erase(&self, region: &Region) {
        let zeroes = [0; LINE_BYTES];
        for line in (COMMIT_RECORD..self.entries_end()).step_by(LINE_BYTES) {
            region.stream(line, &zeroes);
        }
    }

    /// Flushes header, commit record and all entries.
    pub(super) fn flush_metadata(&self, region: &Region) {
        region.flush(0, LINE_BYTES);
        region.flush(COMMIT_RECORD, (self.entries_end() - COMMIT_RECORD) as usize);
    }

    /// The entry of a buffer; none where it is free.
    pub(super) fn load_entry(&self, region: &Region, slot: u32) -> Option<Entry> {
        let offset = self.entry(slot);
        let entry = Entry {
            block: region.load_u64(offset),
            sequence: region.load_u64(offset + ENTRY_SEQUENCE),
        };
        (entry.sequence != 0).then_some(entry)
    }

    /// Stores a free entry's new words, unflushed. Whichever of them survives a crash before the
    /// commit record, the entry is free or belongs to no committed transaction.
    pub(super) fn store_entry(&self, region: &Region, slot: u32, entry: Entry) {
        region.store_u64(self.entry(slot), entry.block);
        region.store_u64(self.entry(slot) + ENTRY_SEQUENCE, entry.sequence);
    }

    /// Frees an entry, unflushed: one store of 8 bytes, which happens or does not.
    pub(super) fn clear_entry(&self, region: &Region, slot: u32) {
        region.store_u64(self.entry(slot) + ENTRY_SEQUENCE, 0);
    }

    /// Flushes the lines of these buffers' entries, each once.
    pub(super) fn flush_entries(&self, region: &Region, slots: impl Iterator<Item = u32>) {
        let mut lines: Vec<u64> = slots.map(|slot| self.entry(slot) / LINE).collect();
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            region.flush(line * LINE, LINE_BYTES);
        }
    }

    /// The sequence of the last committed transaction, 0 before the first.
    pub(super) fn load_commit_record(region: &Region) -> u64 {
        region.load_u64(COMMIT_RECORD)
    }

    /// Stores and flushes the commit record; the transaction is committed at the next fence.
    pub(super) fn store_commit_record(region: &Region, sequence: u64) {
        region.store_u64(COMMIT_RECORD, sequence);
        region.flush(COMMIT_RECORD, LINE_BYTES);
    }
}

/// The error of a region that holds what no crash leaves.
pub(super) fn damaged(region: &Region, found: String) -> Error {
    ErrorKind::Damaged {
        path: region.path().to_path_buf(),
        found,
    }
    .into()
}
