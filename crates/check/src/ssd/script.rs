//! What is done, drawn from a seed.

use forebay_log::shadow::Fault;
use forebay_log::{Log, PAGE_BYTES, Transaction};

/// Volumes.
pub const VOLUMES: u32 = 2;
/// Blocks of each.
pub const BLOCKS: usize = 8;

/// The story of a ring that is full of what its disks do not take.
const FULL_OF_DIRTY: u8 = 10;

/// Kinds of steps.
const KINDS: usize = 19;

/// A change of a transaction.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Whole {
        volume: u32,
        block: u64,
        seed: u64,
    },
    Part {
        volume: u32,
        block: u64,
        offset: usize,
        len: usize,
        seed: u64,
    },
    /// Behind it the block is zero.
    Append {
        volume: u32,
        block: u64,
        offset: usize,
        len: usize,
        seed: u64,
    },
    Zero {
        volume: u32,
        first: u64,
        count: u64,
    },
}

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// A transaction joins.
    Join(Vec<Change>),
    /// A group goes to the device.
    Submit,
    /// One of those under way comes back.
    Complete(usize),
    /// It comes back with an error.
    Fail(usize, Fault),
    /// A transaction from its beginning to its end, as a lone thread commits it.
    Commit(Vec<Change>),
    /// A transaction joins that is over when it is written.
    JoinUnsynced(Vec<Change>),
    /// The same from its beginning to its end.
    CommitUnsynced(Vec<Change>),
    /// What was only written is made durable.
    Sync,
    /// The flush that is to do that fails.
    SyncFails(Fault),
    /// A block is read.
    Read(u32, u64),
    /// A block is looked for, and read at the end of the next such step.
    ReadSlowly(u32, u64),
    /// A block that is missing is filled from its backing.
    Fill(u32, u64),
    /// A volume's write-back goes on, begun if none is under way.
    WriteBack(u32),
    /// Recycling goes on, begun if none is under way.
    Recycle,
    /// The pool lets go of a volume's blocks, and somebody else changes one.
    Forget(u32, u64, u64),
    /// Some blocks of the disks fail, or none.
    FailDisks(bool),
    /// The oldest segment that is not clean is cleaned, ahead of the tail.
    CleanAhead,
    /// A volume is detached, somebody else changes a block, and a new volume of its number gets the disk.
    Swap(u32, u64, u64),
    /// A volume's row gets another size, and another path.
    Grow(u32, u64),
    /// A piece of what is left of each volume's ranges of zeroes is zeroed.
    ZeroRest,
    /// A block that the pool does not have is written on its disk, while the pool is in use.
    WritePast(u32, u64, u64),
}

/// What all incarnations have in common.
#[derive(Clone, Debug)]
pub struct Script {
    /// Bytes that a crash never tears.
    pub unit: usize,
    /// Groups under way at once.
    pub depth: u32,
    pub segment_pages: u32,
    pub segments: u32,
    /// Blocks that a disk is to zero in one turn.
    pub zeroed_at_once: u64,
    /// Parts of blocks that may stand in records alone.
    pub patches_max: usize,
    /// How often what is done; the mix of a story.
    weights: [u32; KINDS],
    /// Segments are kept back, as in a pool that is served.
    is_served: bool,
    /// Disks fail from the beginning of each incarnation on.
    disks_fail: bool,
    /// Few blocks are written again and again.
    is_hot: bool,
    /// Some transactions are over when they are written.
    is_unsynced: bool,
    /// Most of what is written are parts of blocks.
    is_small: bool,
}

