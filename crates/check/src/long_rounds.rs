//! Rounds of write-back of which one writes while the one before is synced: two actors write back, a sync fails now and then, and what
//! is clean leaves the pool.

use crate::scenario::{Change, Script, Shape, Step, read, write};
use crate::scheduler::Policy;

/// A small pool before backings that prefer long rounds.
pub fn shape(rng: &mut fastrand::Rng) -> Shape {
    let volume_blocks = rng.usize(3..=6);
    Shape {
        slots: rng.usize(9..14),
        lane_bytes: 1024,
        volume_blocks,
        first_blocks: volume_blocks,
        fill_on_read: rng.bool(),
        long_rounds: true,
        ..Shape::smallest(false)
    }
}

/// Blocks of its own that are written, written back, evicted and read again.
fn writer(rng: &mut fastrand::Rng, blocks: std::ops::Range<usize>) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..rng.usize(1..3) {
        let block = rng.usize(blocks.clone());
        if rng.u8(..4) == 0 {
            steps.push(Step::SYNC_FAILS);
        }
        steps.push(write(block, Change::Whole(rng.u64(..))));
        steps.push(Step::WriteBack);
        if rng.u8(..3) > 0 {
            steps.extend([Step::Reclaim(8), read(block)]);
        }
    }
    steps
}

/// Two such actors, with blocks apart or the same.
pub fn script(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let all = 0..shape.volume_blocks;
    match rng.u8(..4) {
        0 => vec![writer(rng, all.clone()), writer(rng, all)],
        _ => {
            let half = shape.volume_blocks / 2;
            vec![writer(rng, 0..half), writer(rng, half..shape.volume_blocks)]
        }
    }
}

/// Which actor runs next: they change over where one is at the backing.
pub fn policy(rng: &mut fastrand::Rng) -> Policy {
    Policy::Backings {
        rng: rng.fork(),
        chances: [64, 128, 192][rng.usize(..3)],
    }
}
