//! What the entry table says of positions that no record names, on one member or on two.

use forebay_pmem::Region;

use crate::media::Media;
use crate::media::entry::{BadEntry, Entry, RawEntry};
use crate::media::layout::{ENTRY_BYTES, LINE_BYTES};
use crate::table::index::ENTRIES_PER_LINE;

/// The entry table of a member.
#[derive(Clone, Copy)]
pub(super) struct BaseTable<'m> {
    media: &'m Media,
    region: &'m Region,
}

/// What is found at such a position.
pub(super) enum Found {
    Entry(RawEntry),
    /// This one of two that differ.
    Chosen(RawEntry),
    /// A fill or an eviction of clean blocks that one member alone has: nothing acknowledged.
    Unfinished,
    /// Neither of two entries follows from the other by what needs no record.
    Contradiction,
}

impl<'m> BaseTable<'m> {
    pub(super) fn new(media: &'m Media, region: &'m Region) -> Self {
        BaseTable { media, region }
    }
    fn offset(self, index: u32) -> u64 {
        self.media.geometry.entry_offset(index)
    }
    pub(super) fn load(self, index: u32) -> RawEntry {
        RawEntry::from_bits(self.region.load_u128(self.offset(index)))
    }
    pub(super) fn store(self, index: u32, entry: Entry) {
        self.region.store_u128(self.offset(index), entry.bits());
    }
    /// Takes the key half away alone.
    pub(super) fn tear(self, index: u32) {
        let offset = self.offset(index);
        self.region.store_u64(offset, Entry::FREE.key_half());
        self.media
            .flush_found(self.region, offset, ENTRY_BYTES as usize);
    }
    /// Sends the line of this entry towards the medium, whoever stored it.
    pub(super) fn send_line_of(self, index: u32) {
        let offset = self.offset(index / ENTRIES_PER_LINE * ENTRIES_PER_LINE);
        self.media
            .flush_found(self.region, offset, LINE_BYTES as usize);
    }
}

/// What the table says of a position that no record names.
pub(super) fn find(media: &Media, main: BaseTable<'_>, index: u32) -> Found {
    let one = main.load(index);
    let Some(mate) = media.mate() else {
        return Found::Entry(one);
    };
    let other = BaseTable::new(media, mate).load(index);
    if one == other {
        return Found::Entry(one);
    }
    // What a member lost reads as zeroes, and tells nothing.
    let is_lost = |region: &Region| {
        region.has_media_error(media.geometry.entry_offset(index), ENTRY_BYTES as usize)
    };
    match (is_lost(main.region), is_lost(mate)) {
        (true, false) => return Found::Chosen(other),
        (false, true) => return Found::Chosen(one),
        _ => {}
    }
    let slots = media.geometry.slots();
    let is_clean = |entry: Option<Entry>| entry.is_some_and(|entry| entry.is_clean());
    match (one.validate(slots), other.validate(slots)) {
        (Ok(a), Ok(b)) => match (a, b) {
            (Some(a), Some(b)) if a.as_clean() == b.as_clean() => {
                Found::Chosen(if a.is_clean() { other } else { one })
            }
            (None, entry) | (entry, None) if is_clean(entry) => Found::Unfinished,
            _ => Found::Contradiction,
        },
        // Torn, with a bit flipped, or nonsense: the other one has it.
        (Ok(a), Err(_)) if a.is_none() || is_clean(a) => Found::Unfinished,
        (Err(_), Ok(b)) if b.is_none() || is_clean(b) => Found::Unfinished,
        // One has half of a fill, and the other one another half, or all of it with a bit flipped: nothing else leaves a half
        // of an entry alone.
        (Err(BadEntry::Torn), Err(_)) | (Err(_), Err(BadEntry::Torn)) => Found::Unfinished,
        (Ok(_), Err(_)) => Found::Chosen(one),
        (Err(_), Ok(_)) => Found::Chosen(other),
        (Err(_), Err(_)) => Found::Contradiction,
    }
}
