//! Finds the whole records of the current incarnation in every lane.

use std::ops::Range;

use forebay_pmem::Region;

use crate::error::Result;
use crate::log::read_record;
use crate::log::record::{RawRecord, RawRecords};
use crate::media::Media;
use crate::media::copies::are_same_lines;
use crate::media::geometry::Geometry;
use crate::media::layout::LINE_BYTES;
use crate::media::salt::Salt;
use crate::recovery::report::Notes;

/// A plain file's records start on fresh pages.
const PAGE_BYTES: u64 = 4096;

/// Log bytes for which another thread is worth starting.
const BYTES_PER_THREAD: u64 = 2 << 20;
const THREADS_MAX: u64 = 8;

/// All whole records with a sequence above `checkpoint`, lane by lane, in order of position.
pub(super) fn scan(
    media: &Media,
    salt: Salt,
    checkpoint: u64,
    strict: bool,
    notes: &mut Notes,
) -> Result<RawRecords> {
    let mut all = RawRecords::default();
    let mut hole = None;
    let ring = Ring::of(&media.geometry);
    let mut logs = scan_lanes(media, media.main(), salt, None);
    // A record that is whole on any member is one.
    let others = media.metadata().skip(1);
    let others: Vec<_> = others
        .map(|region| scan_lanes(media, region, salt, Some(&logs)))
        .collect();
    for other in others {
        for (log, other) in logs.iter_mut().zip(other) {
            log.merge(other);
        }
    }
    all.reserve(logs.iter().map(|log| log.records.len()).sum());
    for (lane, mut log) in (0..).zip(logs) {
        if strict {
            check_last(media, salt, lane, &log.records, notes)?;
        }
        log.records.sort_unstable_by_key(|record| record.position);
        hole = hole.or_else(|| find_hole(ring, &log.records, checkpoint));
        log.records.retain(|record| record.sequence > checkpoint);
        all.append(log);
    }
    notes.report.records = all.records.len() as u64;
    let newest = all.records.iter().map(|record| record.sequence).max();
    let drawn = newest.unwrap_or(checkpoint) - checkpoint;
    // Every sequence that was drawn has a record, so if none is missing, a hole held nothing.
    if let Some(hole) = hole.filter(|_| drawn != all.records.len() as u64) {
        notes.damage(hole)?;
    }
    check_watermark(&all.records, checkpoint, notes)?;
    Ok(all)
}

/// Every lane's log, by as many threads as its size pays for. Each prefetches its part of it, and this
/// one meanwhile what is read next, the table.
///
/// Of another member only what the first one, in which these were found, does not have.
fn scan_lanes(
    media: &Media,
    region: &Region,
    salt: Salt,
    known: Option<&[RawRecords]>,
) -> Vec<RawRecords> {
    let known = |lane: u32| known.map_or(&[][..], |logs| &logs[lane as usize].records);
    let lanes = media.geometry.lanes;
    let log_bytes = u64::from(lanes) * media.geometry.lane_bytes;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let threads = (log_bytes / BYTES_PER_THREAD).clamp(1, THREADS_MAX.min(cores)) as u32;
    if threads == 1 {
        media.read_lanes_ahead(0..lanes);
        media.read_table_ahead();
        return (0..lanes)
            .map(|lane| scan_lane(media, region, salt, lane, known(lane)))
            .collect();
    }
    let ranges = (0..threads).map(|n| n * lanes / threads..(n + 1) * lanes / threads);
    std::thread::scope(|scope| {
        let scan = |range: Range<u32>| {
            let lanes = move || {
                media.read_lanes_ahead(range.clone());
                range
                    .map(|lane| scan_lane(media, region, salt, lane, known(lane)))
                    .collect::<Vec<_>>()
            };
            let thread = std::thread::Builder::new();
            // Without room for another thread this one does it.
            let worker = thread.spawn_scoped(scope, lanes.clone());
            worker.map_err(|_| lanes)
        };
        let workers: Vec<_> = ranges.map(scan).collect();
        media.read_table_ahead();
        let logs = workers.into_iter().map(|worker| match worker {
            Ok(worker) => worker.join().expect("a scan does not panic"),
            Err(lanes) => lanes(),
        });
        logs.flatten().collect()
    })
}

