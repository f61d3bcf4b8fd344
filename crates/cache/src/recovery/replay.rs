//! Brings the committed records onto the entry table, and deltas into the slots they belong to.
//!
//! Replay works on positions of the table, each of which names one key at a time, never on slots:
//! a delta counts only if its position still maps the slot it was made for, with nothing whole in
//! between. Otherwise it would land in another key's block.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::log::record::{Element, ElementKind, Record, Records};
use crate::media::entry::{BadEntry, Entry};
use crate::media::{Media, encode_partial_len};
use crate::mutants::{Mutant, mutated};
use crate::recovery::base::{self, BaseTable, Found};
use crate::recovery::claims::Claims;
use crate::recovery::mappings::{Mappings, Stores};
use crate::recovery::report::Notes;
use crate::recovery::store::{self, SealedTable};
use crate::table::index::ENTRIES_PER_LINE;

/// Entries ahead of the one at work whose records are prefetched: they lie in the records' order.
const PREFETCH_DISTANCE: u32 = 16;

/// Something to be stored into a slot once the final mappings are known.
struct Redo<'r> {
    slot: u32,
    what: RedoBytes<'r>,
}

enum RedoBytes<'r> {
    Delta { offset: usize, bytes: &'r [u8] },
    ValidBytes(usize),
}

/// The positions that some record names.
struct Positions<'r> {
    /// A bit for each position to which older records add nothing. Most records name such a position, and cost
    /// one look at its bit.
    settled: Vec<u64>,
    /// For each entry of the table its place in `named` plus one, or 0.
    places: Vec<u32>,
    /// What the newest record says; free where the key left.
    named: Vec<Entry>,
    /// What is to be stored into the slots of some positions, newest first.
    redo: BTreeMap<u32, Vec<Redo<'r>>>,
}

impl<'r> Positions<'r> {
    fn new(entries: u32, records: usize) -> Positions<'r> {
        Positions {
            settled: vec![0; (entries as usize).div_ceil(64)],
            places: vec![0; entries as usize],
            named: Vec::with_capacity(records.min(entries as usize)),
            redo: BTreeMap::new(),
        }
    }
    fn is_settled(&self, index: u32) -> bool {
        self.settled
            .get(index as usize / 64)
            .is_some_and(|word| word >> (index % 64) & 1 != 0)
    }
    fn get(&self, index: u32) -> Option<Entry> {
        let place = self.places[index as usize].checked_sub(1)?;
        Some(self.named[place as usize])
    }
    fn prefetch(&self, index: u32) {
        let place = self
            .places
            .get(index as usize)
            .and_then(|place| place.checked_sub(1));
        if let Some(place) = place {
            forebay_pmem::prefetch(&self.named[place as usize]);
        }
    }

    /// The next older element of a position that is not settled.
    fn add_older(&mut self, element: &Element, bytes: &'r [u8]) {
        let place = &mut self.places[element.index as usize];
        if *place == 0 {
            let is_tombstone = element.is_tombstone();
            self.named.push(if is_tombstone {
                Entry::FREE
            } else {
                element.entry
            });
            *place = self.named.len() as u32;
        }
        let now = self.named[*place as usize - 1];
        let is_same = now.slot() == element.entry.slot() && now.key() == element.entry.key();
        let what = match (now.slot().filter(|_| is_same), element.kind) {
            (Some(slot), ElementKind::Delta { offset, .. }) => Redo {
                slot,
                what: RedoBytes::Delta {
                    offset: usize::from(offset),
                    bytes,
                },
            },
            (Some(slot), ElementKind::Append { valid_bytes }) => Redo {
                slot,
                what: RedoBytes::ValidBytes(valid_bytes as usize),
            },
            _ => {
                self.settled[element.index as usize / 64] |= 1 << (element.index % 64);
                return;
            }
        };
        self.redo.entry(element.index).or_default().push(what);
    }
}

pub(super) fn replay(
    media: &Media,
    log: &Records,
    table: Option<&SealedTable>,
    volumes: &[u32],
    notes: &mut Notes,
) -> Result<Mappings> {
    let positions = final_positions(media, log, notes)?;
    let mut claims = Claims::new(&media.geometry);
    let mut mappings = Vec::with_capacity(media.geometry.slots() as usize);
    // Buffer stores, so that a refused open changes nothing.
    let mut stores = Stores::with_capacity(positions.named.len());
    let tables = BaseTable::of_all(media);
    let is_lost = |index| table.is_some_and(|table| table.is_lost(index));
    let mut told_lost = None;
    for index in 0..media.geometry.entries {
        positions.prefetch(index + PREFETCH_DISTANCE);
        let entry = match positions.get(index) {
            Some(named) => {
                let is_kept = mutated(Mutant::NamedBaseEntriesKept) && named.is_free();
                if !is_kept {
                    stores.push((index, named));
                }
                let kept = is_kept.then(|| media.sound(tables[0].load(index)));
                let entry = kept.flatten().unwrap_or(named);
                let entry = (!entry.is_free()).then_some(entry);
                entry
                    .map(|entry| of_known_volume(index, entry, volumes, &mut stores, notes))
                    .transpose()?
                    .flatten()
            }
            None if is_lost(index) => {
                let line = index / ENTRIES_PER_LINE;
                if told_lost.replace(line) != Some(line) {
                    store::note_lost(line, notes)?;
                }
                stores.push((index, Entry::FREE));
                None
            }
            None => base_entry(media, &tables, index, volumes, &mut stores, notes)?,
        };
        let Some(entry) = entry else { continue };
        claims.add(entry);
        notes.report.dirty_blocks += u64::from(!entry.is_clean());
        mappings.push((index, entry));
    }
    let losers = claims.settle(&mut mappings, &mut stores, notes)?;
    let is_named = |index| positions.get(index).is_some();
    store::store(media, &stores, is_named, table)?;
    let kept = |index: &u32| losers.binary_search(index).is_err();
    for (_, redo) in positions.redo.iter().filter(|(index, _)| kept(index)) {
        apply(media, redo, notes);
    }
    notes.report.blocks = mappings.len() as u64;
    Ok(mappings)
}

