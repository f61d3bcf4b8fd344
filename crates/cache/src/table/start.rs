//! A table from the mappings that recovery found: everything in DRAM is made anew.

use super::entries::Entries;
use super::holders::Holders;
use super::index::Index;
use super::live::LiveVolumes;
use super::pins::Pins;
use super::references::References;
use super::slots::Slots;
use super::states::States;
use super::{ENTRIES_PER_LINE, Table};
use crate::error::Result;
use crate::media::Media;
use crate::media::entry::Entry;
use crate::mutants::{Mutant, mutated};
use crate::sync::AtomicU64;

/// Packed slots that are asked for before their headers are read.
const READ_AHEAD_SLOTS: usize = 4096;

/// A bit for each of so many numbers.
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: u32) -> Bits {
        Bits(vec![0; (count as usize).div_ceil(64)])
    }
    fn set(&mut self, bit: u32) {
        self.0[bit as usize / 64] |= 1 << (bit % 64);
    }
    fn contains(&self, bit: u32) -> bool {
        self.0[bit as usize / 64] >> (bit % 64) & 1 != 0
    }
}

/// The slots that hold packed blocks, each once, ascending.
fn packed_slots(mappings: &[(u32, Entry)]) -> Vec<u32> {
    let packed = mappings.iter().filter(|(_, entry)| entry.is_packed());
    let mut slots: Vec<u32> = packed.filter_map(|(_, entry)| entry.slot()).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Notes which slots hold what the backing lacks, or what a block that the backing lacks rests on.
fn note_copies(media: &Media, mappings: &[(u32, Entry)]) {
    if !media.is_mirrored() {
        return;
    }
    let dirty = mappings.iter().map(|(_, entry)| entry);
    for entry in dirty.filter(|entry| !entry.is_clean()) {
        let Some(slot) = entry.slot() else { continue };
        media.found_copied(slot);
        let base = entry.is_packed().then(|| media.packing(slot)).flatten();
        if let Some(base) = base.and_then(|packing| packing.base) {
            media.found_copied(base);
        }
    }
}

/// The slots that mappings lead to, with what each has of further holders.
fn used_slots(media: &Media, mappings: &[(u32, Entry)], references: &References) -> Bits {
    let mut used = Bits::new(media.geometry.slots());
    let mut hold = |slot: u32| {
        if used.contains(slot) && !mutated(Mutant::ReferencesNotRebuilt) {
            references.hold_found(slot);
        }
        used.set(slot);
    };
    mappings
        .iter()
        .filter_map(|(_, entry)| entry.slot())
        .for_each(&mut hold);
    for some in packed_slots(mappings).chunks(READ_AHEAD_SLOTS) {
        media.read_slots_ahead(some.iter().copied());
        for slot in some {
            // What cannot be read any more has no base; readers of the block get an error.
            let base = media.packing(*slot).and_then(|packing| packing.base);
            if let Some(base) = base.filter(|_| !mutated(Mutant::BasesNotHeld)) {
                hold(base);
            }
        }
    }
    used
}

impl Table {
    /// The table of a pool whose medium holds these mappings, with its entries there or in DRAM.
    ///
    /// # Errors
    /// There is no memory for the entries.
    pub(crate) fn start(
        media: Media,
        mappings: &[(u32, Entry)],
        entries_in_dram: bool,
    ) -> Result<Table> {
        let entries = match entries_in_dram || media.is_sealed() {
            true => Entries::in_dram(&media, mappings)?,
            false => Entries::on_medium(&media),
        };
        note_copies(&media, mappings);
        let geometry = media.geometry;
        let references = References::new(geometry.slots());
        let used_slots = used_slots(&media, mappings, &references);
        let mut used_entries = Bits::new(geometry.entries);
        mappings
            .iter()
            .for_each(|(index, _)| used_entries.set(*index));
        let lines = geometry.entries.div_ceil(ENTRIES_PER_LINE * 64);
        let table = Table {
            entries,
            index: Index::with_used(geometry.entries, |entry| used_entries.contains(entry)),
            slots: match geometry.has_rows {
                true => Slots::with_rows(&geometry, |slot| used_slots.contains(slot)),
                false => Slots::new(geometry.slots(), geometry.lanes, |slot| {
                    used_slots.contains(slot)
                }),
            },
            references,
            holders: Holders::new(&geometry),
            states: States::new(geometry.entries),
            unlogged_lines: (0..lines).map(|_| AtomicU64::new(0)).collect(),
            live: LiveVolumes::new(geometry.volumes),
            pins: Pins::default(),
            media,
        };
        for (index, entry) in mappings {
            table.index.link(table.bucket(entry.key()), *index);
            if let Some(slot) = entry.slot() {
                table.holders.note(slot, *index);
            }
            if !entry.is_clean() {
                table.states.mark_found_dirty(*index);
            }
        }
        Ok(table)
    }
}
