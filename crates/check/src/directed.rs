//! Short scripts that lead straight to where a fault would show, with few images each: what is left to
//! chance is who meets whom, and where the power fails.

use crate::focus::{read, write};
use crate::scenario::{Change, Script, Shape, Step};

fn new(block: usize, rng: &mut fastrand::Rng) -> Step {
    write(block, Change::Whole(rng.u64(..)))
}

fn zero(block: usize) -> Step {
    Step::DiscardRange {
        volume: 0,
        block,
        count: 1,
    }
}

const SYNC_FAILS: Step = Step::FailStore {
    volume: 0,
    writes: 0,
    syncs: 1,
};

/// One actor writes a block back, while another one has a sync fail or zeroes that very block.
pub fn at_backing(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let block = rng.usize(..shape.first_blocks - 1);
    let other = (block + 1) % (shape.first_blocks - 1);
    let back = vec![new(block, rng), Step::WriteBack];
    let meanwhile = match rng.u8(..4) {
        0 | 1 if shape.first_blocks < shape.volume_blocks => vec![SYNC_FAILS, Step::GrowVolume(0)],
        0 | 1 => vec![SYNC_FAILS, zero(other)],
        _ => vec![zero(block)],
    };
    vec![back, meanwhile]
}

/// A block is zeroed behind the pool; often that cannot be made durable.
pub fn discarded(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let mut steps = Vec::new();
    if rng.bool() {
        steps.push(SYNC_FAILS);
    }
    steps.push(zero(rng.usize(..shape.volume_blocks)));
    vec![steps]
}

/// Every block is read, and brought in.
pub fn read_all(shape: &Shape) -> Script {
    vec![(0..shape.volume_blocks).map(read).collect()]
}

/// A commit word's fence fails, while a reader is about to bring in another block.
pub fn filled_after_fence(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let block = rng.usize(..shape.volume_blocks);
    let other = (block + 1) % shape.volume_blocks;
    let after = rng.u32(..2);
    vec![
        vec![Step::FailFence { after }, new(block, rng)],
        vec![read(other)],
    ]
}

/// Records that no checkpoint has seen.
pub fn some_writes(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let steps = (0..rng.usize(1..3)).map(|_| new(rng.usize(..shape.volume_blocks), rng));
    vec![steps.collect()]
}
