//! What actors do in the corners of [`crate::focus`].

use crate::scenario::{Change, Script, Shape, Step, read, write, write_all, zero};

/// `count` actors with `steps` steps each.
pub fn actors(
    rng: &mut fastrand::Rng,
    count: std::ops::RangeInclusive<usize>,
    steps: std::ops::Range<usize>,
    mut step: impl FnMut(&mut fastrand::Rng) -> Step,
) -> Script {
    (0..rng.usize(count))
        .map(|_| (0..rng.usize(steps.clone())).map(|_| step(rng)).collect())
        .collect()
}

/// One of few contents.
fn common(rng: &mut fastrand::Rng) -> Change {
    Change::Whole(rng.u64(1..4))
}

fn part(rng: &mut fastrand::Rng, block_bytes: usize) -> Change {
    let len = rng.usize(1..16);
    Change::Part {
        offset: rng.usize(..block_bytes - len),
        len,
        seed: rng.u64(..),
    }
}

/// Blocks that share what others leave: one is given a content that another one has, while that one is
/// overwritten and what it leaves is taken by a third.
pub fn twins(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let few = |rng: &mut fastrand::Rng| match rng.bool() {
        true => Change::Known(rng.u64(..6)),
        false => common(rng),
    };
    let contents = [few(rng), few(rng)];
    let writer = |rng: &mut fastrand::Rng, blocks: std::ops::Range<usize>| {
        let block = rng.usize(blocks);
        match rng.u8(..16) {
            0..=8 => write(block, contents[rng.usize(..2)]),
            9 | 10 => write(block, few(rng)),
            11 => write(block, part(rng, shape.block_bytes)),
            12 => write(block, Change::Discard),
            13 => write(block, Change::Copy(rng.usize(..shape.volume_blocks))),
            14 => read(block),
            _ => write(block, Change::Whole(rng.u64(..))),
        }
    };
    let one = (0..rng.usize(4..12)).map(|_| writer(rng, 0..2)).collect();
    let other = (0..rng.usize(4..12))
        .map(|_| writer(rng, 1..shape.volume_blocks))
        .collect();
    vec![one, other]
}

/// A block is appended to until it is whole. What it then holds was in the pool before, at the same
/// position, so that a copy finds it.
pub fn completed(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let len = rng.usize(1..shape.block_bytes - 8);
    let (first, last) = (rng.u64(..), rng.u64(..));
    let grow = |block| {
        [(len, first), (shape.block_bytes - len, last)]
            .map(|(len, seed)| write(block, Change::Append { len, seed }))
    };
    let mut steps = grow(0).to_vec();
    steps.push(write(1, Change::Copy(0)));
    if rng.bool() {
        steps.push(Step::Checkpoint);
    }
    steps.extend(grow(1));
    steps.push(write(2, Change::Copy(1)));
    if rng.bool() {
        steps.push(write(0, Change::Whole(rng.u64(..))));
    }
    let second = (0..rng.usize(..3)).map(|_| read(rng.usize(..shape.volume_blocks)));
    vec![steps, second.collect()]
}

/// A fence fails.
pub fn failed_fence(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    // Others bring blocks in, or write the very block.
    // With a commit word that one fails after it may count all the same.
    let reads = shape.strict;
    let block = rng.usize(..shape.volume_blocks);
    let after = match rng.bool() {
        true => u32::from(shape.strict),
        false => rng.u32(..4),
    };
    let mut script = vec![vec![
        Step::FailFence { after },
        write(block, Change::Whole(rng.u64(..))),
        write(block, Change::Whole(rng.u64(..))),
    ]];
    script.extend(actors(rng, 1..=2, 2..6, |rng| match reads {
        true => read(rng.usize(..shape.volume_blocks)),
        false if rng.u8(..4) == 0 => write(block, part(rng, shape.block_bytes)),
        false => write(block, Change::Whole(rng.u64(..))),
    }));
    script
}

