//! Which incarnation of a pool is current, as one member's incarnation and checkpoint lines tell it.
//!
//! An incarnation line's store begins only after the fence that made the checkpoint line of its incarnation
//! durable. So where an incarnation line is damaged, be it by a crash in the middle of that store or by the
//! media later, a checkpoint line of its incarnation tells everything that it said.

use forebay_pmem::Region;

use crate::error::{Result, refused};
use crate::media::geometry::{Geometry, Sizes};
use crate::media::layout::SEQUENCE_MAX;
use crate::media::layout::{CheckpointLine, INCARNATION_BYTES, IncarnationLine, ScrubMark};
use crate::media::salt::Salt;
use crate::media::seals::Round;

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
    /// The pool was served in this incarnation, see `start_incarnation`: on members but the first a checkpoint line
    /// of it says so, and in a mirrored pool one that is confirmed.
    pub(crate) is_confirmed: bool,
    /// How scrubs stand.
    pub(crate) scrub: ScrubMark,
    /// The last round of lines of the table that is whole.
    pub(crate) round: Round,
    /// The older S of the two that are known.
    previous_checkpoint: u64,
    /// The salt of the incarnation to come, if its checkpoint line is there.
    next_salt: Option<Salt>,
}

impl Incarnation {
    /// Whether a member at this incarnation of a mirror has all that was acknowledged, if the one that is furthest is
    /// at `first`: it is at the same, or ready for it, and nothing was served since. What was behind the fence before
    /// `first` began, it has with the checkpoint line of `first`.
    pub(crate) fn is_current(&self, first: &Incarnation) -> bool {
        match self.number == first.number {
            true => self.salt == first.salt && self.checkpoint >= first.previous_checkpoint,
            false => {
                self.number + 1 == first.number
                    && !first.is_confirmed
                    && self.next_salt == Some(first.salt)
            }
        }
    }
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
            // Only the newest checkpoint line tells.
            has_all_seals: false,
        }
    }
}

impl CheckpointLine {
    /// The line that says S = `sequence` of incarnation number `incarnation`.
    pub(crate) fn new(
        incarnation: u64,
        salt: Salt,
        sequence: u64,
        sizes: Sizes,
        scrub: ScrubMark,
    ) -> CheckpointLine {
        CheckpointLine {
            incarnation,
            salt: salt.0,
            sequence,
            member_bytes: sizes.member_bytes,
            entries: sizes.entries,
            slots_per_member: sizes.slots_per_member,
            lane_lines: sizes.lane_lines,
            bit_and_round: u32::from(sizes.has_all_seals),
            scrub_entry: scrub.entry,
            scrub_began_s: scrub.began_s,
            scrubbed_s: scrub.scrubbed_s,
            crc: 0,
        }
    }

    /// Which of two of one incarnation is the later one.
    fn compare(&self, other: &CheckpointLine) -> std::cmp::Ordering {
        let by_round = (self.round().is_newer_than(other.round()))
            .cmp(&other.round().is_newer_than(self.round()));
        (self.sequence.cmp(&other.sequence))
            // Of a pool of one copy it is the same in all lines of an incarnation.
            .then(self.has_bit().cmp(&other.has_bit()))
            .then(by_round)
    }

    fn scrub(&self) -> ScrubMark {
        ScrubMark {
            scrubbed_s: self.scrubbed_s,
            began_s: self.scrub_began_s,
            entry: self.scrub_entry,
        }
    }

    /// The same, known to be begun by every member.
    pub(crate) fn confirmed(self) -> CheckpointLine {
        CheckpointLine {
            bit_and_round: self.bit_and_round | 1,
            ..self
        }
    }

    fn has_bit(&self) -> bool {
        self.bit_and_round & 1 != 0
    }

    /// The same after this round of lines of the table.
    pub(crate) fn after_round(self, round: Round) -> CheckpointLine {
        CheckpointLine {
            bit_and_round: round.0 << 1 | self.bit_and_round & 1,
            ..self
        }
    }

