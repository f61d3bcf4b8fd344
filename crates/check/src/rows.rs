//! Scenarios of pools with rows: those of mirrors, of three members and more, in which transactions are large enough to fill some.

use crate::scenario::{Change, Item, Script, Shape, Step};

/// Blocks of a volume that each image is looked at for.
const VOLUME_BLOCKS_MAX: usize = 40;

/// The same shape with rows, on so many members, and with room for transactions that fill one.
pub fn shape(shape: Shape, members: usize) -> Shape {
    // A transaction has an eighth of what is sure to fit.
    let slots = shape.slots.max(8 * members).next_multiple_of(members);
    Shape {
        has_rows: true,
        slots,
        // A record of so many elements.
        lane_bytes: shape.lane_bytes.max(1024),
        ..shape.mirrored_on(members)
    }
}

/// Has half of the pools be full soon: volumes of more blocks than they have room for, and a script with more transactions.
pub fn stretch(rng: &mut fastrand::Rng, shape: &mut Shape, script: &mut Script) {
    if shape.first_blocks < shape.volume_blocks || rng.bool() {
        return;
    }
    let blocks = (shape.slots * 3 / 2 / shape.volumes).min(VOLUME_BLOCKS_MAX);
    shape.volume_blocks = blocks.max(shape.volume_blocks);
    shape.first_blocks = shape.volume_blocks;
    for steps in script {
        for _ in 0..rng.usize(..8) {
            let at = rng.usize(..=steps.len());
            let wide = Step::Transaction {
                volume: rng.usize(..shape.volumes),
                items: wide(rng, shape),
                abort: false,
            };
            steps.insert(at, wide);
        }
    }
}

/// Makes half of a script's transactions some that fill a row, or two, mostly with a block left over.
pub fn widen(rng: &mut fastrand::Rng, shape: &Shape, script: &mut Script) {
    for step in script.iter_mut().flatten() {
        if let Step::Transaction { items, .. } = step
            && rng.bool()
        {
            *items = wide(rng, shape);
        }
    }
}

/// Whole blocks that follow each other, as many as fill a row or two, or some more, if that is possible.
fn wide(rng: &mut fastrand::Rng, shape: &Shape) -> Vec<Item> {
    let width = shape.members - 1;
    let count = match rng.u8(..4) {
        0 => width,
        1 => 2 * width,
        2 => 2 * width + 1,
        _ => width + 1,
    };
    let count = count.min(shape.slots / 8).min(shape.volume_blocks);
    let first = rng.usize(..=shape.volume_blocks - count);
    (first..first + count)
        .map(|block| Item {
            block,
            change: Change::Whole(rng.u64(..)),
        })
        .collect()
}