/// Runs the records from the newest to the oldest: the first one to name a position says what it
/// holds; older deltas count for as long as the slot is the same and nothing whole comes up.
fn final_positions<'r>(
    media: &Media,
    log: &'r Records,
    notes: &mut Notes,
) -> Result<Positions<'r>> {
    let mut positions = Positions::new(media.geometry.entries, log.len());
    let mut ordered: Vec<Record<'_>> = log.iter().rev().collect();
    if mutated(Mutant::OlderRecordReplayedLast) {
        ordered.reverse();
    }
    let mut parts = Vec::new();
    for record in ordered {
        parts.clear();
        parts.extend(record.parts());
        for (element, redo) in parts.drain(..).rev() {
            if mutated(Mutant::DeltaReplayedOnSlot)
                && let ElementKind::Delta { offset, .. } = element.kind
                && let Some(slot) = media.sound(element.entry).and_then(|entry| entry.slot())
            {
                media.store_slot(slot, usize::from(offset), redo);
                media.flush_slot(slot, usize::from(offset), redo.len());
            }
            if positions.is_settled(element.index) {
                continue;
            }
            // Refuses what no commit writes, whatever got past the CRC.
            match element.validate(&media.geometry, redo.len()) {
                Ok(element) => positions.add_older(&element, redo),
                Err(what) => {
                    let sequence = record.sequence();
                    notes.damage(format!("record of sequence {sequence}: {what}"))?;
                }
            }
        }
    }
    Ok(positions)
}

/// An entry that no record since S names: it holds since the checkpoint, or it was a fill.
fn base_entry(
    media: &Media,
    tables: &[BaseTable<'_>],
    index: u32,
    volumes: &[u32],
    stores: &mut Stores,
    notes: &mut Notes,
) -> Result<Option<Entry>> {
    let found = base::find(tables, index);
    let (raw, is_on_both) = match found {
        Found::Entry(raw) => (raw, true),
        Found::Chosen(raw) => (raw, false),
        Found::Unfinished => {
            notes.report.torn_entries += 1;
            stores.push((index, Entry::FREE));
            return Ok(None);
        }
        Found::Contradiction => {
            notes.damage(format!(
                "entry {index} of the table differs between the members"
            ))?;
            stores.push((index, Entry::FREE));
            return Ok(None);
        }
    };
    let found = match raw.validate(media.geometry.slots()) {
        Ok(None) => return Ok(None),
        Ok(Some(entry)) if entry.is_clean() && rests_on_missing(media, entry) => {
            stores.push((index, Entry::FREE));
            return Ok(None);
        }
        Ok(Some(entry)) => {
            let known = of_known_volume(index, entry, volumes, stores, notes)?;
            stores.extend(known.filter(|_| !is_on_both).map(|entry| (index, entry)));
            return Ok(known);
        }
        Err(BadEntry::Torn) => {
            // Only fills are stored without a record, into a free entry, so one half is missing.
            notes.report.torn_entries += 1;
            stores.push((index, Entry::FREE));
            return Ok(None);
        }
        Err(BadEntry::Parity) => "has a flipped bit".into(),
        Err(BadEntry::Nonsense) => format!("makes no sense: {raw:?}"),
    };
    notes.damage(format!("entry {index} of the table {found}"))?;
    stores.push((index, Entry::FREE));
    Ok(None)
}

/// Whether a clean block, or what it rests on, has no half but on a member that is not there.
fn rests_on_missing(media: &Media, entry: Entry) -> bool {
    let base = |slot| media.packing(slot).and_then(|packing| packing.base);
    media.is_on_missing(entry.slot())
        || entry.is_packed()
            && media.lacks_member()
            && media.is_on_missing(entry.slot().and_then(base))
}

/// The entry, unless its volume is unknown: then nothing could ever be done with its block.
fn of_known_volume(
    index: u32,
    entry: Entry,
    volumes: &[u32],
    stores: &mut Stores,
    notes: &mut Notes,
) -> Result<Option<Entry>> {
    let volume = entry.key().volume();
    if volumes.contains(&volume) {
        return Ok(Some(entry));
    }
    notes.damage(format!(
        "entry {index} of the table names volume {volume}, which is not there"
    ))?;
    stores.push((index, Entry::FREE));
    Ok(None)
}

fn apply(media: &Media, newest_first: &[Redo<'_>], notes: &mut Notes) {
    for redo in newest_first.iter().rev() {
        // The backing lacks what a delta changes, so both halves have it.
        media.found_copied(redo.slot);
        match redo.what {
            RedoBytes::Delta { offset, bytes } => {
                media.store_slot(redo.slot, offset, bytes);
                media.flush_slot(redo.slot, offset, bytes.len());
                notes.report.deltas_applied += 1;
            }
            RedoBytes::ValidBytes(valid) => {
                let offset = media.trailer_offset();
                media.store_slot(redo.slot, offset, &encode_partial_len(valid));
                media.flush_slot(
                    redo.slot,
                    offset,
                    crate::media::layout::PARTIAL_TRAILER_BYTES,
                );
            }
        }
    }
}
