//! Pools and scripts that bring about what random ones seldom do: the corners where a fault would hide
//! from them. A small share of each campaign; everything is drawn from the scenario's seed all the same.

use crate::directed;
use crate::scenario::{Change, Item, Script, Shape, Step};
use crate::scheduler::{Kill, Policy};

/// A corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Few contents that blocks share, leave and overwrite.
    Twins,
    /// Blocks that appends make whole, and copies of them.
    Completed,
    /// A fence fails while others bring blocks in and write.
    FailedFence,
    /// Ranges are zeroed while others write back, read and write, and syncs fail.
    Zeroings,
    /// A life after the other, each of few steps, most of them crashed while the pool opens.
    Relay,
    /// Transactions of two blocks, and reads of both at one moment.
    Pairs,
    /// Blocks without checks that are read while they are written.
    Unchecked,
    /// Many writers of the same few blocks, and few slots.
    Crowd,
    /// A volume grows, perhaps within a block, while others write back; a sync fails.
    Growth,
    /// A process is killed while it zeroes a range; the next one reads that.
    Killed,
    /// On a plain file: a fence fails, and another process goes on before the power does.
    Pages,
    /// Short: two actors who meet while each is at the backing; a sync fails.
    AtBacking,
    /// Short: a discard's sync fails, or its process is killed before it; the next process reads that.
    Restarted,
    /// Short: a reader brings a block in just after a fence failed.
    FillAfterFence,
    /// Short: a life line is torn, and lives later the pool opens beside it.
    TornLife,
}

impl Focus {
    /// How often each comes in a round of all of them: the more, the less often it is what it is about.
    const ROUND: [(Focus, u64); 11] = [
        (Focus::Twins, 6),
        (Focus::Completed, 1),
        (Focus::FailedFence, 6),
        (Focus::Zeroings, 6),
        (Focus::Relay, 2),
        (Focus::Pairs, 1),
        (Focus::Unchecked, 3),
        (Focus::Crowd, 3),
        (Focus::Growth, 4),
        (Focus::Killed, 6),
        (Focus::Pages, 2),
    ];

    /// Scenarios of a round; seeds that follow each other make one.
    pub const ROUND_SCENARIOS: u64 = 40;

    /// The short ones, which come before those of a round.
    const DIRECTED: [(Focus, u64); 4] = [
        (Focus::AtBacking, 6),
        (Focus::Restarted, 3),
        (Focus::FillAfterFence, 4),
        (Focus::TornLife, 1),
    ];

    /// Scenarios of all of these.
    pub const DIRECTED_SCENARIOS: u64 = 14;

    /// The corner of the directed scenario with this seed.
    pub fn directed(seed: u64) -> Focus {
        Focus::at(&Focus::DIRECTED, seed % Focus::DIRECTED_SCENARIOS)
    }

    /// The corner of the scenario with this seed.
    pub fn of(seed: u64) -> Focus {
        Focus::at(&Focus::ROUND, seed % Focus::ROUND_SCENARIOS)
    }

    fn at(all: &[(Focus, u64)], mut rest: u64) -> Focus {
        let found = all.iter().find(|(_, count)| {
            let is_here = rest < *count;
            rest = rest.saturating_sub(*count);
            is_here
        });
        found.expect("a round has so many").0
    }

    /// Lives after the first, at most.
    pub fn lives_max(self) -> usize {
        match self {
            Focus::Relay => 8,
            Focus::TornLife => 2,
            Focus::Completed | Focus::FailedFence | Focus::Zeroings => 2,
            Focus::AtBacking | Focus::Restarted | Focus::FillAfterFence => 0,
            _ => 1,
        }
    }

    /// Chances in 256 to live on after a crash of life `number`, be it while the pool opens.
    pub fn chances_of_more(self, number: usize, is_opening: bool) -> u8 {
        match self {
            Focus::TornLife => match is_opening == (number == 0) {
                true => 128,
                false => 0,
            },
            Focus::Relay if is_opening => 48,
            Focus::Relay => 24,
            _ => 3,
        }
    }