    pub(crate) fn round(&self) -> Round {
        Round(self.bit_and_round >> 1)
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            member_bytes: self.member_bytes,
            entries: self.entries,
            slots_per_member: self.slots_per_member,
            lane_lines: self.lane_lines,
            // Only the newest checkpoint line tells.
            has_all_seals: false,
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
    let (number, salt, mut sizes, start) = match (orphan, newest) {
        (Some(orphan), _) => (orphan.incarnation, orphan.salt, orphan.sizes(), None),
        (None, Some(line)) => (
            line.incarnation,
            line.salt,
            line.sizes(),
            Some(line.sequence),
        ),
        (None, None) => return None,
    };
    let is_own = |line: &CheckpointLine| line.incarnation == number && line.salt == salt;
    let own = checkpoints
        .iter()
        .zip(0..)
        .filter_map(|(checkpoint, which)| {
            let own = checkpoint.filter(is_own)?;
            Some((own, which))
        })
        // Of two with the same S the next incarnation's may replace the one that is not confirmed, and the one of the
        // round before.
        .max_by(|(one, _), (other, _)| one.compare(other));
    let round = own.map_or(Round::default(), |(line, _)| line.round());
    sizes.has_all_seals = geometry.has_lone_seals && own.is_some_and(|(line, _)| line.has_bit());
    let own = own.map(|(line, which)| (line.sequence, which));
    let is_confirmed = match geometry.is_mirrored {
        true => checkpoints
            .iter()
            .flatten()
            .any(|line| is_own(line) && line.has_bit()),
        false => own.is_some(),
    };
    let found = checkpoints.iter().flatten();
    // Two with the same S may differ in it.
    let scrub = found
        .clone()
        .filter(|line| is_own(line))
        .map(CheckpointLine::scrub);
    let scrub = scrub.max().unwrap_or_default();
    let next_salt = found
        .clone()
        .find(|line| line.incarnation == number + 1)
        .map(|line| Salt(line.salt));
    let previous = found.filter(|line| is_own(line)).map(|line| line.sequence);
    let previous_checkpoint = previous.min().unwrap_or(0);
    // Damage may have taken both lines. S is not below where the incarnation began, and what is missing
    // from the log since then is found missing.
    let (checkpoint, checkpoint_line) = own.or_else(|| Some((start?, 0)))?;
    Some(Incarnation {
        number,
        salt: Salt(salt),
        sizes,
        checkpoint,
        checkpoint_line,
        is_confirmed,
        scrub,
        round,
        previous_checkpoint,
        next_salt,
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

/// Every other member is at member 0's incarnation, or one ahead where a crash met the switch. What is
/// behind was away while the pool was used; if the others are ahead, that was member 0.
pub(super) fn check_all(
    regions: &[Region],
    geometry: &Geometry,
    pool_uuid: &[u8; 16],
) -> Result<()> {
    let Some(main) = read(&regions[0], geometry, pool_uuid) else {
        // Recovery says what is wrong with it.
        return Ok(());
    };
    for region in &regions[1..] {
        let Some(own) = read(region, geometry, pool_uuid) else {
            return Err(refused(
                region.path(),
                "none of its incarnation lines is valid",
                "the file is damaged; restore the whole pool from a copy",
            ));
        };
        let is_unfinished_switch = own.number == main.number + 1 && !own.is_confirmed;
        if own.number == main.number || is_unfinished_switch {
            continue;
        }
        let (stale, current) = if own.number < main.number {
            (region, &regions[0])
        } else {
            (&regions[0], region)
        };
        let (older, newer) = (own.number.min(main.number), own.number.max(main.number));
        return Err(refused(
            stale.path(),
            format!(
                "it was last opened in incarnation {older} of the pool, {} in incarnation {newer}: an old copy",
                current.path().display()
            ),
            "name the file that was last in use, or restore all members from the same moment",
        ));
    }
    Ok(())
}
