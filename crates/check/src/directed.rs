//! Short scripts that lead straight to where a fault would show, with few images each: what is left to
//! chance is which actors meet, and where the power fails.

use crate::scenario::{Change, Script, Shape, Step, read, write, write_all, zero};
use std::ops::Range;

fn new(block: usize, rng: &mut fastrand::Rng) -> Step {
    write(block, Change::Whole(rng.u64(..)))
}

/// One actor writes a block back, while another one has a sync fail or zeroes that very block.
pub fn at_backing(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let block = rng.usize(..shape.first_blocks - 1);
    let other = (block + 1) % (shape.first_blocks - 1);
    let back = vec![new(block, rng), Step::WriteBack];
    let meanwhile = match rng.u8(..3) {
        0 | 1 if shape.first_blocks < shape.volume_blocks => {
            vec![Step::SYNC_FAILS, Step::GrowVolume(0)]
        }
        0 | 1 => vec![Step::SYNC_FAILS, zero(other)],
        _ => vec![zero(block)],
    };
    vec![back, meanwhile]
}

/// A block is zeroed behind the pool; often that cannot be made durable.
pub fn discarded(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let mut steps = Vec::new();
    if rng.bool() {
        steps.push(Step::SYNC_FAILS);
    }
    steps.push(zero(rng.usize(..shape.volume_blocks)));
    vec![steps]
}

/// Every block is read, and brought in.
pub fn read_all(shape: &Shape) -> Script {
    vec![(0..shape.volume_blocks).map(read).collect()]
}

/// A commit word's fence fails, while two readers are about to bring in other blocks: one of them takes
/// the slot that the writer had. Without such words: another writer is about to lock the same block.
pub fn after_failed_fence(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let block = rng.usize(..shape.volume_blocks);
    let [one, two] = [1, 2].map(|next| (block + next) % shape.volume_blocks);
    let after = u32::from(shape.strict && rng.u8(..4) > 0);
    let first = vec![Step::FailFence { after }, new(block, rng)];
    match shape.strict {
        true => vec![first, vec![read(one)], vec![read(two)]],
        false => vec![first, vec![new(block, rng)]],
    }
}

/// Records that no checkpoint has seen.
pub fn some_writes(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let steps = (0..rng.usize(1..3)).map(|_| new(rng.usize(..shape.volume_blocks), rng));
    vec![steps.collect()]
}

/// A volume grows, or goes and comes again; where neither, it came for the first time.
pub fn volume_line(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let last = shape.volume_blocks - 1;
    let steps = if shape.first_blocks < shape.volume_blocks {
        vec![Step::GrowVolume(0), new(last, rng)]
    } else if shape.starts_attached {
        vec![new(last, rng), Step::Detach(0), new(0, rng)]
    } else {
        vec![new(last, rng)]
    };
    vec![steps]
}

/// About where [`volume_line`] waits for a line of the volume: of the fences before it five open the pool.
pub fn volume_line_fence(rng: &mut fastrand::Rng, shape: &Shape) -> Option<u64> {
    let fence = if shape.first_blocks < shape.volume_blocks {
        rng.u64(4..8)
    } else if shape.starts_attached {
        rng.u64(6..18)
    } else {
        rng.u64(3..6)
    };
    (rng.u8(..4) > 0).then_some(fence)
}

/// A volume's detach fails at the fence of its line, and it is to grow.
pub fn failed_line(rng: &mut fastrand::Rng) -> Script {
    // Where a description has two fences the second one is as good.
    let after = rng.u32(..2);
    let fails = Step::FailFence { after };
    vec![vec![fails, Step::Detach(0), Step::GrowVolume(0)]]
}

/// The last block of all, which a volume that has not grown lacks, and another one.
pub fn written_at_end(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    vec![vec![new(shape.volume_blocks - 1, rng), new(0, rng)]]
}

/// A volume is detached while an actor reads or writes a block of it, or writes it back.
pub fn detached(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let block = rng.usize(..shape.volume_blocks);
    let first = match rng.u8(..8) {
        0 => vec![new(block, rng)],
        1 => vec![new(block, rng), Step::WriteBack],
        2 => vec![zero(block)],
        _ => vec![read(block)],
    };
    vec![first, vec![Step::Detach(0)]]
}

/// An actor gives a block what another one has, which goes meanwhile; some time after that what it leaves
/// is taken.
pub fn rechecked(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let common = Change::Whole(rng.u64(..));
    let mut first = vec![write(1, common), write(0, common)];
    let mut second = vec![new(1, rng)];
    second.extend((0..rng.usize(1..4)).map(|_| read(rng.usize(..shape.volume_blocks))));
    for steps in [&mut first, &mut second] {
        let count = rng.usize(1..4);
        steps.extend((0..count).map(|_| new(rng.usize(1..shape.volume_blocks), rng)));
    }
    vec![first, second]
}

/// So many blocks, each with something of its own.
pub fn new_blocks(rng: &mut fastrand::Rng, shape: &Shape, count: Range<usize>) -> Vec<Step> {
    let blocks = 0..rng.usize(count);
    let steps = blocks.map(|_| new(rng.usize(..shape.volume_blocks), rng));
    steps.collect()
}

/// A transaction of two blocks; then one of them alone, in another lane, and others, until the slot that
/// it had is taken. Meanwhile a third actor is in the midst of something older, so that the first two
/// are not acknowledged.
pub fn overtaken(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let transaction = write_all([0, 1].map(|block| (block, Change::Whole(rng.u64(..)))));
    let older = new(shape.volume_blocks - 1, rng);
    let mut alone = vec![new(rng.usize(..2), rng)];
    alone.extend((2..shape.volume_blocks - 1).map(|block| new(block, rng)));
    vec![vec![transaction], alone, vec![older]]
}

/// Blocks that are much alike, the first of which goes.
pub fn packed(rng: &mut fastrand::Rng) -> Script {
    let mut steps: Vec<Step> = (0..3)
        .map(|block| write(block, Change::Known(rng.u64(..6))))
        .collect();
    steps.push(new(0, rng));
    vec![steps]
}

/// A block is read again and again, while another actor writes it and then others.
pub fn read_unchecked(rng: &mut fastrand::Rng) -> Script {
    let reads = vec![new(0, rng), read(0), read(0), read(0)];
    let writes = [0, 1, 2, 1, 2, 1].map(|block| new(block, rng));
    vec![reads, writes.to_vec()]
}
