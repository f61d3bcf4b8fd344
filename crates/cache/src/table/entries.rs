//! Where the entries stand while a pool runs: in the medium's table, or in DRAM with the medium's behind them.
//!
//! One code path serves both: either way they are 16-byte entries from some offset of a [`Region`] on. What
//! differs is how a line gets to the medium, in [`Entries::send`]. From DRAM it gets there by nothing else, so
//! a crash leaves of the table what the last checkpoint sent: of all that a crash may leave of a table in the
//! medium, where any line may have stayed in a cache, this is the least.

use std::sync::Arc;

use forebay_pmem::Region;

use super::ENTRIES_PER_LINE;
use crate::error::Result;
use crate::media::Media;
use crate::media::entry::{Entry, Key, RawEntry};
use crate::media::layout::{ENTRY_BYTES, LINE_BYTES};
use crate::media::seals::{Round, TableLine};
use crate::mutants::{Mutant, mutated};

/// See the module.
pub(crate) struct Entries {
    /// The first member of the medium, or DRAM.
    region: Arc<Region>,
    /// Of the first entry.
    base: u64,
    are_in_dram: bool,
}

impl Entries {
    /// Those of the medium, where they are.
    pub(crate) fn on_medium(media: &Media) -> Entries {
        Entries {
            region: media.shared_main(),
            base: media.geometry.entry_offset(0),
            are_in_dram: false,
        }
    }

    /// Copies these mappings to DRAM; the medium has the same.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn in_dram(media: &Media, mappings: &[(u32, Entry)]) -> Result<Entries> {
        let lines = media.geometry.entries.div_ceil(ENTRIES_PER_LINE);
        let region = Region::in_dram(u64::from(lines) * LINE_BYTES, media.main())?;
        let entries = Entries {
            region: Arc::new(region),
            base: 0,
            are_in_dram: true,
        };
        for (index, entry) in mappings {
            entries.store(*index, *entry);
        }
        Ok(entries)
    }

    #[inline(always)]
    fn offset(&self, index: u32) -> u64 {
        self.base + u64::from(index) * ENTRY_BYTES
    }

    #[inline]
    pub(crate) fn load(&self, index: u32) -> RawEntry {
        RawEntry::from_bits(self.region.load_u128(self.offset(index)))
    }
    #[inline(always)]
    pub(crate) fn store(&self, index: u32, entry: Entry) {
        self.region.store_u128(self.offset(index), entry.bits());
    }
    /// Stores the key half alone: flags change, the mapping does not.
    pub(crate) fn store_key_half(&self, index: u32, entry: Entry) {
        self.region.store_u64(self.offset(index), entry.key_half());
    }

    /// Looks for the key among the four entries of a line of the table; `first` is a multiple of
    /// four. Without a branch on where it is: that would be guessed, and wrong as often as not.
    #[inline(always)]
    pub(crate) fn find_in_line(&self, first: u32, key: Key) -> Option<(u32, RawEntry)> {
        let line = self.region.line(self.offset(first));
        let word = |at: usize| line.word(at);
        let is_here = |at: usize| u32::from(key.is_named_by(word(2 * at))) << at;
        let found = is_here(0) | is_here(1) | is_here(2) | is_here(3);
        if found == 0 {
            return None;
        }
        let at = found.trailing_zeros() as usize & 3;
        let entry = RawEntry::from_halves(word(2 * at), word(2 * at + 1));
        Some((first + at as u32, entry))
    }

    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        self.region.prefetch_write(self.offset(index));
    }

    /// Whether the medium gets lines by [`Entries::send`] alone.
    pub(crate) fn are_in_dram(&self) -> bool {
        self.are_in_dram
    }

    /// Sends a line of four entries towards the medium; it is there after this thread's next fence. From DRAM
    /// one thread at a time sends, and fences before another does: a line that was loaded earlier and stored
    /// later would take back what the other has promised. `round` is that of a mirror's seals.
    pub(crate) fn send(&self, media: &Media, line: u32, round: Round) {
        if self.are_in_dram {
            return self.stream(media, line, round);
        }
        let offset = media.geometry.entry_offset(line * ENTRIES_PER_LINE);
        media.main().flush(offset, LINE_BYTES as usize);
    }

    /// Sends a line that an earlier process may have stored.
    pub(crate) fn send_found(&self, media: &Media, line: u32, round: Round) {
        if self.are_in_dram {
            return self.stream(media, line, round);
        }
        let offset = media.geometry.entry_offset(line * ENTRIES_PER_LINE);
        media.flush_found(media.main(), offset, LINE_BYTES as usize);
    }

    #[cold]
    fn stream(&self, media: &Media, line: u32, round: Round) {
        media.stream_table_line(line, &self.line(media, line), round);
    }

    /// What the medium gets of a line from DRAM: each entry as it is at some moment, so that none goes half changed.
    #[cold]
    pub(crate) fn line(&self, media: &Media, line: u32) -> TableLine {
        let first = line * ENTRIES_PER_LINE;
        let mut bytes = [0; LINE_BYTES as usize];
        for (index, entry) in (first..).zip(bytes.chunks_exact_mut(ENTRY_BYTES as usize)) {
            let mut now = self.load(index);
            if now.is_free() && mutated(Mutant::GoneEntriesNotSent) {
                let offset = media.geometry.entry_offset(index);
                now = RawEntry::from_bits(media.main().load_u128(offset));
            }
            entry.copy_from_slice(&now.bits().to_le_bytes());
        }
        bytes
    }

    /// Takes those in DRAM away, so that a pool that is closed finds none; the medium's go when it is given back.
    #[cold]
    pub(crate) fn forget(&self, count: u32) {
        if self.are_in_dram() {
            (0..count).for_each(|index| self.store(index, Entry::FREE));
        }
    }

    /// Bytes of DRAM.
    pub(crate) fn dram_bytes(&self) -> u64 {
        match self.are_in_dram {
            true => self.region.len(),
            false => 0,
        }
    }
}
