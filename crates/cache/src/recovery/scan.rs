//! Finds the whole records of the current life in every lane.

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
    for lane in 0..media.geometry.lanes {
        let mut records = scan_lane(media, salt, lane, checkpoint);
        records.sort_unstable_by_key(|record| record.position);
        for pair in records.windows(2) {
            check_neighbours(media, &pair[0], &pair[1], notes)?;
        }
        all.append(&mut records);
    }
    notes.report.records = all.len() as u64;
    check_watermark(&all, checkpoint, notes)?;
    Ok(all)
}

fn scan_lane(media: &Media, salt: Salt, lane: u32, checkpoint: u64) -> Vec<Record> {
    let region = media.main();
    let lane_bytes = media.geometry.lane_bytes;
    let base = media.geometry.lane_offset(lane);
    let mut records = Vec::new();
    for offset in (0..lane_bytes).step_by(LINE_BYTES as usize) {
        let tag = region.load_u64(base + offset);
        if tag == 0 {
            continue;
        }
        let lap_word = region.load_u64(base + offset + 16);
        let Some(position) = tagged_position(salt, lane, lane_bytes, offset, tag, lap_word) else {
            continue;
        };
        let bytes = lines_of(region.load_u64(base + offset + 24)) * LINE_BYTES;
        if bytes == 0 || bytes > lane_bytes - offset {
            continue;
        }
        let mut raw = vec![0; bytes as usize];
        region.read(base + offset, &mut raw);
        let record = if mutated(Mutant::RecordCrcSkipped) {
            parse(lane, position, &raw)
        } else {
            decode(salt, lane, position, &raw)
        };
        records.extend(record.filter(|record| record.sequence > checkpoint));
    }
    records
}

/// A lane's record is fenced before the next one is written, so between two whole ones there is
/// nothing but the step to the next line, page or lap.
fn check_neighbours(
    media: &Media,
    first: &Record,
    second: &Record,
    notes: &mut Notes,
) -> Result<()> {
    let lane_bytes = media.geometry.lane_bytes;
    let end = first.position + first.bytes;
    let next_lap = end.next_multiple_of(lane_bytes);
    let adjoining = second.position == end
        || second.position == end.next_multiple_of(PAGE_BYTES)
        || (second.position == next_lap && next_lap - end < lane_bytes / 2 + PAGE_BYTES);
    if adjoining && second.sequence > first.sequence {
        return Ok(());
    }
    notes.damage(format!(
        "lane {}: the log has a hole between sequences {} and {}",
        first.lane, first.sequence, second.sequence
    ))
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
