//! What actors do with a pool, drawn from a seed.

use crate::scenario::{Change, Item, Script, Shape, Step};

/// A script drawn from `rng`: writers, and one actor that mostly keeps house.
pub fn random_script(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let actors = rng.usize(1..=3);
    let steps = [3, 6, 12, 24][rng.usize(..4)];
    // Few hot blocks, so that actors meet.
    let hot = rng.usize(1..=shape.volume_blocks);
    let flavour = Flavour::random(rng);
    let chores = Chores::random(rng, shape, actors == 1);
    // One keeps house, or all of them do, so that what takes long meets all else.
    let keeper = (actors > 1 && rng.bool()).then_some(actors - 1);
    let share = if keeper.is_some() {
        1
    } else {
        [1, 2, 4][rng.usize(..3)]
    };
    (0..actors)
        .map(|actor| {
            let share = if keeper == Some(actor) { 7 } else { share };
            (0..rng.usize(1..=steps))
                .map(|_| {
                    if rng.u8(..8) < share {
                        chores.step(rng, shape)
                    } else {
                        work(rng, shape, hot, &flavour)
                    }
                })
                .collect()
        })
        .collect()
}

/// What writers do.
struct Flavour {
    /// How likely each change is, out of their sum.
    changes: [u8; 6],
    /// Chances in 24 of a read.
    reads: u8,
}

impl Flavour {
    fn random(rng: &mut fastrand::Rng) -> Flavour {
        let changes = match rng.u8(..8) {
            0 => [1, 0, 0, 0, 0, 0],
            1 => [2, 2, 8, 0, 1, 0],
            2 => [1, 1, 1, 8, 1, 0],
            3 => [4, 0, 0, 0, 4, 0],
            4 => [2, 4, 4, 0, 0, 0],
            5 => [1, 1, 1, 0, 0, 8],
            6 => [2, 3, 3, 0, 1, 6],
            _ => [6, 2, 3, 3, 2, 4],
        };
        Flavour {
            changes,
            reads: [1, 3, 10][rng.usize(..3)],
        }
    }

    fn change(&self, rng: &mut fastrand::Rng, block_bytes: usize) -> Change {
        let seed = rng.u64(..);
        match draw(rng, &self.changes) {
            0 => Change::Whole(seed),
            1 => Change::Similar(seed),
            2 => {
                let offset = rng.usize(..block_bytes);
                let len = rng.usize(1..=(block_bytes - offset).min(40));
                Change::Part { offset, len, seed }
            }
            3 => Change::Append {
                len: rng.usize(1..=block_bytes / 3),
                seed,
            },
            4 => Change::Discard,
            _ => Change::Known(seed),
        }
    }
}

fn work(rng: &mut fastrand::Rng, shape: &Shape, hot: usize, flavour: &Flavour) -> Step {
    let volume = rng.usize(..shape.volumes);
    let block = |rng: &mut fastrand::Rng| {
        if rng.u8(..4) > 0 {
            rng.usize(..hot)
        } else {
            rng.usize(..shape.volume_blocks)
        }
    };
    match rng.u8(..24) {
        roll if roll < flavour.reads => {
            return Step::Read {
                volume,
                block: block(rng),
            };
        }
        21 if rng.bool() => {
            return Step::AppendWord {
                volume,
                block: block(rng),
                len: rng.usize(1..=shape.block_bytes / 3),
                word_at: rng.usize(..=(shape.volume_bytes() - 8) / 8) * 8,
                seed: rng.u64(..),
            };
        }
        kind @ 22..=23 => {
            let block = block(rng);
            let count = rng.usize(1..=2).min(shape.volume_blocks - block);
            return match kind {
                22 => Step::ReadAtomic {
                    volume,
                    block,
                    count,
                },
                // Every sector is an operation of its own to the oracle.
                _ if count * shape.block_bytes <= 4 * shape.sector_bytes() => Step::DiscardRange {
                    volume,
                    block,
                    count,
                },
                _ => Step::Read { volume, block },
            };
        }
        _ => {}
    }
    let count = [1, 1, 1, 2, 2, 3][rng.usize(..6)].min((shape.slots / 8).max(1));
    let items = (0..count)
        .map(|_| Item {
            block: block(rng),
            change: flavour.change(rng, shape.block_bytes),
        })
        .collect();
    Step::Transaction {
        volume,
        items,
        abort: rng.u8(..24) == 0,
    }
}

/// What the maintenance actors do.
struct Chores {
    /// How likely each chore is, out of their sum.
    weights: [u8; CHORES],
}

/// Kinds of chores.
const CHORES: usize = 11;

impl Chores {
    fn random(rng: &mut fastrand::Rng, shape: &Shape, is_alone: bool) -> Chores {
        let mut weights = match rng.u8(..8) {
            // Volumes come, go and grow, and are drained.
            0 | 1 => [8, 6, 2, 6, 8, 6, 1, 2, 0, 2, 4],
            // Backings fail.
            2 => [12, 4, 2, 4, 2, 4, 1, 10, 0, 1, 6],
            // A fence fails.
            3 => [8, 6, 4, 3, 5, 2, 1, 1, 4, 1, 4],
            _ => [32, 24, 20, 8, 1, 10, 1, 8, 1, 8, 24],
        };
        if shape.first_blocks == shape.volume_blocks {
            weights[5] = 0;
        }
        if !is_alone {
            weights[9] = 0;
        }
        Chores { weights }
    }

    fn step(&self, rng: &mut fastrand::Rng, shape: &Shape) -> Step {
        let volume = rng.usize(..shape.volumes);
        match draw(rng, &self.weights) {
            0 => Step::WriteBack,
            1 => Step::Reclaim(rng.usize(1..4)),
            2 => Step::Checkpoint,
            3 => Step::Flush(volume),
            4 => Step::Detach(volume),
            // Only the first time does something.
            5 => Step::GrowVolume(volume),
            6 => Step::SwitchReplacement,
            7 => Step::FailStore {
                volume,
                writes: rng.u32(..2),
                syncs: rng.u32(..3),
            },
            8 => Step::FailFence {
                after: rng.u32(..6),
            },
            9 => Step::Forget {
                volume,
                block: rng.usize(..shape.volume_blocks),
            },
            _ => Step::Background(rng.u8(..3)),
        }
    }
}

/// The number of a weight, as likely as it says.
fn draw(rng: &mut fastrand::Rng, weights: &[u8]) -> usize {
    let sum: u8 = weights.iter().sum();
    let mut roll = rng.u8(..sum);
    let drawn = weights.iter().position(|&weight| {
        let here = roll < weight;
        roll = roll.saturating_sub(weight);
        here
    });
    drawn.expect("a roll is less than the sum")
}
