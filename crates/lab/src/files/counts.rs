//! What a write costs the region, counted: one thread, no clock.

use std::io;
use std::path::Path;

use forebay_harness::choice::Choice;
use forebay_pmem::thread_counters;
use serde::Serialize;

use super::content::Pieces;
use super::files_on_disk::FilesOnDisk;
use super::scope::{Cell, FilesScope};
use super::stand::{Contender, Stand};
use crate::autobahn::AutoBahnOptions;

/// Bytes of the part of a file that is written anywhere: both buffers hold it whole.
const WRITTEN_BYTES: u64 = 2 << 20;
/// Whole blocks of either.
const BLOCK_BYTES: u64 = 16 << 10;

/// What writes cost one contender, in the thread that writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CountsRow {
    /// The contender that wrote.
    pub contender: Contender,
    /// `append`, `uniform` or `zipf`.
    pub pattern: &'static str,
    /// Of a write.
    pub unit_bytes: usize,
    /// Writes that were counted.
    pub writes: u64,
    /// Cache lines persisted for each.
    pub lines: f64,
    /// Fences.
    pub fences: f64,
}

/// Counts a cell for a contender with a region, all of whose blocks it holds already.
///
/// # Errors
/// The contender's.
pub fn count_writes(
    contender: Contender,
    (memory, files): (&Path, &FilesOnDisk),
    scope: &FilesScope,
    cell: Cell,
) -> io::Result<CountsRow> {
    let options = AutoBahnOptions::default();
    let stand = Stand::new(
        contender,
        (memory, files.path()),
        scope.region_bytes,
        &options,
    )?;
    let pieces = Pieces::new(cell.unit.bytes, 1);
    let unit_bytes = cell.unit.bytes as u64;
    let units = WRITTEN_BYTES / unit_bytes;
    let (name, writes) = match cell.pattern.law() {
        // So few that beginnings of blocks have the share of them that they always have.
        None => (files.fresh(0), units.min(scope.counted_writes)),
        Some(_) => (files.filled(0), scope.counted_writes),
    };
    let mut target = stand.open(&name)?;
    let mut places = match cell.pattern.law() {
        None => None,
        Some(law) => Some(Choice::new(law, units, 1).map_err(io::Error::other)?),
    };
    // Rows and segments are made, and what is written anywhere is cached, from the start of a block to the end of one.
    let filled_bytes = if places.is_some() {
        WRITTEN_BYTES
    } else {
        BLOCK_BYTES
    };
    let block = [0x66; BLOCK_BYTES as usize];
    for place in (0..filled_bytes).step_by(block.len()) {
        target.write(places.is_some().then_some(place), &block)?;
    }
    let counted = thread_counters();
    for number in 0..writes {
        let place = places
            .as_mut()
            .map(|choice| choice.next(units) * unit_bytes);
        target.write(place, pieces.of(number))?;
    }
    let counted = thread_counters() - counted;
    target.close()?;
    stand.close()?;
    if cell.pattern.law().is_none() {
        files.remove_fresh(1)?;
    }
    Ok(CountsRow {
        contender,
        pattern: cell.pattern.as_str(),
        unit_bytes: cell.unit.bytes,
        writes,
        lines: counted.lines() as f64 / writes as f64,
        fences: counted.fences as f64 / writes as f64,
    })
}
