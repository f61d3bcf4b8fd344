//! The parts of a member, by name: where each lies, for what looks into a medium or breaks it on purpose.

use std::ops::Range;

use forebay_pmem::Region;

use crate::media::Media;
use crate::media::geometry::Geometry;
use crate::media::layout::{
    ENTRY_BYTES, FLAG_TEST, INCARNATION_BYTES, LINE_BYTES, MAGIC, ROSTER_BYTES, SEAL_BYTES,
    SUPERBLOCK_BYTES, Superblock, VOLUME_BYTES,
};

/// A part of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediumArea {
    /// What the pool is.
    Superblock,
    /// The two lines of incarnations.
    Incarnation,
    /// The two lines of checkpoints.
    Checkpoint,
    /// The two lines that say which members count.
    Roster,
    /// A word for each lane of a strict pool.
    CommitWords,
    /// The volumes' descriptions.
    VolumeLines,
    /// The entry table.
    Table,
    /// The seals of its lines.
    Seals,
    /// The log.
    Lanes,
    /// The blocks.
    Slots,
}

/// What tells a member of a pool that was made for tests from every other one; `None` of any other region.
#[must_use]
pub fn test_member(region: &Region) -> Option<[[u8; 16]; 2]> {
    let mut raw = [0; SUPERBLOCK_BYTES];
    if region.len() < raw.len() as u64 {
        return None;
    }
    region.read(0, &mut raw);
    let superblock = Superblock::decode(&raw).filter(|found| found.magic == MAGIC)?;
    let is_test = superblock.flags & FLAG_TEST != 0;
    is_test.then_some([superblock.pool_uuid, superblock.member_uuid])
}

impl Geometry {
    /// Where they lie in a member, or the first, without what is between them.
    pub(crate) fn areas(&self) -> Vec<(MediumArea, Range<u64>)> {
        let bytes = |start: u64, len: u64| start..start + len;
        let (line, roster) = (INCARNATION_BYTES as u64, ROSTER_BYTES as u64);
        let mut areas = vec![(MediumArea::Superblock, bytes(0, SUPERBLOCK_BYTES as u64))];
        for which in 0..2 {
            areas.extend([
                (
                    MediumArea::Incarnation,
                    bytes(self.incarnation_line(which), line),
                ),
                (
                    MediumArea::Checkpoint,
                    bytes(self.checkpoint_line(which), line),
                ),
            ]);
            if self.is_mirrored {
                areas.push((MediumArea::Roster, bytes(self.roster_line(which), roster)));
            }
        }
        let words = u64::from(self.lanes) * LINE_BYTES;
        let volumes = u64::from(self.volumes) * 2 * VOLUME_BYTES as u64;
        let table = u64::from(self.entries) * ENTRY_BYTES;
        let seals = match self.is_sealed() {
            true => table / LINE_BYTES * SEAL_BYTES,
            false => 0,
        };
        let lanes = u64::from(self.lanes) * self.lane_bytes;
        let slots = u64::from(self.slots_per_member) * u64::from(self.block_bytes);
        areas.extend([
            (MediumArea::CommitWords, bytes(self.commit_words, words)),
            (MediumArea::VolumeLines, bytes(self.volume_table, volumes)),
            (MediumArea::Table, bytes(self.entry_table, table)),
            (MediumArea::Seals, bytes(self.seals, seals)),
            (MediumArea::Lanes, bytes(self.lane_area, lanes)),
            (MediumArea::Slots, bytes(self.slot_area, slots)),
        ]);
        areas
    }
}

impl Media {
    /// The half of a slot's block that a member has, and where it is.
    pub(crate) fn half_on(&self, slot: u32, number: u32) -> Option<(&Region, u64)> {
        let member = self.member_at(number)?;
        let mut found = None;
        self.slot_halves(slot).each(|half| {
            if std::ptr::eq(half.region, member) {
                found = Some((half.region, half.offset));
            }
        });
        found
    }
}
