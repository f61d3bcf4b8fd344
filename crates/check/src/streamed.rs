//! Reads that follow one another until they are read ahead and pass the pool by, over blocks some of which are dirty, cached, on
//! their way out, or just being written.

use crate::scenario::{Change, Script, Shape, Step, read, write, zero};
use crate::scheduler::Policy;

/// Scenarios of a round.
pub const ROUND_SCENARIOS: u64 = 12;

/// The thread that reads ahead, for [`Step::Background`].
const AHEAD: u8 = 3;

/// A pool with room for all of its volume, or hardly.
pub fn shape(rng: &mut fastrand::Rng) -> Shape {
    let volume_blocks = rng.usize(6..=8);
    Shape {
        slots: rng.usize(9..14),
        lane_bytes: 1024,
        volume_blocks,
        first_blocks: volume_blocks,
        fill_on_read: rng.u8(..4) > 0,
        cutoff_blocks: rng.usize(..=2),
        ahead_blocks: [0, 4, 8][rng.usize(..3)],
        ..Shape::smallest(false)
    }
}

fn range(block: usize, end: usize) -> Step {
    let count = end - block;
    Step::ReadRange { block, count }
}

fn new(block: usize, rng: &mut fastrand::Rng) -> Step {
    write(block, Change::Whole(rng.u64(..)))
}

/// A run of reads from the volume's begin to its end, in requests of one to four blocks, and what reads ahead of it.
fn run(rng: &mut fastrand::Rng, shape: &Shape) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut block = 0;
    while block < shape.volume_blocks {
        let end = (block + rng.usize(1..=4)).min(shape.volume_blocks);
        steps.push(range(block, end));
        if shape.ahead_blocks > 0 {
            steps.extend((0..rng.usize(..3)).map(|_| Step::Background(AHEAD)));
        }
        block = end;
    }
    steps
}

/// What becomes of a block of the run: it is written, and perhaps leaves the pool again, or it is zeroed.
fn changed(rng: &mut fastrand::Rng, block: usize) -> Vec<Step> {
    match rng.u8(..4) {
        0 => vec![zero(block)],
        1 => vec![new(block, rng)],
        _ => vec![new(block, rng), Step::WriteBack, Step::Reclaim(8)],
    }
}

/// One actor reads on, and another one changes what it reads; or one does both in turn.
pub fn script(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    if shape.ahead_blocks > 0 && rng.bool() {
        // What was just read ahead changes before it is read.
        let block = rng.usize(2..4);
        let mut steps = vec![
            range(0, 2),
            Step::Background(AHEAD),
            Step::Background(AHEAD),
        ];
        steps.extend(changed(rng, block));
        steps.push(range(2, 4));
        return vec![steps];
    }
    let (mut reads, mut changes) = (Vec::new(), Vec::new());
    for _ in 0..rng.usize(1..3) {
        reads.extend(run(rng, shape));
        let block = rng.usize(1..shape.volume_blocks);
        changes.extend(changed(rng, block));
    }
    if rng.bool() {
        return vec![reads, changes];
    }
    let mut steps = Vec::new();
    let mut changes = changes.into_iter();
    for step in reads {
        steps.extend(changes.by_ref().take(rng.usize(..4)));
        steps.push(step);
    }
    steps.push(read(shape.volume_blocks - 1));
    vec![steps]
}

/// Which actor runs next: they change over where they are at the backing, or anywhere.
pub fn policy(rng: &mut fastrand::Rng, actors: usize) -> Policy {
    match rng.bool() {
        true => Policy::Backings {
            rng: rng.fork(),
            chances: [64, 128][rng.usize(..2)],
        },
        false => Policy::random(rng, actors, 80),
    }
}
