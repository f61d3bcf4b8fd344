//! What is done to the bytes of the region, one method for each kind of thing.
//!
//! No method fences but [`Media::fence`]: what a fence orders is the caller's business.

use forebay::{ErrorKind, Region, Result};
use forebay_pmem::LINE_BYTES;

use crate::shared::{ContentBy, fence};

use super::layout::{
    Cache, ENTRY_BYTES, HEAD, Layout, LogPlace, Mapping, NON, TAIL, element_parts, element_words,
    log_header, log_place, mapping_word,
};

const ENTRIES_PER_LINE: u32 = (LINE_BYTES as u64 / ENTRY_BYTES) as u32;

/// The region and how it is divided.
pub(super) struct Media {
    pub(super) region: Region,
    pub(super) layout: Layout,
    pub(super) content: ContentBy,
}

impl Media {
    /// Everything that this thread flushed or streamed is durable on return.
    pub(super) fn fence(&self) -> Result<()> {
        fence(&self.region)
    }

    /// The persisted Head and Tail.
    pub(super) fn pointers(&self) -> (u64, u64) {
        (self.region.load_u64(HEAD), self.region.load_u64(TAIL))
    }

    /// Moves Tail.
    pub(super) fn move_tail(&self, tail: u64) {
        self.region.store_u64(TAIL, tail);
        self.region.flush(TAIL, 8);
    }

    /// Moves Tail and then Head to a position: of one line the earlier store persists first.
    pub(super) fn move_tail_and_head(&self, position: u64) {
        self.region.store_u64(TAIL, position);
        self.region.store_u64(HEAD, position);
        self.region.flush(HEAD, 16);
    }

    /// The same in the other order.
    pub(super) fn move_head_and_tail(&self, position: u64) {
        self.region.store_u64(HEAD, position);
        self.region.store_u64(TAIL, position);
        self.region.flush(HEAD, 16);
    }

    /// Writes the ring element of a position.
    pub(super) fn put_element(&self, position: u64, block: u64, old: Option<Mapping>) {
        let lap = self.layout.lap(position);
        let words = element_words(block, mapping_word(old), lap);
        let offset = self.layout.element(position);
        self.region.store_u128(offset, joined(words));
        self.region.flush(offset, ENTRY_BYTES as usize);
    }

    /// The block and the mapping word of the ring element that was written for a position, if one was.
    pub(super) fn element(&self, position: u64) -> Option<(u64, u64)> {
        let (block, mapping, laps) = element_parts(self.words(self.layout.element(position)));
        let is_there = if self.layout.as_printed {
            // As printed (§3.4), whatever lies at the position counts.
            laps != [0, 0]
        } else {
            // Finding 1: an element of an earlier lap, or half of one, is not this transaction's.
            laps == [self.layout.lap(position); 2]
        };
        is_there.then_some((block, mapping))
    }

    /// The block number and the mapping word of an entry.
    pub(super) fn entry(&self, cache: Cache, number: u32) -> (u64, u64) {
        let [block, mapping] = self.words(self.layout.entry(cache, number));
        (block, mapping)
    }

    /// Makes a free entry that of a block. The caller flushes it.
    pub(super) fn create_entry(&self, cache: Cache, number: u32, block: u64, mapping: Mapping) {
        let offset = self.layout.entry(cache, number);
        let mapping = mapping_word(Some(mapping));
        if self.layout.as_printed {
            // As printed (§3.1), an entry is an element of 16 bytes and written as one.
            self.region.store_u128(offset, joined([block, mapping]));
        } else {
            // Finding 2: 16 bytes may tear, but stores into one line persist in their order, so that
            // an entry that is not free has its own block's number.
            self.region.store_u64(offset, block);
            self.region.store_u64(offset + 8, mapping);
        }
    }

    /// Gives an entry another mapping, or none, and flushes it. Eight bytes do not tear.
    pub(super) fn map_entry(&self, cache: Cache, number: u32, mapping: Option<Mapping>) {
        self.store_mapping(cache, number, mapping);
        self.flush_entries(cache, &mut [number]);
    }

    /// The same; the caller flushes it.
    pub(super) fn store_mapping(&self, cache: Cache, number: u32, mapping: Option<Mapping>) {
        let offset = self.layout.entry(cache, number) + 8;
        self.region.store_u64(offset, mapping_word(mapping));
    }

