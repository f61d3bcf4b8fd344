//! Shapes and scripts for engines of the lab, which have one disk, whole blocks and metadata blocks,
//! and keep house on their callers' threads.

use crate::engine_shape::{EngineShape, Maker, Role, Roles};
use crate::scenario::{Change, Item, Script, Shape, Step, write_all};
use crate::scheduler::Policy;
use forebay_lab::engines::Watermarks;

/// A shape drawn from `rng`: mostly a cache that is smaller than its disk.
pub fn random_shape(
    rng: &mut fastrand::Rng,
    maker: Maker,
    as_printed: bool,
    has_cleaner: bool,
) -> Shape {
    let block_bytes = match rng.u8(..16) {
        0 => 4096,
        1..=3 => 512,
        _ => 128,
    };
    let slots = match rng.u8(..4) {
        _ if block_bytes == 4096 => 9,
        0 => rng.usize(16..28),
        _ => rng.usize(8..16),
    };
    let roles = match rng.u8(..4) {
        0 => 0,
        1 => u64::MAX / 3 * 2,
        _ => rng.u64(..),
    };
    let engine = EngineShape {
        maker,
        as_printed,
        ring_elements: rng.u64(8..=16),
        set_blocks: [4, 8][rng.usize(..2)],
        journal_blocks: rng.usize(8..=16),
        roles: Roles(roles),
        cleaner: has_cleaner.then(|| random_marks(rng)),
    };
    Shape {
        block_bytes,
        slots,
        volume_blocks: rng.usize(3..=20),
        fill_on_read: rng.bool(),
        ..smallest(engine)
    }
}

/// Blocks are written back as they leave, or ahead of need, or at once.
fn random_marks(rng: &mut fastrand::Rng) -> Watermarks {
    Watermarks {
        dirty_low_per_mille: [0, 250, 1000][rng.usize(..3)],
        dirty_high_per_mille: [500, 1000][rng.usize(..2)],
        free_low_per_mille: [2, 200, 400][rng.usize(..3)],
    }
}

/// A small cache of a disk that does not fit into it.
fn smallest(engine: EngineShape) -> Shape {
    Shape {
        slots: 8,
        volume_blocks: 12,
        first_blocks: 0,
        fill_on_read: true,
        engine: Some(engine),
        ..Shape::smallest(false)
    }
}

/// A script drawn from `rng`.
pub fn random_script(rng: &mut fastrand::Rng, shape: &Shape, engine: &EngineShape) -> Script {
    let actors = rng.usize(1..=3);
    let steps = [3, 6, 12, 24][rng.usize(..4)];
    // Few hot blocks, so that actors meet.
    let hot = rng.usize(1..=shape.volume_blocks);
    let reads = [1, 4, 10][rng.usize(..3)];
    (0..actors)
        .map(|actor| {
            let keeps_house = actors > 1 && actor == actors - 1 && rng.bool();
            let house = if keeps_house { 12 } else { 1 };
            (0..rng.usize(1..=steps))
                .map(|_| match rng.u8(..24) {
                    roll if roll < house => housekeeping(rng, engine),
                    roll if roll < house + reads => read(rng, shape, hot),
                    _ => transaction(rng, shape, engine, hot),
                })
                .collect()
        })
        .collect()
}

/// Now and then, for an engine with a cleaner, something else than at random: a block that is not cached is read, and
/// while the disk is at it another actor writes the block, has it cleaned, and has others take its place.
pub fn at_disk(rng: &mut fastrand::Rng, shape: &mut Shape) -> Option<(Script, Policy)> {
    const BLOCKS: usize = 20;
    let has_cleaner = shape.engine.is_some_and(|engine| engine.cleaner.is_some());
    if !has_cleaner || rng.u8(..6) > 0 {
        return None;
    }
    (shape.fill_on_read, shape.volume_blocks) = (true, BLOCKS);
    let block = rng.usize(..BLOCKS);
    let whole = |block, rng: &mut fastrand::Rng| write_all([(block, Change::Whole(rng.u64(..)))]);
    let reader = vec![Step::Read { volume: 0, block }; rng.usize(2..=4)];
    let mut writer = vec![
        whole(block, rng),
        [Step::Flush(0), Step::Background(0)][rng.usize(..2)].clone(),
    ];
    let mut others: Vec<usize> = (0..BLOCKS).filter(|other| *other != block).collect();
    rng.shuffle(&mut others);
    others.truncate(rng.usize(BLOCKS / 2..BLOCKS));
    writer.extend(others.into_iter().map(|other| whole(other, rng)));
    writer.extend([Step::Background(0), Step::Background(0)]);
    let policy = Policy::AtBacking {
        first: 0,
        access: rng.u64(1..=4),
    };
    Some((vec![reader, writer], policy))
}

fn block(rng: &mut fastrand::Rng, shape: &Shape, hot: usize) -> usize {
    if rng.u8(..4) > 0 {
        rng.usize(..hot)
    } else {
        rng.usize(..shape.volume_blocks)
    }
}

