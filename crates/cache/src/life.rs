//! Which life of a pool is current, as one member's life and checkpoint lines tell it.
//!
//! A life line's store begins only after the fence that made the checkpoint line of its life
//! durable. So where a life line is damaged, be it by a crash in the middle of that store or by the
//! media later, a checkpoint line of its life tells everything that it said.

use forebay_pmem::Region;

use crate::geometry::{Geometry, Sizes};
use crate::layout::{CheckpointLine, LIFE_BYTES, LifeLine};
use crate::record::{SEQUENCE_MAX, Salt};

/// Lives beyond it are nonsense: no counter of ours overflows.
const LIFE_MAX: u64 = 1 << 62;

/// A member's current life.
#[derive(Clone, Copy)]
pub(crate) struct Life {
    pub(crate) number: u64,
    pub(crate) salt: Salt,
    pub(crate) sizes: Sizes,
    /// S: records up to it are in the table.
    pub(crate) checkpoint: u64,
    /// The checkpoint line that the next life may not overwrite.
    pub(crate) checkpoint_line: usize,
    /// A checkpoint line of this life is there. On members but the first it says that the pool was
    /// served in this life, see `start_life`.
    pub(crate) is_confirmed: bool,
}

impl LifeLine {
    /// The line that begins life `life` of a pool of `sizes`; its checkpoint line tells the same.
    pub(crate) fn new(pool_uuid: [u8; 16], own: &CheckpointLine) -> LifeLine {
        LifeLine {
            pool_uuid,
            life: own.life,
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
    /// The line that says S = `sequence` of life `life`.
    pub(crate) fn new(life: u64, salt: Salt, sequence: u64, sizes: Sizes) -> CheckpointLine {
        CheckpointLine {
            life,
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

/// What stands where a life line belongs.
enum Found {
    Line(LifeLine),
    /// Never written.
    Blank,
    Damaged,
}

/// The current life of a member; `None` where nothing tells it.
pub(crate) fn read(region: &Region, geometry: &Geometry, pool_uuid: &[u8; 16]) -> Option<Life> {
    let lines = [0, 1].map(|which| life_line(region, geometry, pool_uuid, which));
    let checkpoints = [0, 1].map(|which| checkpoint_line(region, geometry, which));
    let newest = lines
        .iter()
        .filter_map(|found| match found {
            Found::Line(line) => Some(*line),
            Found::Blank | Found::Damaged => None,
        })
        .max_by_key(|line| line.life);
    let number = newest.map_or(0, |line| line.life);
    let orphan = checkpoints
        .iter()
        .flatten()
        .filter(|checkpoint| checkpoint.life > number)
        .filter(|checkpoint| matches!(lines[(checkpoint.life % 2) as usize], Found::Damaged))
        .max_by_key(|checkpoint| checkpoint.life);
    let (number, salt, sizes, start) = match (orphan, newest) {
        (Some(orphan), _) => (orphan.life, orphan.salt, orphan.sizes(), None),
        (None, Some(line)) => (line.life, line.salt, line.sizes(), Some(line.sequence)),
        (None, None) => return None,
    };
    let own = checkpoints
        .iter()
        .zip(0..)
        .filter_map(|(checkpoint, which)| {
            let own = checkpoint.filter(|line| line.life == number && line.salt == salt)?;
            Some((own.sequence, which))
        })
        .max();
    // Damage may have taken both lines. S is not below where the life began, and what is missing
    // from the log since then is found missing.
    let (checkpoint, checkpoint_line) = own.or_else(|| Some((start?, 0)))?;
    Some(Life {
        number,
        salt: Salt(salt),
        sizes,
        checkpoint,
        checkpoint_line,
        is_confirmed: own.is_some(),
    })
}

/// Whether the line that life `number` will be written to holds something that is no line.
pub(crate) fn is_place_damaged(
    region: &Region,
    geometry: &Geometry,
    pool_uuid: &[u8; 16],
    number: u64,
) -> bool {
    let found = life_line(region, geometry, pool_uuid, (number % 2) as usize);
    matches!(found, Found::Damaged)
}

fn life_line(region: &Region, geometry: &Geometry, uuid: &[u8; 16], which: usize) -> Found {
    let mut raw = [0; LIFE_BYTES];
    region.read(geometry.life_line(which), &mut raw);
    if raw == [0; LIFE_BYTES] {
        return Found::Blank;
    }
    let line = LifeLine::decode(&raw).filter(|line| {
        let in_range = line.life < LIFE_MAX && line.sequence < SEQUENCE_MAX;
        line.pool_uuid == *uuid && line.life % 2 == which as u64 && in_range
    });
    line.map_or(Found::Damaged, Found::Line)
}

fn checkpoint_line(region: &Region, geometry: &Geometry, which: usize) -> Option<CheckpointLine> {
    let mut raw = [0; LIFE_BYTES];
    region.read(geometry.checkpoint_line(which), &mut raw);
    CheckpointLine::decode(&raw).filter(|line| line.life < LIFE_MAX && line.sequence < SEQUENCE_MAX)
}