impl Script {
    /// A story's.
    pub fn draw(rng: &mut fastrand::Rng) -> Script {
        let story = rng.u8(..12);
        let mut weights = match story {
            // Much is carried forward, while its blocks are written again.
            0..=2 => [10, 6, 6, 0, 4, 4, 1, 1, 1, 16, 0, 2, 0, 0, 0, 1, 0, 0, 0],
            // Slow reads, during which the ring laps.
            3 => [4, 6, 6, 0, 16, 2, 1, 1, 2, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            4 => [1, 2, 2, 0, 40, 1, 1, 1, 2, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            // Writes fail.
            5 => [8, 8, 6, 2, 10, 1, 1, 1, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            // Volumes come and go.
            6 => [4, 4, 4, 0, 8, 4, 1, 1, 2, 4, 0, 0, 2, 6, 6, 1, 0, 0, 0],
            // Segments are cleaned ahead, of disks that fail now and then.
            7 => [4, 4, 4, 0, 12, 2, 1, 1, 1, 2, 0, 4, 10, 0, 1, 2, 0, 0, 0],
            // Flushes, between whose steps segments are cleaned and volumes come and go.
            8 => [1, 3, 3, 0, 16, 1, 0, 0, 6, 0, 1, 5, 16, 1, 0, 1, 0, 0, 0],
            // What the pool lets go of is written past it.
            9 => [2, 3, 3, 0, 14, 1, 0, 0, 6, 16, 0, 1, 2, 0, 0, 0, 8, 0, 0],
            // The ring is full of what disks do not take, and carried forward in steps between which it is killed.
            FULL_OF_DIRTY => [1, 2, 2, 0, 40, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            _ => mixed(rng),
        };
        // Not drawn from the same numbers, so that other stories are as they were; those of readers and full rings stay short.
        let mut aside = fastrand::Rng::with_seed(rng.clone().u64(..));
        let is_unsynced = !matches!(story, 3 | 4 | FULL_OF_DIRTY) && aside.u8(..3) == 0;
        if is_unsynced {
            weights[17] = weights.iter().sum::<u32>() / 16 + 1;
            // Where writes fail, flushes do.
            weights[18] = weights[3];
        }
        Script {
            unit: [512, PAGE_BYTES][rng.usize(..2)],
            depth: rng.u32(1..=2),
            segment_pages: [16, 16, 20, 32][rng.usize(..4)],
            segments: rng.u32(8..=9),
            weights,
            disks_fail: story == FULL_OF_DIRTY,
            is_hot: rng.bool(),
            is_unsynced,
            // What the pool lets go of are whole blocks.
            is_small: story != 9 && aside.u8(..3) == 0,
            patches_max: [0, 4, 6, 12, 64][aside.usize(..5)],
            zeroed_at_once: [1, 2, 3, BLOCKS as u64][rng.usize(..4)],
            is_served: rng.u8(..4) == 0,
        }
    }

    /// A pool as it is used from now on.
    pub fn serve(&self, log: Log) -> Log {
        if self.is_served {
            log.keep_back();
        }
        log
    }

    /// Steps of an incarnation.
    pub fn steps(&self, rng: &mut fastrand::Rng, number: usize) -> Vec<Step> {
        let most = [120, 40, 12, 60][number % 4];
        let count = rng.usize(1..most);
        let fails = self.disks_fail.then_some(Step::FailDisks(true));
        let steps = (0..count).map(|_| self.step(rng));
        fails.into_iter().chain(steps).collect()
    }

    fn step(&self, rng: &mut fastrand::Rng) -> Step {
        let mut pick = rng.u32(..self.weights.iter().sum::<u32>());
        let mut kind = 0;
        while pick >= self.weights[kind] {
            pick -= self.weights[kind];
            kind += 1;
        }
        let (volume, block) = (rng.u32(1..=VOLUMES), self.block(rng));
        match kind {
            0 if self.is_unsynced && rng.bool() => Step::JoinUnsynced(self.changes(rng)),
            0 => Step::Join(self.changes(rng)),
            1 => Step::Submit,
            2 => Step::Complete(rng.usize(..4)),
            3 => Step::Fail(rng.usize(..4), fault(rng)),
            4 if self.is_unsynced && rng.bool() => Step::CommitUnsynced(self.changes(rng)),
            4 => Step::Commit(self.changes(rng)),
            5 => Step::Read(volume, block),
            6 => Step::ReadSlowly(volume, block),
            7 => Step::Fill(volume, block),
            8 => Step::WriteBack(volume),
            9 => Step::Recycle,
            10 => Step::Forget(volume, block, rng.u64(..)),
            11 => Step::FailDisks(rng.bool()),
            12 => Step::CleanAhead,
            13 => Step::Swap(volume, block, rng.u64(..)),
            14 => Step::Grow(volume, rng.u64(1..1 << 40)),
            15 => Step::ZeroRest,
            16 => Step::WritePast(volume, block, rng.u64(..)),
            17 => Step::Sync,
            _ => Step::SyncFails(fault(rng)),
        }
    }

    fn block(&self, rng: &mut fastrand::Rng) -> u64 {
        match self.is_hot && rng.u8(..4) > 0 {
            true => rng.u64(..2),
            false => rng.u64(..BLOCKS as u64),
        }
    }

    fn changes(&self, rng: &mut fastrand::Rng) -> Vec<Change> {
        (0..rng.usize(1..=3)).map(|_| self.change(rng)).collect()
    }

    fn change(&self, rng: &mut fastrand::Rng) -> Change {
        let (volume, block, seed) = (rng.u32(1..=VOLUMES), self.block(rng), rng.u64(..));
        match rng.u8(..8) {
            0 => Change::Zero {
                volume,
                first: block,
                count: rng.u64(1..=BLOCKS as u64 - block),
            },
            kind if kind <= if self.is_small { 6 } else { 2 } => {
                let len = rng.usize(1..=300);
                let offset = rng.usize(..PAGE_BYTES - len);
                match seed % 8 {
                    // To an empty block, and behind something.
                    0 => Change::Append {
                        volume,
                        block,
                        offset: 0,
                        len,
                        seed,
                    },
                    1 => Change::Append {
                        volume,
                        block,
                        offset,
                        len,
                        seed,
                    },
                    _ => Change::Part {
                        volume,
                        block,
                        offset,
                        len,
                        seed,
                    },
                }
            }
            _ => Change::Whole {
                volume,
                block,
                seed,
            },
        }
    }
}

/// How something fails.
pub fn fault(rng: &mut fastrand::Rng) -> Fault {
    [
        Fault::Error,
        Fault::ErrorButDurable,
        Fault::Short,
        Fault::NoSpace,
    ][rng.usize(..4)]
}

/// Some of everything.
fn mixed(rng: &mut fastrand::Rng) -> [u32; KINDS] {
    let mut weights = [8, 8, 8, 0, 5, 2, 3, 2, 3, 4, 0, 0, 2, 0, 0, 1, 1, 0, 0];
    for weight in &mut weights {
        if rng.u8(..4) == 0 {
            *weight *= rng.u32(0..4);
        }
    }
    weights[3] = u32::from(rng.u8(..4) == 0);
    weights[10] = u32::from(rng.u8(..3) == 0);
    weights[11] = u32::from(rng.u8(..3) == 0);
    weights[13] = u32::from(rng.u8(..3) == 0);
    weights[14] = u32::from(rng.u8(..3) == 0);
    // Something is committed in any case.
    weights[4] += 1;
    weights
}

/// The transaction of these changes.
pub fn transaction(changes: &[Change]) -> Transaction {
    let mut transaction = Transaction::new();
    for change in changes {
        let put = match *change {
            Change::Whole {
                volume,
                block,
                seed,
            } => {
                let bytes = crate::content::noise(seed, PAGE_BYTES);
                transaction.write(volume, block, &bytes)
            }
            Change::Part {
                volume,
                block,
                offset,
                len,
                seed,
            } => {
                let bytes = crate::content::noise(seed, len);
                transaction.write_part(volume, block, offset, &bytes)
            }
            Change::Append {
                volume,
                block,
                offset,
                len,
                seed,
            } => {
                let bytes = crate::content::noise(seed, len);
                transaction.append(volume, block, offset, &bytes)
            }
            Change::Zero {
                volume,
                first,
                count,
            } => transaction.zero(volume, first, count),
        };
        put.expect("the script names what is there");
    }
    transaction
}