    /// Chances in 256 that a moment's crash is looked at. Few, where what goes wrong is seen by readers: many
    /// short scenarios find more than few long ones.
    pub fn chances(self) -> u32 {
        match self {
            Focus::Relay => 96,
            Focus::Completed => 12,
            Focus::Crowd | Focus::FailedFence => 6,
            Focus::Zeroings | Focus::Twins => 2,
            Focus::Growth => 2,
            Focus::Killed | Focus::Pages => 4,
            Focus::Restarted => 8,
            Focus::Pairs | Focus::Unchecked => 0,
            Focus::AtBacking | Focus::FillAfterFence | Focus::TornLife => 0,
        }
    }

    /// The same of one before a fence, if they are more.
    pub fn fence_chances(self) -> u32 {
        match self {
            Focus::TornLife => 256,
            _ => 0,
        }
    }

    /// Images of a crash.
    pub fn samples(self, is_opening: bool) -> usize {
        match self {
            Focus::Relay if is_opening => 2,
            Focus::FillAfterFence => 2,
            _ => 1,
        }
    }

    /// Where the first process of a life ends before its time, and how many follow; none if it is alone.
    pub fn others(self, rng: &mut fastrand::Rng) -> Option<(Option<Kill>, usize)> {
        match self {
            Focus::Killed => Some((Some(Kill::Step(rng.u64(1..120))), 1)),
            Focus::Pages => Some((None, rng.usize(1..3))),
            Focus::Restarted => {
                let kill = rng.bool().then(|| Kill::Backing(rng.u64(3..9)));
                Some((kill, 1))
            }
            _ => None,
        }
    }

    /// Whether every image is looked at closely.
    pub fn looks_closer(self) -> bool {
        matches!(
            self,
            Focus::Zeroings | Focus::Killed | Focus::Growth | Focus::AtBacking | Focus::Restarted
        )
    }

    /// The pool.
    pub fn shape(self, rng: &mut fastrand::Rng) -> Shape {
        let mut shape = Shape {
            slots: rng.usize(8..12),
            lanes: rng.u32(1..=2),
            volume_blocks: rng.usize(3..=6),
            lane_bytes: 1024,
            fill_on_read: rng.bool(),
            ..Shape::smallest(false)
        };
        match self {
            Focus::Twins => shape.compares = rng.bool(),
            Focus::Completed => shape.slots = rng.usize(10..16),
            Focus::FailedFence => {
                shape.strict = rng.bool();
                shape.fill_on_read = true;
                // Who waits for a lane alone never has the key's lock after it.
                shape.lanes = if shape.strict { 1 } else { 2 };
            }
            Focus::Zeroings | Focus::Growth | Focus::Killed => shape.fill_on_read = true,
            Focus::AtBacking | Focus::Restarted => shape.fill_on_read = true,
            Focus::FillAfterFence => {
                shape.strict = true;
                shape.fill_on_read = true;
                shape.lanes = 1;
            }
            Focus::TornLife => shape.volume_blocks = 3,
            Focus::Pages => {
                shape.pages = true;
                shape.block_bytes = 512;
                shape.lane_bytes = 16384;
            }
            Focus::Relay => {
                shape.strict = rng.u8(..4) == 0;
                shape.volume_blocks = 3;
            }
            Focus::Pairs => {
                shape.checksums = rng.u8(..4) > 0;
                shape.slots = rng.usize(18..24);
            }
            Focus::Unchecked => {
                shape.checksums = false;
                shape.compares = false;
            }
            Focus::Crowd => {
                shape.lanes = rng.u32(2..=3);
                shape.slots = rng.usize(16..20);
                if rng.bool() {
                    // Full, so that each slot is taken as soon as it is free.
                    shape.slots = rng.usize(8..10);
                    shape.volume_blocks = shape.slots - rng.usize(1..3);
                }
            }
        }
        shape.first_blocks = shape.volume_blocks;
        if self == Focus::AtBacking && rng.bool() {
            shape.first_blocks -= 1;
        }
        if self == Focus::Growth {
            shape.first_blocks -= 1;
            shape.fill_on_read = true;
            if rng.bool() {
                shape.odd_bytes.1 = rng.usize(1..shape.block_bytes);
            }
        }
        if !shape.checksums {
            shape.strict = true;
        }
        shape
    }

