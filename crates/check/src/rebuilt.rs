//! Members of mirrored pools that are taken out and rebuilt while actors go on: on something blank, or where they were.
//!
//! In some of them a page among a member's slots goes bad, and another member is to go.
//!
//! What is promised: at each moment the members that count have everything, and from the return of a rebuilding on
//! all but any one have. With one that is being rebuilt they may be refused. Those that are left when another one goes have
//! everything, bad places or not: it is kept until then.

use crate::cache::Begins;
use crate::load;
use crate::lost;
use crate::process::Process;
use crate::scenario::{Script, Shape, Step, read};
use crate::scheduler::{Kill, Policy};
use forebay_pmem::PAGE_BYTES;

/// Scenarios of a round; seeds that follow each other make one.
pub const ROUND_SCENARIOS: u64 = 12;

/// Chances in 256 that a moment's crash is looked at, and one before a fence.
pub const CHANCES: u32 = 6;
pub const FENCE_CHANCES: u32 = 64;

/// Incarnations after the first, at most.
pub const INCARNATIONS_MAX: usize = 2;

/// How many members a mirror has.
pub fn member_count(rng: &mut fastrand::Rng) -> usize {
    [2, 2, 2, 2, 3, 3, 3, 4][rng.usize(..8)]
}

/// A pool that is rebuilt within few steps, mostly. It verifies: threads may still read what is rebuilt over, which a
/// process that maps the member itself gives back first.
pub fn shape(rng: &mut fastrand::Rng) -> Shape {
    let members = member_count(rng);
    if rng.u8(..4) == 0 {
        let shape = Shape {
            grows: false,
            verifies: true,
            ..Shape::random(rng)
        };
        return shape.mirrored_on(members);
    }
    let volume_blocks = rng.usize(3..=6);
    let (block_bytes, slots) = match rng.u8(..3) {
        // Whose every slot is a page, and is soon used again.
        0 => (PAGE_BYTES, volume_blocks + rng.usize(2..6)),
        _ => (Shape::smallest(false).block_bytes, rng.usize(8..14)),
    };
    Shape {
        block_bytes,
        strict: rng.u8(..4) == 0,
        slots,
        lanes: rng.u32(1..=2),
        lane_bytes: 1024,
        volume_blocks,
        first_blocks: volume_blocks,
        fill_on_read: rng.bool(),
        shares: rng.bool(),
        compares: rng.bool(),
        verifies: true,
        ..Shape::smallest(false)
    }
    .mirrored_on(members)
}

/// One takes a member out and rebuilds it, others work.
pub fn script(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let mut script = match rng.u8(..3) {
        0 => load::random_script(rng, shape),
        _ => {
            let actors = rng.usize(1..=2);
            let mut one = || (0..rng.usize(3..12)).map(|_| work(rng, shape)).collect();
            (0..actors).map(|_| one()).collect()
        }
    };
    for steps in &mut script {
        steps.retain(|step| !needs_both(step));
    }
    script.push(members(rng, shape));
    script
}

/// What would go wrong with another member at the same time, or needs to be alone.
fn needs_both(step: &Step) -> bool {
    matches!(step, Step::FailFence { .. } | Step::Forget { .. })
}

fn work(rng: &mut fastrand::Rng, shape: &Shape) -> Step {
    match rng.u8(..16) {
        0 => Step::WriteBack,
        1 => Step::Reclaim(rng.usize(1..4)),
        2 => Step::Checkpoint,
        3 => Step::Flush(0),
        4 if rng.bool() => Step::Background(rng.u8(..3)),
        4 => Step::Scrub,
        5..=7 => lost::look(rng, shape),
        _ => lost::change(rng, shape),
    }
}

/// Writes something, takes a member out, and has it rebuilt; perhaps another one then.
fn members(rng: &mut fastrand::Rng, shape: &Shape) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..rng.usize(..4)).map(|_| work(rng, shape)).collect();
    let count = shape.members as u32;
    let mut member = rng.u32(..count);
    let is_whole = shape.first_blocks == shape.volume_blocks;
    if shape.block_bytes == PAGE_BYTES && is_whole && rng.u8(..4) > 0 {
        return one_with_a_bad_place(rng, shape, member);
    }
    for _ in 0..rng.usize(1..=2) {
        if rng.u8(..8) > 0 {
            steps.push(Step::FailMember(member));
        }
        steps.extend((0..rng.usize(..3)).map(|_| work(rng, shape)));
        let is_blank = rng.u8(..3) > 0;
        steps.push(Step::ReplaceMember { member, is_blank });
        steps.extend((0..rng.usize(..3)).map(|_| work(rng, shape)));
        if rng.u8(..4) > 0 {
            member = (member + rng.u32(1..count)) % count;
        }
    }
    steps
}

/// A slot of a member goes bad, and another one is taken out, once that is possible.
fn one_with_a_bad_place(rng: &mut fastrand::Rng, shape: &Shape, member: u32) -> Vec<Step> {
    let some = |rng: &mut fastrand::Rng, count: std::ops::Range<usize>| -> Vec<Step> {
        (0..rng.usize(count)).map(|_| work(rng, shape)).collect()
    };
    let mut steps = some(rng, 1..6);
    steps.push(Step::LoseSlot {
        member: member as usize,
        pick: rng.u64(..),
    });
    for _ in 0..rng.usize(1..=3) {
        steps.extend(some(rng, 1..5));
        if rng.bool() {
            steps.push(Step::Checkpoint);
        }
        let count = shape.members as u32;
        steps.push(Step::FailMember((member + rng.u32(1..count)) % count));
    }
    steps.extend((0..shape.volume_blocks).map(read));
    steps
}

/// The process that comes after the first one, if any does: it finds a member that was out, or half rebuilt.
pub fn next_process(rng: &mut fastrand::Rng, shape: &Shape) -> Option<Process> {
    let script = script(rng, shape);
    rng.bool().then(|| Process {
        begins: Begins::Opened,
        policy: lost::policy(rng, script.len()),
        script,
        kill: None,
        closes: rng.bool(),
        is_spared: true,
    })
}

/// Where the first one is killed.
pub fn kill(rng: &mut fastrand::Rng) -> Option<Kill> {
    match rng.u8(..4) {
        0 => None,
        1 => Some(Kill::Fence(rng.u64(4..30))),
        _ => Some(Kill::Step(rng.u64(20..250))),
    }
}

/// Which of the actors runs next.
pub fn policy(rng: &mut fastrand::Rng, actors: usize) -> Policy {
    match rng.u8(..4) {
        0 => Policy::windows(rng),
        1 => Policy::Rechecks {
            rng: rng.fork(),
            chances: 96,
        },
        _ => Policy::random(rng, actors, 200),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_rebuilds_a_member_or_has_one_go() {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let shape = shape(&mut rng);
            let script = script(&mut rng, &shape);
            let rebuilds =
                |step: &Step| matches!(step, Step::ReplaceMember { .. } | Step::LoseSlot { .. });
            assert!(script.iter().flatten().any(rebuilds), "{script:?}");
        }
    }
}