/// Whole records of this incarnation, also those that the table has already; without those that are `known`, which lie in
/// the order of their offsets in the first member.
fn scan_lane(
    media: &Media,
    region: &Region,
    salt: Salt,
    lane: u32,
    known: &[RawRecord],
) -> RawRecords {
    let lane_bytes = media.geometry.lane_bytes;
    let mut log = RawRecords::default();
    let mut raw = Vec::new();
    let mut offset = 0;
    let mut known = known.iter().peekable();
    while offset < lane_bytes {
        while known
            .next_if(|it| it.position % lane_bytes < offset)
            .is_some()
        {}
        let here = known.peek().filter(|it| it.position % lane_bytes == offset);
        if let Some(bytes) = here.map(|it| it.bytes)
            && are_same_lines(
                media.main(),
                region,
                media.geometry.lane_offset(lane) + offset,
                bytes,
            )
        {
            offset += bytes;
            continue;
        }
        let whole = read_record(region, &media.geometry, salt, lane, offset, &mut raw);
        let added = whole.is_some_and(|position| log.add(lane, position, &raw));
        // Whole records never overlap: the later one would have changed the other's bytes.
        offset += if added { raw.len() as u64 } else { LINE_BYTES };
    }
    log
}

/// Strict: the record that a lane's commit word was stored for is there. It was fenced before the word; but if a checkpoint
/// has passed it the next one, a lap on, may have been stored over it.
fn check_last(
    media: &Media,
    salt: Salt,
    lane: u32,
    records: &[RawRecord],
    notes: &mut Notes,
) -> Result<()> {
    let ends = || records.iter().map(|record| record.position + record.bytes);
    let newest = records.iter().map(|record| record.position).max();
    for region in media.metadata() {
        let word = region.load_u64(media.geometry.commit_word(lane));
        let Some(end) = salt.committed_end(lane, word, newest.unwrap_or(0)) else {
            continue;
        };
        let before = ends().filter(|found| *found <= end).max().unwrap_or(0);
        if before < end && !Ring::of(&media.geometry).may_have_overwritten(end, before..end) {
            notes.damage(format!(
                "lane {lane}: the record that was committed last, which ends at byte {end} of its log, is not there"
            ))?;
        }
    }
    Ok(())
}

/// A lane's record is fenced before the next one is written, so before a whole one there is
/// nothing but the step to the next line, page or lap, and in the first lap the lane's start. But
/// records up to `checkpoint` may be overwritten, wholly or in part.
fn find_hole(ring: Ring, records: &[RawRecord], checkpoint: u64) -> Option<String> {
    let (first, last) = (records.first()?, records.last()?);
    let lane = first.lane;
    let is_overwritten = |gap| ring.may_have_overwritten(last.position + last.bytes, gap);
    let is_headless = first.sequence > checkpoint && (1..ring.lane_bytes).contains(&first.position);
    if is_headless && !is_overwritten(0..first.position) {
        let sequence = first.sequence;
        return Some(format!(
            "lane {lane}: the log has a hole before sequence {sequence}"
        ));
    }
    let is_hole = |pair: &&[RawRecord]| {
        let gap = pair[0].position + pair[0].bytes..pair[1].position;
        pair[1].sequence > checkpoint
            && !ring.are_neighbours(&pair[0], &pair[1])
            && !(pair[0].sequence <= checkpoint && is_overwritten(gap))
    };
    let pair = records.windows(2).find(is_hole)?;
    let (before, after) = (pair[0].sequence, pair[1].sequence);
    Some(format!(
        "lane {lane}: the log has a hole between sequences {before} and {after}"
    ))
}

/// How records follow each other in a lane.
#[derive(Clone, Copy)]
struct Ring {
    lane_bytes: u64,
    /// Records may start at multiples of this only.
    align: u64,
    /// The longest record reaches less far.
    reach: u64,
}

impl Ring {
    fn of(geometry: &Geometry) -> Ring {
        let lane_bytes = geometry.lane_bytes;
        let on_pages = u64::from(geometry.unit_bytes) >= PAGE_BYTES;
        let align = if on_pages { PAGE_BYTES } else { LINE_BYTES };
        let reach = lane_bytes / 2 + align;
        Ring {
            lane_bytes,
            align,
            reach,
        }
    }

    /// Whether the record that a crash stopped after `end` can have reached what was at `gap` a lap
    /// ago.
    fn may_have_overwritten(self, end: u64, gap: Range<u64>) -> bool {
        let next_lap = end.next_multiple_of(self.lane_bytes);
        let starts = [Some(end), (next_lap - end < self.reach).then_some(next_lap)];
        let gap = gap.start + self.lane_bytes..gap.end + self.lane_bytes;
        starts
            .into_iter()
            .flatten()
            // Equal, where later whole records have replaced just the gap.
            .any(|start| start <= gap.end && gap.start < start + self.reach)
    }

    fn are_neighbours(self, first: &RawRecord, second: &RawRecord) -> bool {
        let end = first.position + first.bytes;
        let next_lap = end.next_multiple_of(self.lane_bytes);
        let adjoining = second.position == end
            || second.position == end.next_multiple_of(self.align)
            || (second.position == next_lap && next_lap - end < self.reach);
        adjoining && second.sequence > first.sequence
    }
}

/// Everything up to a watermark that some record carries was published, so it must be here.
fn check_watermark(records: &[RawRecord], checkpoint: u64, notes: &mut Notes) -> Result<()> {
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
