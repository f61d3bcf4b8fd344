//! Pools and loads for what one member does wrong, drawn from a seed.

use crate::cache::Begins;
use crate::harm::{Combination, Harm, Kind, is_of_membership, round, round_of_one_copy};
use crate::load;
use crate::lost;
use crate::process::Process;
use crate::rows;
use crate::scenario::{Script, Shape, Step};
use crate::scheduler::{Kill, Policy};
use forebay::unstable::MediumArea;

/// What pools a campaign is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pools {
    /// Of two members, which hold the same.
    Mirror,
    /// Of three members and four, where large transactions fill rows with parity.
    Parity,
    /// Of one copy, whose table has seals.
    Checksum,
}

impl Pools {
    /// All that goes wrong in one round of trials.
    pub fn round(self) -> Vec<Combination> {
        match self {
            Pools::Mirror | Pools::Parity => round(),
            Pools::Checksum => round_of_one_copy(),
        }
    }

    /// What goes wrong in the trial of this number.
    pub fn combination(self, number: u64) -> Combination {
        let all = self.round();
        all[(number % all.len() as u64) as usize]
    }
}

/// A pool that verifies what it reads.
pub fn shape(rng: &mut fastrand::Rng, pools: Pools, (kind, area): Combination) -> Shape {
    let mut shape = match kind {
        // On small ones a page is nearly all there is.
        Kind::Poison => lost::shape(rng),
        _ => Shape::random(rng),
    };
    // Of one copy it takes a commit word to tell that a block that does not match was acknowledged.
    shape.strict |= area == Some(MediumArea::CommitWords) || pools == Pools::Checksum;
    if pools == Pools::Checksum {
        // As of pools that people have: several of the longest records. In shorter ones the next record may always be what
        // took the last one's place.
        shape.lane_bytes *= 8;
    }
    let shape = Shape {
        checksums: true,
        verifies: true,
        grows: false,
        starts_attached: true,
        ..shape
    };
    match pools {
        Pools::Mirror => shape.mirrored_on(rng.usize(2..=3)),
        Pools::Parity => rows::shape(shape, rng.usize(3..=4)),
        Pools::Checksum => Shape {
            sealed: true,
            members: 1,
            ..shape
        },
    }
}

/// What goes wrong.
pub fn harm(rng: &mut fastrand::Rng, shape: &Shape, what: Combination) -> Harm {
    Harm {
        what,
        member: rng.usize(..shape.members),
        seed: rng.u64(..),
    }
}

/// A process that works, during which it goes wrong.
pub fn worker(rng: &mut fastrand::Rng, shape: &Shape, harm: Option<Harm>) -> Process {
    let mut script = load(rng, shape);
    if let Some(harm) = harm {
        if rejoins(harm) {
            // It wants to be alone.
            for steps in &mut script {
                steps.retain(|step| !matches!(step, Step::Forget { .. }));
            }
        }
        let chosen = rng.usize(..script.len());
        let steps = &mut script[chosen];
        let at = rng.usize(..=steps.len());
        steps.insert(at, Step::Harm(harm));
        follow(rng, shape, steps, (at + 1, harm));
    }
    let policy = Policy::random(rng, script.len(), 100);
    Process {
        begins: Begins::Opened,
        policy,
        script,
        kill: match rng.u8(..4) {
            0 => Some(Kill::Step(rng.u64(20..300))),
            1 => Some(Kill::Fence(rng.u64(4..40))),
            _ => None,
        },
        closes: rng.bool(),
        is_spared: true,
    }
}

/// Random work in which nothing else goes wrong.
fn load(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let mut script = load::random_script(rng, shape);
    let goes_wrong = |step: &Step| matches!(step, Step::FailFence { .. } | Step::FailStore { .. });
    for steps in &mut script {
        steps.retain(|step| !goes_wrong(step));
    }
    if shape.has_rows {
        rows::widen(rng, shape, &mut script);
    }
    script
}

/// What the part is written or read by comes after it, and caches forget.
fn follow(
    rng: &mut fastrand::Rng,
    shape: &Shape,
    steps: &mut Vec<Step>,
    (after, harm): (usize, Harm),
) {
    if rejoins(harm) {
        return rejoin(rng, shape, steps, (after, harm));
    }
    let writes = match harm.what.1 {
        Some(MediumArea::Checkpoint | MediumArea::Table) => Some(Step::Checkpoint),
        Some(MediumArea::VolumeLines) => Some(Step::Detach(0)),
        _ => None,
    };
    if let Some(step) = writes
        && harm.what.0.is_of_writes()
    {
        let at = rng.usize(after..=steps.len());
        steps.insert(at, step);
    }
    for _ in 0..rng.usize(..3) {
        let at = rng.usize(after..=steps.len());
        steps.insert(at, Step::Evict);
    }
    if rng.u8(..4) == 0 {
        let at = rng.usize(after..=steps.len());
        steps.insert(at, Step::Scrub);
    }
}

/// Whether it meets nothing but what a member is told that joins.
fn rejoins(harm: Harm) -> bool {
    is_of_membership(harm.what.1) && harm.what.0.is_of_writes()
}

/// The member leaves and joins, where it was. Of the roster the line of one that stays may be what is written wrong, but for a
/// write that goes elsewhere: on a member that is in that would be a second loss.
fn rejoin(
    rng: &mut fastrand::Rng,
    shape: &Shape,
    steps: &mut Vec<Step>,
    (after, harm): (usize, Harm),
) {
    let is_other = harm.what == (Kind::LostWrite, Some(MediumArea::Roster))
        || harm.what == (Kind::TornLine, Some(MediumArea::Roster));
    let further = usize::from(is_other && rng.bool());
    let member = ((harm.member + further) % shape.members) as u32;
    let left = rng.usize(after..=steps.len());
    steps.insert(left, Step::FailMember(member));
    let joins = rng.usize(left + 1..=steps.len());
    let replaced = Step::ReplaceMember {
        member,
        is_blank: false,
    };
    steps.insert(joins, replaced);
}

/// A process that reads everything, from what the members have.
pub fn reader(rng: &mut fastrand::Rng, shape: &Shape) -> Process {
    let blocks = || {
        (0..shape.volumes).flat_map(|volume| {
            (0..shape.volume_blocks).map(move |block| Step::Read { volume, block })
        })
    };
    let mut steps = vec![Step::Evict];
    steps.extend(blocks());
    if rng.bool() {
        steps.extend([Step::WriteBack, Step::Checkpoint, Step::Evict]);
        steps.extend(blocks());
    }
    steps.push(Step::Scrub);
    Process {
        begins: Begins::Opened,
        policy: Policy::Preemptions(Vec::new()),
        script: vec![steps],
        kill: None,
        closes: rng.bool(),
        is_spared: true,
    }
}
