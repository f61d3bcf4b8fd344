//! What the entry table says of positions that no record names, on one member or on several.
//!
//! What differs between members has met a crash, or damage. A line is made equal on all of them before it is sent again
//! (`media/seals.rs`), so that a crash leaves of each entry on each member what was there before, what was sent, or half
//! of either. Without a record two things are sent: a fill, over a free entry, of which any half may be missing; and
//! a clean mark, which is one word. So of the entries that are whole all are the same block, dirty or clean, and then it
//! counts as dirty if one says so, for the backing may lack it; or some are free and the others one clean block, and then
//! it was a fill that nothing rests on. That holds of any number of members, and none of it asks which of them
//! says what.

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
    /// This one of some that differ.
    Chosen(RawEntry),
    /// A fill or an eviction of clean blocks that not all members have: nothing acknowledged.
    Unfinished,
    /// None follows from another by what needs no record.
    Contradiction,
}

impl<'m> BaseTable<'m> {
    pub(super) fn new(media: &'m Media, region: &'m Region) -> Self {
        BaseTable { media, region }
    }
    /// Those of all members, first that of the one that leads.
    pub(super) fn of_all(media: &'m Media) -> Vec<BaseTable<'m>> {
        let members = media.metadata();
        members
            .map(|region| BaseTable::new(media, region))
            .collect()
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

/// What the table says of a position that no record names. Few differ.
pub(super) fn find(tables: &[BaseTable<'_>], index: u32) -> Found {
    let one = tables[0].load(index);
    match tables[1..].iter().all(|other| other.load(index) == one) {
        true => Found::Entry(one),
        false => find_among(tables, index),
    }
}

/// The same where not all members have the same.
#[cold]
fn find_among(tables: &[BaseTable<'_>], index: u32) -> Found {
    // What a member lost reads as zeroes, and tells nothing.
    let is_whole = |table: &&BaseTable<'_>| {
        let offset = table.offset(index);
        !table.region.has_media_error(offset, ENTRY_BYTES as usize)
    };
    let told = tables.iter().filter(is_whole);
    let told: Vec<RawEntry> = told.map(|table| table.load(index)).collect();
    match told[..] {
        [] => Found::Contradiction,
        [one, ref others @ ..] if others.iter().all(|other| *other == one) => Found::Chosen(one),
        _ => choose(&told, tables[0].media.geometry.slots()),
    }
}

/// What entries of one position say that are not all the same.
fn choose(told: &[RawEntry], slots: u32) -> Found {
    let (mut whole, mut is_any_free, mut is_any_torn, mut is_any_damaged) =
        (Vec::new(), false, false, false);
    for raw in told {
        match raw.validate(slots) {
            Ok(Some(entry)) => whole.push((*raw, entry)),
            Ok(None) => is_any_free = true,
            Err(BadEntry::Torn) => is_any_torn = true,
            Err(_) => is_any_damaged = true,
        }
    }
    let Some((_, first)) = whole.first() else {
        // Some have half of a fill, and others another half, or all of it with a bit flipped: nothing else leaves a half of
        // an entry alone.
        return match is_any_free || is_any_torn {
            true => Found::Unfinished,
            false => Found::Contradiction,
        };
    };
    let is_one_block = whole
        .iter()
        .all(|(_, entry)| entry.as_clean() == first.as_clean());
    let dirty = whole.iter().find(|(_, entry)| !entry.is_clean());
    match (is_one_block, dirty) {
        (true, Some((raw, _))) if !is_any_free => Found::Chosen(*raw),
        (true, None) if is_any_free || is_any_torn || is_any_damaged => Found::Unfinished,
        _ => Found::Contradiction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::entry::Key;

    const SLOTS: u32 = 8;

    fn entry(slot: u32, is_clean: bool) -> RawEntry {
        let entry = Entry::data(Key::new(1, 3), slot, 7);
        let entry = if is_clean { entry.as_clean() } else { entry };
        RawEntry::from_bits(entry.bits())
    }

    /// What is found does not depend on which member says what.
    fn of_each_order(told: [RawEntry; 3]) -> Found {
        let kind = |found: &Found| match found {
            Found::Entry(raw) | Found::Chosen(raw) => (0, Some(*raw)),
            Found::Unfinished => (1, None),
            Found::Contradiction => (2, None),
        };
        let [a, b, c] = told;
        let orders = [
            [a, b, c],
            [a, c, b],
            [b, a, c],
            [b, c, a],
            [c, a, b],
            [c, b, a],
        ];
        let all = orders.map(|order| choose(&order, SLOTS));
        assert!(all.windows(2).all(|two| kind(&two[0]) == kind(&two[1])));
        choose(&told, SLOTS)
    }

    #[test]
    fn what_three_members_say_counts_whichever_says_it() {
        let (dirty, clean) = (entry(2, false), entry(2, true));
        let free = RawEntry::from_bits(0);
        let torn = RawEntry::from_bits(clean.bits() & u128::from(u64::MAX));
        let other_half = RawEntry::from_bits(clean.bits() & !u128::from(u64::MAX));
        let flipped = RawEntry::from_bits(dirty.bits() ^ 1 << 70);
        let is_dirty = |found| matches!(found, Found::Chosen(raw) if raw == dirty);
        assert!(is_dirty(of_each_order([dirty, clean, clean])));
        assert!(is_dirty(of_each_order([dirty, flipped, dirty])));
        assert!(is_dirty(of_each_order([dirty, flipped, flipped])));
        assert!(is_dirty(of_each_order([dirty, clean, flipped])));
        for fill in [
            [free, clean, clean],
            [free, free, clean],
            [free, torn, other_half],
            [torn, clean, clean],
            [torn, other_half, clean],
            [free, flipped, clean],
        ] {
            assert!(matches!(of_each_order(fill), Found::Unfinished));
        }
        for nothing in [
            [free, dirty, dirty],
            [entry(3, true), clean, free],
            [entry(3, false), dirty, dirty],
            [
                flipped,
                flipped,
                RawEntry::from_bits(dirty.bits() ^ 1 << 71),
            ],
        ] {
            assert!(matches!(of_each_order(nothing), Found::Contradiction));
        }
    }
}
