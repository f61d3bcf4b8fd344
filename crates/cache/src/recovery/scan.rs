//! Finds the whole records of the current life in every lane.

use std::ops::Range;

use crate::error::Result;
use crate::layout::LINE_BYTES;
use crate::media::Media;
use crate::mutants::{Mutant, mutated};
use crate::record::{Record, Salt, decode, lines_of, parse, tagged_position};
use crate::recovery::Notes;

/// A plain file's lanes step by pages.
const PAGE_BYTES: u64 = 4096;

/// All whole records with a sequence above `checkpoint`, lane by lane, in order of position.
pub(super) fn scan(
    media: &Media,
    salt: Salt,
    checkpoint: u64,
    notes: &mut Notes,
) -> Result<Vec<Record>> {
    let mut all = Vec::new();
    let mut hole = None;
    for lane in 0..media.geometry.lanes {
        let mut records = scan_lane(media, salt, lane);
        records.sort_unstable_by_key(|record| record.position);
        hole = hole.or_else(|| find_hole(media.geometry.lane_bytes, &records, checkpoint));
        all.extend(records.into_iter().filter(|r| r.sequence > checkpoint));
    }
    notes.report.records = all.len() as u64;
    let newest = all.iter().map(|record| record.sequence).max();
    let drawn = newest.unwrap_or(checkpoint) - checkpoint;
    // Every sequence that was drawn has a record, so if none is missing, a hole held nothing.
    if let Some(hole) = hole.filter(|_| drawn != all.len() as u64) {
        notes.damage(hole)?;
    }
    check_watermark(&all, checkpoint, notes)?;
    Ok(all)
}

/// Whole records of this life, also those that the table has already.
fn scan_lane(media: &Media, salt: Salt, lane: u32) -> Vec<Record> {
    let lane_bytes = media.geometry.lane_bytes;
    let mut records = Vec::new();
    let mut offset = 0;
    while offset < lane_bytes {
        let record = record_at(media, salt, lane, offset);
        // Whole records never overlap: the later one would have changed the other's bytes.
        offset += record.as_ref().map_or(LINE_BYTES, |record| record.bytes);
        records.extend(record);
    }
    records
}

fn record_at(media: &Media, salt: Salt, lane: u32, offset: u64) -> Option<Record> {
    let region = media.main();
    let lane_bytes = media.geometry.lane_bytes;
    let base = media.geometry.lane_offset(lane);
    let tag = region.load_u64(base + offset);
    if tag == 0 {
        return None;
    }
    let lap_word = region.load_u64(base + offset + 16);
    let position = tagged_position(salt, lane, lane_bytes, offset, tag, lap_word)?;
    let bytes = lines_of(region.load_u64(base + offset + 24)) * LINE_BYTES;
    if bytes == 0 || bytes > lane_bytes - offset {
        return None;
    }
    let mut raw = vec![0; bytes as usize];
    region.read(base + offset, &mut raw);
    if mutated(Mutant::RecordCrcSkipped) {
        parse(lane, position, &raw)
    } else {
        decode(salt, lane, position, &raw)
    }
}

/// A lane's record is fenced before the next one is written, so before a whole one there is
/// nothing but the step to the next line, page or lap, and in the first lap the lane's start. But
/// records up to `checkpoint` may be overwritten, wholly or in part.
fn find_hole(lane_bytes: u64, records: &[Record], checkpoint: u64) -> Option<String> {
    let (first, last) = (records.first()?, records.last()?);
    let lane = first.lane;
    let is_overwritten = |gap| may_be_overwritten(lane_bytes, last.position + last.bytes, gap);
    let is_headless = first.sequence > checkpoint && (1..lane_bytes).contains(&first.position);
    if is_headless && !is_overwritten(0..first.position) {
        let sequence = first.sequence;
        return Some(format!(
            "lane {lane}: the log has a hole before sequence {sequence}"
        ));
    }
    let is_hole = |pair: &&[Record]| {
        let gap = pair[0].position + pair[0].bytes..pair[1].position;
        pair[1].sequence > checkpoint
            && !are_neighbours(lane_bytes, &pair[0], &pair[1])
            && !(pair[0].sequence <= checkpoint && is_overwritten(gap))
    };
    let pair = records.windows(2).find(is_hole)?;
    let (before, after) = (pair[0].sequence, pair[1].sequence);
    Some(format!(
        "lane {lane}: the log has a hole between sequences {before} and {after}"
    ))
}

/// Whether the record that a crash stopped after `end` can have reached what was at `gap` a lap ago.
fn may_be_overwritten(lane_bytes: u64, end: u64, gap: Range<u64>) -> bool {
    let reach = lane_bytes / 2 + PAGE_BYTES;
    let next_lap = end.next_multiple_of(lane_bytes);
    let starts = [Some(end), (next_lap - end < reach).then_some(next_lap)];
    let gap = gap.start + lane_bytes..gap.end + lane_bytes;
    starts
        .into_iter()
        .flatten()
        .any(|start| start < gap.end && gap.start < start + reach)
}

fn are_neighbours(lane_bytes: u64, first: &Record, second: &Record) -> bool {
    let end = first.position + first.bytes;
    let next_lap = end.next_multiple_of(lane_bytes);
    let adjoining = second.position == end
        || second.position == end.next_multiple_of(PAGE_BYTES)
        || (second.position == next_lap && next_lap - end < lane_bytes / 2 + PAGE_BYTES);
    adjoining && second.sequence > first.sequence
}

/// Everything up to a watermark that some record carries was published, so it must be here.
fn check_watermark(records: &[Record], checkpoint: u64, notes: &mut Notes) -> Result<()> {
    let watermark = records
        .iter()
        .map(|record| record.acknowledged)
        .max()
        .unwrap_or(0);
    let expected = watermark.saturating_sub(checkpoint);
    let found = records
        .iter()
        .filter(|record| record.sequence <= watermark)
        .count() as u64;
    if found == expected {
        return Ok(());
    }
    notes.damage(format!(
        "{expected} records between sequences {checkpoint} and {watermark} were acknowledged, \
         {found} are left"
    ))
}
