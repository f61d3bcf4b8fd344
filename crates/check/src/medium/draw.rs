//! Pools and loads for what one member does wrong, drawn from a seed.

use crate::cache::Begins;
use crate::harm::{Combination, Harm, Kind, round};
use crate::load;
use crate::lost;
use crate::process::Process;
use crate::scenario::{Script, Shape, Step};
use crate::scheduler::{Kill, Policy};
use forebay::unstable::MediumArea;

/// What goes wrong in the trial of this number: each round of them has all.
pub fn combination(number: u64) -> Combination {
    let all = round();
    all[(number % all.len() as u64) as usize]
}

/// A mirrored pool that verifies what it reads.
pub fn shape(rng: &mut fastrand::Rng, (kind, area): Combination) -> Shape {
    let mut shape = match kind {
        // On small ones a page is nearly all there is.
        Kind::Poison => lost::shape(rng),
        _ => Shape::random(rng),
    };
    if area == Some(MediumArea::CommitWords) {
        shape.strict = true;
    }
    let members = rng.usize(2..=3);
    Shape {
        verifies: true,
        grows: false,
        starts_attached: true,
        ..shape
    }
    .mirrored_on(members)
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
        let chosen = rng.usize(..script.len());
        let steps = &mut script[chosen];
        let at = rng.usize(..=steps.len());
        steps.insert(at, Step::Harm(harm));
        follow(rng, steps, (at + 1, harm));
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
    script
}

/// What the part is written or read by comes after it, and caches forget.
fn follow(rng: &mut fastrand::Rng, steps: &mut Vec<Step>, (after, harm): (usize, Harm)) {
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