    /// Who of its actors goes on.
    pub fn policy(self, rng: &mut fastrand::Rng, actors: usize) -> Policy {
        let opens_windows = match self {
            Focus::Zeroings if rng.bool() => {
                // One goes on to its end while the other has just begun.
                let first = rng.usize(..2);
                return Policy::Preemptions(vec![(0, first), (rng.u64(1..12), 1 - first)]);
            }
            Focus::Zeroings => rng.bool(),
            Focus::AtBacking => {
                return Policy::Backings {
                    rng: rng.fork(),
                    chances: [64, 128][rng.usize(..2)],
                };
            }
            Focus::FillAfterFence => {
                return Policy::Preemptions(vec![(0, 1), (rng.u64(1..16), 0)]);
            }
            Focus::Crowd => rng.u8(..4) == 0,
            _ => rng.u8(..4) > 0,
        };
        match opens_windows {
            true => Policy::windows(rng),
            false => Policy::random(rng, actors, 80),
        }
    }

    /// What its actors do.
    pub fn script(self, rng: &mut fastrand::Rng, shape: &Shape) -> Script {
        match self {
            Focus::Twins => twins(rng, shape),
            Focus::Completed => completed(rng, shape),
            Focus::FailedFence => failed_fence(rng, shape),
            Focus::Zeroings => zeroings(rng, shape),
            Focus::Relay => actors(rng, 1..=1, 1..4, |rng| relayed(rng, shape)),
            Focus::Pairs => pairs(rng, shape),
            Focus::Unchecked => unchecked(rng, shape),
            Focus::Crowd => actors(rng, 3..=3, 3..8, |rng| crowded(rng, shape)),
            Focus::Growth => growth(rng, shape),
            Focus::Killed => killed(rng),
            Focus::Pages => pages(rng, shape),
            Focus::AtBacking => directed::at_backing(rng, shape),
            Focus::Restarted => directed::discarded(rng, shape),
            Focus::FillAfterFence => directed::filled_after_fence(rng, shape),
            Focus::TornLife => vec![Vec::new()],
        }
    }

    /// What those of a later process of the same life do.
    pub fn next_script(self, rng: &mut fastrand::Rng, shape: &Shape) -> Script {
        match self {
            Focus::Restarted => directed::read_all(shape),
            _ => self.script(rng, shape),
        }
    }

    /// What those of life `number` do.
    pub fn script_of_life(self, number: usize, rng: &mut fastrand::Rng, shape: &Shape) -> Script {
        match (self, number) {
            (Focus::TornLife, 1) => directed::some_writes(rng, shape),
            _ => self.script(rng, shape),
        }
    }
}

fn actors(
    rng: &mut fastrand::Rng,
    count: std::ops::RangeInclusive<usize>,
    steps: std::ops::Range<usize>,
    mut step: impl FnMut(&mut fastrand::Rng) -> Step,
) -> Script {
    (0..rng.usize(count))
        .map(|_| (0..rng.usize(steps.clone())).map(|_| step(rng)).collect())
        .collect()
}

pub fn write(block: usize, change: Change) -> Step {
    write_all(vec![Item { block, change }])
}

fn write_all(items: Vec<Item>) -> Step {
    Step::Transaction {
        volume: 0,
        items,
        abort: false,
    }
}

pub fn read(block: usize) -> Step {
    Step::Read { volume: 0, block }
}