fn read(rng: &mut fastrand::Rng, shape: &Shape, hot: usize) -> Step {
    let block = block(rng, shape, hot);
    let count = rng.usize(1..=3).min(shape.volume_blocks - block);
    match count {
        1 => Step::Read { volume: 0, block },
        _ => Step::ReadRange { block, count },
    }
}

fn transaction(rng: &mut fastrand::Rng, shape: &Shape, engine: &EngineShape, hot: usize) -> Step {
    let count = [1, 1, 1, 2, 2, 3, 4, 6][rng.usize(..8)];
    let first = block(rng, shape, hot);
    // Neighbours are written with one call where the engine has one for it.
    let is_run = rng.u8(..4) == 0;
    let items = (0..count).map(|number| {
        let block = match is_run {
            true => (first + number) % shape.volume_blocks,
            false if number == 0 => first,
            false => block(rng, shape, hot),
        };
        let change = change(rng, engine.roles.of(block));
        Item { block, change }
    });
    Step::Transaction {
        volume: 0,
        items: items.collect(),
        abort: rng.u8(..24) == 0,
    }
}

fn change(rng: &mut fastrand::Rng, role: Role) -> Change {
    let seed = rng.u64(..);
    match (role, rng.u8(..8)) {
        (Role::Metadata, _) | (Role::Both, 0..5) => Change::Update(seed),
        (_, 5) => Change::Known(seed),
        (_, 6) => Change::Similar(seed),
        _ => Change::Whole(seed),
    }
}

fn housekeeping(rng: &mut fastrand::Rng, engine: &EngineShape) -> Step {
    if engine.cleaner.is_some() && rng.u8(..4) > 0 {
        return Step::Background(0);
    }
    match rng.u8(..24) {
        0..=17 => Step::Flush(0),
        18 if rng.bool() => Step::FailFence {
            after: rng.u32(..12),
        },
        _ => Step::FailStore {
            volume: 0,
            writes: rng.u32(..2),
            syncs: rng.u32(..3),
        },
    }
}

/// What an actor does in a systematic script. Block 1 is written whole and in parts, block 2 in
/// parts. With a cleaner the flush is what that does at a wakeup.
const MOVES: [fn(u64) -> Step; 7] = [
    |seed| write_all([(0, Change::Whole(seed))]),
    |seed| {
        write_all([
            (0, Change::Whole(seed)),
            (3, Change::Whole(seed + 1)),
            (4, Change::Whole(seed + 2)),
        ])
    },
    |seed| write_all([(2, Change::Update(seed))]),
    |seed| {
        write_all([
            (1, Change::Update(seed)),
            (0, Change::Whole(seed)),
            (2, Change::Update(seed + 1)),
        ])
    },
    |seed| write_all([(1, Change::Whole(seed))]),
    |_| Step::Flush(0),
    |_| Step::ReadRange { block: 8, count: 3 },
];

/// Preludes: the cache empty, with dirty blocks, with clean ones, and full.
const PRELUDES: usize = 4;

/// Systematic scripts there are.
pub const SCRIPTS: usize = MOVES.len() * MOVES.len() * PRELUDES;

fn prelude(number: usize) -> Vec<Step> {
    let dirty = vec![
        write_all([(0, Change::Whole(1)), (1, Change::Whole(2))]),
        write_all([(2, Change::Update(3))]),
    ];
    match number {
        0 => Vec::new(),
        1 => dirty,
        2 => [dirty, vec![Step::Flush(0)]].concat(),
        _ => {
            let more = (3..9).map(|block| write_all([(block, Change::Whole(block as u64))]));
            dirty.into_iter().chain(more).collect()
        }
    }
}

/// The shape and the script with this number.
pub fn systematic_script(
    number: usize,
    maker: Maker,
    as_printed: bool,
    has_cleaner: bool,
) -> (Shape, Script) {
    let rest = number % SCRIPTS;
    let (start, rest) = (rest % PRELUDES, rest / PRELUDES);
    let (a, b) = (rest % MOVES.len(), rest / MOVES.len());
    let mut first = prelude(start);
    first.push(MOVES[a](1000));
    // Something after it, so that what was acknowledged is followed by a crash.
    first.push(write_all([(5, Change::Whole(4000))]));
    let second = vec![MOVES[b](2000), write_all([(0, Change::Whole(5000))])];
    let shape = smallest(EngineShape {
        maker,
        as_printed,
        ring_elements: 8,
        set_blocks: 4,
        journal_blocks: 12,
        roles: Roles(0b10_11_00),
        cleaner: has_cleaner.then_some(Watermarks {
            dirty_low_per_mille: 0,
            dirty_high_per_mille: 1000,
            free_low_per_mille: 200,
        }),
    });
    let mut script = vec![first, second];
    if has_cleaner {
        let flushes = script.iter_mut().flatten();
        let flushes = flushes.filter(|step| matches!(step, Step::Flush(_)));
        flushes.for_each(|step| *step = Step::Background(0));
    }
    (shape, script)
}
