//! Which incarnation of a pool is current, as one member's incarnation and checkpoint lines tell it.
//!
//! An incarnation line's store begins only after the fence that made the checkpoint line of its incarnation
//! durable. So where an incarnation line is damaged, be it by a crash in the middle of that store or by the
//! media later, a checkpoint line of its incarnation tells everything that it said.

use forebay_pmem::Region;

use crate::media::geometry::{Geometry, Sizes};
use crate::media::layout::SEQUENCE_MAX;
use crate::media::layout::{CheckpointLine, INCARNATION_BYTES, IncarnationLine};
use crate::media::salt::Salt;

/// Incarnations beyond it are nonsense: no counter of ours overflows.
const INCARNATION_MAX: u64 = 1 << 62;

/// A member's current incarnation.
#[derive(Clone, Copy)]
pub(crate) struct Incarnation {
    pub(crate) number: u64,
    pub(crate) salt: Salt,
    pub(crate) sizes: Sizes,
    /// S: records up to it are in the table.
    pub(crate) checkpoint: u64,
    /// The checkpoint line that the next incarnation may not overwrite.
    pub(crate) checkpoint_line: usize,
    /// A checkpoint line of this incarnation is there. On members but the first it says that the pool was
    /// served in this incarnation, see `start_incarnation`.
    pub(crate) is_confirmed: bool,
}

impl IncarnationLine {
    /// The line that begins incarnation number `incarnation` of a pool of `sizes`; its checkpoint line tells the same.
    pub(crate) fn new(pool_uuid: [u8; 16], own: &CheckpointLine) -> IncarnationLine {
        IncarnationLine {
            pool_uuid,
            incarnation: own.incarnation,
            salt: own.salt,
            sequence: own.sequence,
            member_bytes: own.member_bytes,
            entries: own.entries,
            slots_per_member: own.slots_per_member,
            lane_lines: own.lane_lines,
            crc: 0,
        }
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            member_bytes: self.member_bytes,
            entries: self.entries,
            slots_per_member: self.slots_per_member,
            lane_lines: self.lane_lines,
        }
    }
}

impl CheckpointLine {
    /// The line that says S = `sequence` of incarnation number `incarnation`.
    pub(crate) fn new(incarnation: u64, salt: Salt, sequence: u64, sizes: Sizes) -> CheckpointLine {
        CheckpointLine {
            incarnation,
            salt: salt.0,
            sequence,
            member_bytes: sizes.member_bytes,
            entries: sizes.entries,
            slots_per_member: sizes.slots_per_member,
            lane_lines: sizes.lane_lines,
            reserved: [0; 16],
            crc: 0,
        }
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            member_bytes: self.member_bytes,
            entries: self.entries,
            slots_per_member: self.slots_per_member,
            lane_lines: self.lane_lines,
        }
    }
}

/// What stands where an incarnation line belongs.
enum Found {
    Line(IncarnationLine),
    /// Never written.
    Blank,
    Damaged,
}

/// The current incarnation of a member; `None` where nothing tells it.
pub(crate) fn read(
    region: &Region,
    geometry: &Geometry,
    pool_uuid: &[u8; 16],
) -> Option<Incarnation> {
    let lines = [0, 1].map(|which| incarnation_line(region, geometry, pool_uuid, which));
    let checkpoints = [0, 1].map(|which| checkpoint_line(region, geometry, which));
    let newest = lines
        .iter()
        .filter_map(|found| match found {
            Found::Line(line) => Some(*line),
            Found::Blank | Found::Damaged => None,
        })
        .max_by_key(|line| line.incarnation);
    let number = newest.map_or(0, |line| line.incarnation);
    let orphan = checkpoints
        .iter()
        .flatten()
        .filter(|checkpoint| checkpoint.incarnation > number)
        .filter(|checkpoint| matches!(lines[(checkpoint.incarnation % 2) as usize], Found::Damaged))
        .max_by_key(|checkpoint| checkpoint.incarnation);
    let (number, salt, sizes, start) = match (orphan, newest) {
        (Some(orphan), _) => (orphan.incarnation, orphan.salt, orphan.sizes(), None),
        (None, Some(line)) => (
            line.incarnation,
            line.salt,
            line.sizes(),
            Some(line.sequence),
        ),
        (None, None) => return None,
    };
    let own = checkpoints
        .iter()
        .zip(0..)
        .filter_map(|(checkpoint, which)| {
            let own = checkpoint.filter(|line| line.incarnation == number && line.salt == salt)?;
            Some((own.sequence, which))
        })
        .max();
    // Damage may have taken both lines. S is not below where the incarnation began, and what is missing
    // from the log since then is found missing.
    let (checkpoint, checkpoint_line) = own.or_else(|| Some((start?, 0)))?;
    Some(Incarnation {
        number,
        salt: Salt(salt),
        sizes,
        checkpoint,
        checkpoint_line,
        is_confirmed: own.is_some(),
    })
}

/// Whether the line that incarnation `number` will be written to holds something that is no line.
pub(crate) fn is_place_damaged(
    region: &Region,
    geometry: &Geometry,
    pool_uuid: &[u8; 16],
    number: u64,
) -> bool {
    let found = incarnation_line(region, geometry, pool_uuid, (number % 2) as usize);
    matches!(found, Found::Damaged)
}

fn incarnation_line(region: &Region, geometry: &Geometry, uuid: &[u8; 16], which: usize) -> Found {
    let mut raw = [0; INCARNATION_BYTES];
    region.read(geometry.incarnation_line(which), &mut raw);
    if raw == [0; INCARNATION_BYTES] {
        return Found::Blank;
    }
    let line = IncarnationLine::decode(&raw).filter(|line| {
        let in_range = line.incarnation < INCARNATION_MAX && line.sequence < SEQUENCE_MAX;
        line.pool_uuid == *uuid && line.incarnation % 2 == which as u64 && in_range
    });
    line.map_or(Found::Damaged, Found::Line)
}

fn checkpoint_line(region: &Region, geometry: &Geometry, which: usize) -> Option<CheckpointLine> {
    let mut raw = [0; INCARNATION_BYTES];
    region.read(geometry.checkpoint_line(which), &mut raw);
    CheckpointLine::decode(&raw)
        .filter(|line| line.incarnation < INCARNATION_MAX && line.sequence < SEQUENCE_MAX)
}