/// One of few contents, written as a call of its own or as a transaction.
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
fn twins(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
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
fn completed(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
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

fn failed_fence(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
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
fn zeroings(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
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
        second.push(Step::FailStore {
            volume: 0,
            writes: 0,
            syncs: 1,
        });
    }
    second.push(Step::DiscardRange {
        volume: 0,
        block,
        count: 1,
    });
    second.push(read(block));
    second.extend(away);
    vec![first, second]
}

/// The end of a volume moves while its last block comes and goes.
fn growth(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let end = shape.first_blocks - 1;
    let block = if rng.bool() { end } else { 0 };
    let first = match rng.u8(..3) {
        0 => vec![read(end), read(end)],
        _ => vec![write(block, Change::Whole(rng.u64(..))), Step::WriteBack],
    };
    let away = [read(block), Step::Reclaim(3), read(end), read(block)];
    let mut second = Vec::new();
    if shape.odd_bytes.1 == 0 || rng.bool() {
        second.push(Step::FailStore {
            volume: 0,
            writes: 0,
            syncs: 1,
        });
    }
    second.extend([Step::GrowVolume(0), Step::GrowVolume(0)]);
    second.extend(away.clone());
    vec![[first.as_slice(), &away].concat(), second]
}

/// A process that zeroes a block which is not cached, or one that brings it in.
fn killed(rng: &mut fastrand::Rng) -> Script {
    let zero = Step::DiscardRange {
        volume: 0,
        block: 0,
        count: 1,
    };
    match rng.bool() {
        true => vec![vec![zero, read(0)]],
        false => vec![vec![read(0), Step::Reclaim(3), read(0)]],
    }
}

fn pages(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
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

fn relayed(rng: &mut fastrand::Rng, shape: &Shape) -> Step {
    let block = rng.usize(..shape.volume_blocks);
    match rng.u8(..6) {
        0 => Step::Checkpoint,
        1 => write(block, part(rng, shape.block_bytes)),
        _ => write(block, Change::Whole(rng.u64(..))),
    }
}

/// Blocks that change together, and readers of both.
fn pairs(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let both = |rng: &mut fastrand::Rng| {
        let change = |rng: &mut fastrand::Rng| match rng.bool() {
            true => Change::Whole(rng.u64(..)),
            false => part(rng, shape.block_bytes),
        };
        let items = [0, 1].map(|block| Item {
            block,
            change: change(rng),
        });
        write_all(items.to_vec())
    };
    let mut script = actors(rng, 1..=2, 2..5, both);
    script.extend(actors(rng, 1..=1, 3..8, |_| Step::ReadAtomic {
        volume: 0,
        block: 0,
        count: 2,
    }));
    script
}

fn unchecked(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
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

fn crowded(rng: &mut fastrand::Rng, shape: &Shape) -> Step {
    let is_full = shape.volume_blocks + 2 >= shape.slots;
    let block = rng.usize(..if is_full { shape.volume_blocks } else { 2 });
    match rng.u8(..10) {
        0..=4 => write(block, Change::Whole(rng.u64(..))),
        5 | 6 => write(block, part(rng, shape.block_bytes)),
        7 => write_all(
            [0, 1]
                .map(|block| Item {
                    block,
                    change: Change::Whole(rng.u64(..)),
                })
                .to_vec(),
        ),
        8 => read(block),
        _ => Step::Checkpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_every_corner_as_often_as_it_says() {
        let counts = Focus::ROUND.map(|(focus, count)| {
            let seeds = 0..Focus::ROUND_SCENARIOS;
            (
                seeds.filter(|seed| Focus::of(*seed) == focus).count() as u64,
                count,
            )
        });
        assert!(
            counts.iter().all(|(found, said)| found == said),
            "{counts:?}"
        );
        let counts = Focus::DIRECTED.map(|(_, count)| count);
        assert_eq!(counts.iter().sum::<u64>(), Focus::DIRECTED_SCENARIOS);
    }

    #[test]
    fn the_same_seed_gives_the_same_script_in_every_corner() {
        for (focus, _) in Focus::ROUND.into_iter().chain(Focus::DIRECTED) {
            let drawn = || {
                let mut rng = fastrand::Rng::with_seed(7);
                let shape = focus.shape(&mut rng);
                let script = focus.script(&mut rng, &shape);
                format!("{shape:?} {script:?}")
            };
            assert_eq!(drawn(), drawn());
        }
    }
}