/// One range, which one actor zeroes while the other one reads it, writes it, or writes others back.
pub fn zeroings(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let block = rng.usize(..shape.volume_blocks - 1);
    let next = (block + 1) % shape.volume_blocks;
    let new = |block, rng: &mut fastrand::Rng| write(block, Change::Whole(rng.u64(..)));
    let away = [Step::Reclaim(3), read(block), read(next)];
    let variant = [0, 0, 1, 2, 3][rng.usize(..5)];
    let mut first = match variant {
        0 => vec![new(block, rng), Step::WriteBack, read(block)],
        1 => vec![read(block), read(block)],
        2 => vec![new(next, rng), Step::WriteBack, read(next)],
        _ => vec![write(block, part(rng, shape.block_bytes)), Step::Flush(0)],
    };
    if variant != 0 || rng.bool() {
        first.extend(away.clone());
    }
    let mut second = Vec::new();
    if variant == 2 || rng.bool() {
        second.push(Step::SYNC_FAILS);
    }
    second.push(zero(block));
    second.push(read(block));
    second.extend(away);
    vec![first, second]
}

/// The end of a volume moves while its last block comes and goes.
pub fn growth(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let end = shape.first_blocks - 1;
    let block = if rng.bool() { end } else { 0 };
    let first = match rng.u8(..3) {
        0 => vec![read(end), read(end)],
        _ => vec![write(block, Change::Whole(rng.u64(..))), Step::WriteBack],
    };
    let away = [read(block), Step::Reclaim(3), read(end), read(block)];
    let mut second = Vec::new();
    if shape.odd_bytes.1 == 0 || rng.bool() {
        second.push(Step::SYNC_FAILS);
    }
    second.extend([Step::GrowVolume(0), Step::GrowVolume(0)]);
    second.extend(away.clone());
    vec![[first.as_slice(), &away].concat(), second]
}

/// A process that zeroes a block which is not cached, or one that brings it in.
pub fn killed(rng: &mut fastrand::Rng) -> Script {
    match rng.bool() {
        true => vec![vec![zero(0), read(0)]],
        false => vec![vec![read(0), Step::Reclaim(3), read(0)]],
    }
}

/// On a plain file: a fence fails between transactions.
pub fn pages(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let new = |rng: &mut fastrand::Rng| {
        let block = rng.usize(..shape.volume_blocks);
        write(block, Change::Whole(rng.u64(..)))
    };
    let mut steps = vec![new(rng), new(rng)];
    steps.push(Step::FailFence {
        after: rng.u32(..2),
    });
    steps.extend([new(rng), new(rng)]);
    vec![steps]
}

/// A step of one incarnation of many.
pub fn relayed(rng: &mut fastrand::Rng, shape: &Shape) -> Step {
    let block = rng.usize(..shape.volume_blocks);
    match rng.u8(..6) {
        0 => Step::Checkpoint,
        1 => write(block, part(rng, shape.block_bytes)),
        _ => write(block, Change::Whole(rng.u64(..))),
    }
}

/// Blocks that change together, and readers of both.
pub fn pairs(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let both = |rng: &mut fastrand::Rng| {
        let change = |rng: &mut fastrand::Rng| match rng.bool() {
            true => Change::Whole(rng.u64(..)),
            false => part(rng, shape.block_bytes),
        };
        write_all([0, 1].map(|block| (block, change(rng))))
    };
    let mut script = actors(rng, 1..=2, 2..5, both);
    script.extend(actors(rng, 1..=1, 3..8, |_| Step::ReadAtomic {
        volume: 0,
        block: 0,
        count: 2,
    }));
    script
}

/// Blocks without checks change while they are read.
pub fn unchecked(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let mut script = actors(rng, 1..=2, 4..10, |rng| {
        let block = rng.usize(..shape.volume_blocks.min(3));
        match rng.u8(..8) {
            0 => write(block, part(rng, shape.block_bytes)),
            1 => Step::Flush(0),
            2 => Step::Reclaim(3),
            _ => write(block, Change::Whole(rng.u64(..))),
        }
    });
    script.extend(actors(rng, 1..=1, 4..10, |rng| {
        read(rng.usize(..shape.volume_blocks.min(3)))
    }));
    script
}

/// A step of one of many writers.
pub fn crowded(rng: &mut fastrand::Rng, shape: &Shape) -> Step {
    let is_full = shape.volume_blocks + 2 >= shape.slots;
    let block = rng.usize(..if is_full { shape.volume_blocks } else { 2 });
    match rng.u8(..10) {
        0..=4 => write(block, Change::Whole(rng.u64(..))),
        5 | 6 => write(block, part(rng, shape.block_bytes)),
        7 => write_all([0, 1].map(|block| (block, Change::Whole(rng.u64(..))))),
        8 => read(block),
        _ => Step::Checkpoint,
    }
}