    /// Flushes the lines of these entries, each once.
    pub(super) fn flush_entries(&self, cache: Cache, numbers: &mut [u32]) {
        numbers.sort_unstable();
        for of_line in numbers.chunk_by(|a, b| a / ENTRIES_PER_LINE == b / ENTRIES_PER_LINE) {
            let offset = self.layout.entry(cache, of_line[0]);
            self.region.flush(offset, ENTRY_BYTES as usize);
        }
    }

    /// Flushes the header and all entries.
    pub(super) fn flush_believed(&self) {
        self.region.flush(0, LINE_BYTES);
        for cache in [Cache::Data, Cache::Metadata] {
            let entries = self.layout.entries(cache);
            let len = (entries.end - entries.start) as usize;
            self.region.flush(entries.start, len);
        }
    }

    /// Writes a whole block into an NVM block.
    pub(super) fn write_slot(&self, cache: Cache, slot: u32, bytes: &[u8]) {
        assert_eq!(bytes.len() as u64, self.layout.block_bytes);
        let offset = self.layout.slot(cache, slot);
        self.content.write(&self.region, offset, bytes);
    }

    /// Reads an NVM block.
    ///
    /// # Errors
    /// `Corrupt`: the medium failed under it.
    pub(super) fn read_slot(
        &self,
        cache: Cache,
        slot: u32,
        block: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let offset = self.layout.slot(cache, slot);
        self.region.read(offset, out);
        if self.region.has_media_error(offset, out.len()) {
            return Err(ErrorKind::Corrupt { volume: 0, block }.into());
        }
        Ok(())
    }

    /// Copies a sub-block into the log as record `record`. The caller flushes the headers.
    pub(super) fn log_sub_block(&self, record: u32, position: u64, sub_block: u32) {
        let mut content = vec![0; self.layout.inode_bytes as usize];
        self.region
            .read(self.layout.sub_block(sub_block), &mut content);
        let offset = self.layout.log_content(record);
        self.content.write(&self.region, offset, &content);
        let place = LogPlace::SubBlock(sub_block);
        self.put_log_header(record, log_header(position, place, &content));
    }

    /// Logs that a metadata block was free. The caller flushes the headers.
    pub(super) fn log_fresh(&self, record: u32, position: u64, slot: u32) {
        let header = log_header(position, LogPlace::Fresh(slot), &[]);
        self.put_log_header(record, header);
    }

    /// Flushes the headers of the first records.
    pub(super) fn flush_log_headers(&self, records: u32) {
        let len = u64::from(records) * ENTRY_BYTES;
        self.region.flush(self.layout.log_header(0), len as usize);
    }

    /// Removes the first records from the log, as the printed protocol does to commit them.
    pub(super) fn remove_log_records(&self, records: u32) {
        for record in 0..records {
            self.put_log_header(record, [0, 0]);
        }
        self.flush_log_headers(records);
    }

    /// A record of the log that is whole: its position, what it is about, and the content to go back
    /// to (empty for a block that was free).
    pub(super) fn log_record(&self, record: u32) -> Option<(u64, LogPlace, Vec<u8>)> {
        let header = self.words(self.layout.log_header(record));
        if header == [0, 0] {
            return None;
        }
        let place = log_place(header);
        let mut content = match place {
            LogPlace::SubBlock(_) => vec![0; self.layout.inode_bytes as usize],
            LogPlace::Fresh(_) => Vec::new(),
        };
        self.region
            .read(self.layout.log_content(record), &mut content);
        // Content and header went out under one fence, so either may be missing without it.
        let is_whole = log_header(header[0], place, &content) == header;
        is_whole.then_some((header[0], place, content))
    }

    fn put_log_header(&self, record: u32, words: [u64; 2]) {
        let offset = self.layout.log_header(record);
        self.region.store_u128(offset, joined(words));
    }

    fn words(&self, offset: u64) -> [u64; 2] {
        [
            self.region.load_u64(offset),
            self.region.load_u64(offset + 8),
        ]
    }

    /// Empties both caches, the ring and the log.
    pub(super) fn clear(&self) {
        const CHUNK_BYTES: usize = 4096;
        let zeroes = [0; CHUNK_BYTES];
        for range in self.layout.zeroed() {
            let mut offset = range.start;
            while offset < range.end {
                let len = (range.end - offset).min(CHUNK_BYTES as u64);
                self.region.stream(offset, &zeroes[..len as usize]);
                offset += len;
            }
        }
        assert_eq!(self.entry(Cache::Data, 0).1, NON);
    }
}

fn joined(words: [u64; 2]) -> u128 {
    u128::from(words[0]) | u128::from(words[1]) << 64
}
