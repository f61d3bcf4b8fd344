//! The stores of Tinca's protocol. Each update is a store, the flush of its lines and a fence of its
//! own, as in the paper (§2.1, §4.3, §4.4); a block's content may be streamed instead of stored and flushed. What one method has made durable is durable before the
//! next one stores anything.

use forebay::{Region, Result};
use forebay_pmem::LINE_BYTES;

use super::Protocol;
use super::layout::{ENTRY_BYTES, Entry, Geometry, HEAD_OFFSET, TAIL_OFFSET};
use crate::mutants::{Mutant, mutated};
use crate::shared::{ContentBy, fence};

/// Entries are made free in stores of so many bytes.
const ERASE_BYTES: usize = 64 << 10;

/// A region with Tinca's layout.
pub(super) struct Media {
    pub(super) region: Region,
    pub(super) geometry: Geometry,
    pub(super) protocol: Protocol,
    pub(super) content: ContentBy,
}

impl Media {
    fn persist(&self, offset: u64, len: usize) -> Result<()> {
        self.region.flush(offset, len);
        fence(&self.region)
    }

    /// Fills a slot. The fence orders the data before the entry that names the slot.
    pub(super) fn write_block(&self, slot: u32, bytes: &[u8]) -> Result<()> {
        let offset = self.geometry.slot(slot);
        self.content.write(&self.region, offset, bytes);
        fence(&self.region)
    }

    /// Creates or changes an entry. The fence orders it before the ring's element, before Tail, or
    /// before the next use of the slot that it no longer names.
    pub(super) fn write_entry(&self, index: u32, entry: &Entry) -> Result<()> {
        self.store_entry(index, entry.words(self.protocol));
        self.persist(self.geometry.entry(index), ENTRY_BYTES as usize)
    }

    /// Frees an entry. The fence orders that before the next use of its slot.
    pub(super) fn delete_entry(&self, index: u32, entry: &Entry) -> Result<()> {
        self.store_entry(index, entry.freed_words(self.protocol));
        self.persist(self.geometry.entry(index), ENTRY_BYTES as usize)
    }

    /// **Differs from the paper** (docs/inside/papers.md, Tinca, finding 2): it stores the 16 bytes at once,
    /// which a power cut may tear either way. Ours stores word 0, then word 1. Stores to one line
    /// survive in program order, so that where word 1 is new, word 0 is new too.
    fn store_entry(&self, index: u32, words: [u64; 2]) {
        let offset = self.geometry.entry(index);
        match self.protocol {
            Protocol::Printed => {
                let both = u128::from(words[0]) | u128::from(words[1]) << 64;
                self.region.store_u128(offset, both);
            }
            Protocol::Hardened => {
                self.region.store_u64(offset, words[0]);
                self.region.store_u64(offset + 8, words[1]);
            }
        }
    }

    /// Changes entries, given by ascending index, that need no order among them. Each line that holds
    /// one is flushed once; the fence orders all of them before whatever follows.
    pub(super) fn write_entries(&self, entries: &[(u32, Entry)]) -> Result<()> {
        self.store_entries(entries, Entry::words)
    }

    /// Frees entries in the same way. The fence orders that before the next use of their slots.
    pub(super) fn delete_entries(&self, entries: &[(u32, Entry)]) -> Result<()> {
        self.store_entries(entries, Entry::freed_words)
    }

    fn store_entries(
        &self,
        entries: &[(u32, Entry)],
        words: fn(&Entry, Protocol) -> [u64; 2],
    ) -> Result<()> {
        let line_of = |index: u32| self.geometry.entry(index) / LINE_BYTES as u64;
        for of_line in entries.chunk_by(|a, b| line_of(a.0) == line_of(b.0)) {
            for (index, entry) in of_line {
                self.store_entry(*index, words(entry, self.protocol));
            }
            self.region.flush(self.geometry.entry(of_line[0].0), 1);
        }
        fence(&self.region)
    }

    /// Records a block of the transaction. The fence orders it before Head, which makes it count.
    pub(super) fn write_element(&self, position: u64, disk_block: u64) -> Result<()> {
        let offset = self.geometry.element(position);
        self.region.store_u64(offset, disk_block);
        if mutated(Mutant::TincaHeadUnordered) {
            self.region.flush(offset, 8);
            return Ok(());
        }
        self.persist(offset, 8)
    }

    /// Moves Head. The fence orders it before the next block's data and before the role switches.
    pub(super) fn move_head(&self, position: u64) -> Result<()> {
        self.region.store_u64(HEAD_OFFSET, position);
        self.persist(HEAD_OFFSET, 8)
    }

    /// Moves Tail. The fence orders it before the caller learns of the commit, and before the slots of
    /// previous versions are used again.
    pub(super) fn move_tail(&self, position: u64) -> Result<()> {
        self.region.store_u64(TAIL_OFFSET, position);
        self.persist(TAIL_OFFSET, 8)
    }

    /// An empty ring and free entries, whatever was there.
    pub(super) fn erase(&self) -> Result<()> {
        self.region.store_u64(HEAD_OFFSET, 0);
        self.region.flush(HEAD_OFFSET, 8);
        self.region.store_u64(TAIL_OFFSET, 0);
        self.region.flush(TAIL_OFFSET, 8);
        let zeroes = vec![0; ERASE_BYTES];
        let end = self.geometry.entry(self.geometry.slots);
        let mut at = self.geometry.entry(0);
        while at < end {
            let len = (end - at).min(ERASE_BYTES as u64) as usize;
            self.region.store(at, &zeroes[..len]);
            self.region.flush(at, len);
            at += len as u64;
        }
        // Orders all of it before the header, which says that it is there.
        fence(&self.region)
    }

    /// Makes durable what recovery is about to believe.
    ///
    /// **Differs from the paper** (docs/inside/papers.md, Tinca, finding 6): after a mere kill, stores are
    /// visible that no fence has made durable. A power cut would take them back after slots that they
    /// had freed were used again. The fence orders them before everything that recovery stores.
    pub(super) fn settle(&self) -> Result<()> {
        if self.protocol == Protocol::Printed || mutated(Mutant::TincaBeliefNotDurable) {
            return Ok(());
        }
        for line in [0, HEAD_OFFSET, TAIL_OFFSET] {
            self.region.flush(line, LINE_BYTES);
        }
        let entries_bytes = u64::from(self.geometry.slots) * ENTRY_BYTES;
        let entries_offset = self.geometry.entry(0);
        self.region.flush(entries_offset, entries_bytes as usize);
        fence(&self.region)
    }

    pub(super) fn head(&self) -> u64 {
        self.region.load_u64(HEAD_OFFSET)
    }

    pub(super) fn tail(&self) -> u64 {
        self.region.load_u64(TAIL_OFFSET)
    }

    pub(super) fn element(&self, position: u64) -> u64 {
        self.region.load_u64(self.geometry.element(position))
    }

    pub(super) fn entry(&self, index: u32) -> Option<Entry> {
        let offset = self.geometry.entry(index);
        let words = [
            self.region.load_u64(offset),
            self.region.load_u64(offset + 8),
        ];
        Entry::from_words(words, self.protocol)
    }

    /// Copies a slot's block out; false where the medium is known to have lost some of it.
    pub(super) fn read_block(&self, slot: u32, out: &mut [u8]) -> bool {
        let offset = self.geometry.slot(slot);
        self.region.read(offset, out);
        !self.region.has_media_error(offset, out.len())
    }
}
