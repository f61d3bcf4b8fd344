//! Stores what recovery decided into the entry table.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::media::Media;
use crate::media::entry::Entry;
use crate::media::layout::ENTRY_BYTES;
use crate::media::sealed::SealedLines;
use crate::media::seals::{Round, TableLine};
use crate::mutants::{Mutant, mutated};
use crate::recovery::base::BaseTable;
use crate::recovery::mappings::Stores;
use crate::recovery::report::Notes;
use crate::table::index::ENTRIES_PER_LINE;

/// A table whose lines have seals.
pub(super) struct SealedTable {
    /// In which recovery sends lines.
    round: Round,
    /// Of a table of one copy.
    lines: SealedLines,
}

impl SealedTable {
    /// Looks at a table of one copy; `round` is the last that is whole.
    pub(super) fn examine(media: &Media, round: Round) -> SealedTable {
        let lines = match media.has_lone_seals() {
            true => media.examine_sealed(round),
            false => SealedLines::default(),
        };
        SealedTable {
            round: round.of_recovery(),
            lines,
        }
    }

    /// Whether the entry's line is lost.
    pub(super) fn is_lost(&self, index: u32) -> bool {
        self.lines.lost.contains(&(index / ENTRIES_PER_LINE))
    }
}

/// Says that a line is lost.
///
/// # Errors
/// The caller of recovery does not accept loss.
pub(super) fn note_lost(line: u32, notes: &mut Notes) -> Result<()> {
    let first = line * ENTRIES_PER_LINE;
    let last = first + ENTRIES_PER_LINE - 1;
    notes.damage(format!(
        "line {line} of the entry table (entries {first} to {last}) is not what was stored there last"
    ))
}

/// Stores the entries, which come in ascending order. `is_named` says whether a record names one.
///
/// # Errors
/// A fence fails.
pub(super) fn store(
    media: &Media,
    stores: &Stores,
    is_named: impl Fn(u32) -> bool,
    table: Option<&SealedTable>,
) -> Result<()> {
    let is_lost = |index| table.is_some_and(|table| table.is_lost(index));
    // While their seals still tell that they are lost.
    tear_unnamed(media, stores, |index| !is_named(index) && is_lost(index))?;
    let lone = table.filter(|_| media.has_lone_seals());
    if let Some(table) = lone {
        media.seal_ahead(&lines_to_be(media, stores, &table.lines), table.round)?;
    }
    tear_unnamed(media, stores, |index| !is_named(index) && !is_lost(index))?;
    media.on_metadata(|region| store_to(media, BaseTable::new(media, region), stores));
    match (lone, table) {
        // What a killed process stored may be in a cache only.
        (Some(lone), _) => {
            (lone.lines.under_way.iter()).for_each(|number| media.flush_found_table_line(*number))
        }
        (None, Some(table)) => {
            let sent = stores.iter().map(|(index, _)| index / ENTRIES_PER_LINE);
            media.reseal(table.round, sent);
        }
        (None, None) => {}
    }
    Ok(())
}

/// The lines that change, and those that were under way, as they will be.
fn lines_to_be(media: &Media, stores: &Stores, found: &SealedLines) -> Vec<(u32, TableLine)> {
    let mut lines: BTreeMap<u32, TableLine> = found
        .under_way
        .iter()
        .map(|number| (*number, media.found_table_line(*number)))
        .collect();
    for (index, entry) in stores {
        let number = index / ENTRIES_PER_LINE;
        let line = lines
            .entry(number)
            .or_insert_with(|| media.found_table_line(number));
        let at = (index % ENTRIES_PER_LINE) as usize * ENTRY_BYTES as usize;
        line[at..at + ENTRY_BYTES as usize].copy_from_slice(&entry.bits().to_le_bytes());
    }
    lines.into_iter().collect()
}

/// Entries that no record names are cleared in two steps. The next process, after a kill, sees what is
/// stored here and has no reason to store it again; a power cut would then bring back what damage left,
/// beside newer blocks. Half an entry says all that is needed: the process that finds it clears it, in
/// memory or on the medium.
fn tear_unnamed(media: &Media, stores: &Stores, is_to_tear: impl Fn(u32) -> bool) -> Result<()> {
    // Without a record an entry can only go, or come to the member that lacks it.
    let is_cleared = |(index, entry): &&(u32, Entry)| entry.is_free() && is_to_tear(*index);
    let mut is_any_torn = false;
    for (index, _) in stores.iter().filter(is_cleared) {
        media.on_metadata(|region| BaseTable::new(media, region).tear(*index));
        is_any_torn = true;
    }
    if is_any_torn {
        // Orders the halves before the entries are gone.
        media.fence()?;
    }
    Ok(())
}

/// Stores the entries, which come in ascending order, and flushes each line of the table once: even an
/// entry that was equal may have been in a cache only. Lines that no record names need none of this:
/// of what the medium lacks there nothing but fills and clean marks would be lost.
fn store_to(media: &Media, entries: BaseTable<'_>, stores: &Stores) {
    if stores.len() >= media.geometry.entries as usize / 2 {
        media.store_table_ahead();
    }
    for in_line in
        stores.chunk_by(|one, next| one.0 / ENTRIES_PER_LINE == next.0 / ENTRIES_PER_LINE)
    {
        let mut is_changed = false;
        for (index, entry) in in_line {
            if entries.load(*index) != *entry {
                entries.store(*index, *entry);
                is_changed = true;
            }
        }
        if !is_changed && mutated(Mutant::EqualEntriesNotFlushed) {
            continue;
        }
        entries.send_line_of(in_line[0].0);
    }
}
