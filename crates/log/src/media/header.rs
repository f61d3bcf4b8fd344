//! Segment headers, and the clean points that stand in them, in records and in summaries.

use super::layout::{CleanPointLine, SegmentHeaderLine, VOLUMES_MAX};
use super::structs::{has_crc, seed_of_pool, store_crc};

const MAGIC: u64 = u64::from_le_bytes(*b"FBAYSEGM");

/// For each volume: its elements with a sequence below this are on its backing, synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CleanPoints([u64; VOLUMES_MAX]);

impl CleanPoints {
    /// Nothing is known to be on any backing.
    pub(crate) const NONE: CleanPoints = CleanPoints([0; VOLUMES_MAX]);

    /// That of a volume.
    pub(crate) fn of(&self, volume: u32) -> u64 {
        self.0[volume as usize - 1]
    }

    /// Moves that of a volume, forward only.
    pub(crate) fn advance(&mut self, volume: u32, sequence: u64) {
        let point = &mut self.0[volume as usize - 1];
        *point = sequence.max(*point);
    }

    /// Moves each to the further one.
    pub(crate) fn join(&mut self, other: &CleanPoints) {
        for (volume, sequence) in other.moved() {
            self.advance(volume, sequence);
        }
    }

    /// The volumes that have one.
    pub(crate) fn moved(&self) -> impl Iterator<Item = (u32, u64)> {
        let all = self.0.iter().zip(1..);
        all.filter(|(sequence, _)| **sequence > 0)
            .map(|(sequence, volume)| (volume, *sequence))
    }

    /// Stores those that moved since `before`, and returns how many.
    pub(crate) fn encode_since(&self, before: &CleanPoints, out: &mut [u8]) -> u32 {
        let mut count = 0;
        for (volume, sequence) in self.moved() {
            if before.of(volume) == sequence {
                continue;
            }
            let line = CleanPointLine {
                volume,
                reserved: 0,
                sequence,
            };
            line.encode(&mut out[count * CleanPointLine::BYTES..]);
            count += 1;
        }
        count as u32
    }

    /// What `count` of them say; none if they say what cannot be.
    pub(crate) fn decode(count: u32, bytes: &[u8]) -> Option<CleanPoints> {
        if count as usize > VOLUMES_MAX {
            return None;
        }
        let mut points = CleanPoints::NONE;
        for line in bytes
            .chunks_exact(CleanPointLine::BYTES)
            .take(count as usize)
        {
            let line = CleanPointLine::decode(line);
            if line.volume == 0 || line.volume as usize > VOLUMES_MAX {
                return None;
            }
            points.advance(line.volume, line.sequence);
        }
        Some(points)
    }
}

/// What the first page of a segment says. It is written with the segment's first group, and counts only if that
/// does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Its number: segments are used in the order of their numbers.
    pub(crate) segment: u64,
    /// The incarnation that wrote it.
    pub(crate) incarnation: u64,
    /// Sequence of its first element.
    pub(crate) first_sequence: u64,
    /// Number of its first group.
    pub(crate) first_group: u64,
    /// Segments below this one are gone.
    pub(crate) tail: u64,
    /// Those of all volumes.
    pub(crate) points: CleanPoints,
}

impl SegmentHeader {
    /// Its page, for the pool `uuid`.
    pub(crate) fn encode(&self, uuid: u128, page: &mut [u8]) {
        let (start, points) = page.split_at_mut(SegmentHeaderLine::BYTES);
        let line = SegmentHeaderLine {
            magic: MAGIC,
            uuid,
            segment: self.segment,
            incarnation: self.incarnation,
            first_sequence: self.first_sequence,
            first_group: self.first_group,
            tail: self.tail,
            points: self.points.encode_since(&CleanPoints::NONE, points),
            crc: 0,
        };
        line.encode(start);
        store_crc(seed_of_pool(uuid), page, SegmentHeaderLine::BYTES - 4);
    }

    /// What a page says, if it is one of this pool.
    pub(crate) fn decode(uuid: u128, page: &[u8]) -> Option<SegmentHeader> {
        let line = SegmentHeaderLine::decode(page);
        let is_one = line.magic == MAGIC
            && line.uuid == uuid
            && has_crc(seed_of_pool(uuid), page, SegmentHeaderLine::BYTES - 4);
        // Numbers from which no sum overflows.
        let numbers = [
            line.segment,
            line.first_sequence,
            line.first_group,
            line.tail,
        ];
        let are_sane = numbers.iter().all(|number| *number < 1 << 62) && line.tail <= line.segment;
        if !is_one || !are_sane {
            return None;
        }
        Some(SegmentHeader {
            segment: line.segment,
            incarnation: line.incarnation,
            first_sequence: line.first_sequence,
            first_group: line.first_group,
            tail: line.tail,
            points: CleanPoints::decode(line.points, &page[SegmentHeaderLine::BYTES..])?,
        })
    }
}
