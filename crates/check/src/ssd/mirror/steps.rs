//! What is done, drawn from a seed.

use super::super::script::{BLOCKS, Change, VOLUMES, fault};
use forebay_log::PAGE_BYTES;
use forebay_log::shadow::Fault;

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    Commit(Vec<Change>),
    CommitUnsynced(Vec<Change>),
    Sync,
    Read(u32, u64),
    WriteBack(u32),
    Recycle,
    /// A row of the volume table is written.
    Row(u32, u64),
    /// After so many writes one of this member fails so; it may be dead then.
    Fail(usize, u64, Fault, bool),
    /// The page of a block rots on a member, is read, and repaired.
    Rot(usize, u32, u64),
    /// The member that is out is replaced, by a blank one or by what it was; everything is closed before, or killed.
    Readd {
        is_blank: bool,
        is_closed: bool,
    },
}

/// What all incarnations have in common.
#[derive(Clone, Debug)]
pub struct Story {
    /// Bytes that a crash never tears.
    pub unit: usize,
    pub segment_pages: u32,
    pub segments: u32,
    weights: [u32; 10],
    steps_max: usize,
}

impl Story {
    pub fn draw(rng: &mut fastrand::Rng) -> Story {
        let weights = match rng.u8(..4) {
            // Members die and are replaced.
            0 => [8, 4, 3, 2, 1, 2, 1, 6, 0, 6],
            // Rings lap, and pages rot.
            1 => [20, 6, 2, 3, 2, 8, 0, 1, 5, 1],
            // Groups that are only written.
            2 => [3, 14, 3, 1, 1, 1, 1, 1, 0, 1],
            _ => [8, 4, 2, 3, 2, 3, 2, 2, 1, 2],
        };
        Story {
            unit: [512, PAGE_BYTES][rng.usize(..2)],
            segment_pages: [16, 16, 20][rng.usize(..3)],
            segments: rng.u32(8..=9),
            weights,
            steps_max: [6, 20, 50][rng.usize(..3)],
        }
    }

    /// Steps of an incarnation.
    pub fn steps(&self, rng: &mut fastrand::Rng) -> Vec<Step> {
        let count = rng.usize(1..self.steps_max);
        (0..count).map(|_| self.step(rng)).collect()
    }

    fn step(&self, rng: &mut fastrand::Rng) -> Step {
        let mut pick = rng.u32(..self.weights.iter().sum::<u32>());
        let mut kind = 0;
        while pick >= self.weights[kind] {
            pick -= self.weights[kind];
            kind += 1;
        }
        let (volume, block) = (rng.u32(1..=VOLUMES), rng.u64(..BLOCKS as u64));
        match kind {
            0 => Step::Commit(changes(rng)),
            1 => Step::CommitUnsynced(changes(rng)),
            2 => Step::Sync,
            3 => Step::Read(volume, block),
            4 => Step::WriteBack(volume),
            5 => Step::Recycle,
            6 => Step::Row(volume, rng.u64(1..1 << 40)),
            7 => Step::Fail(rng.usize(..2), rng.u64(..4), fault(rng), rng.bool()),
            8 => Step::Rot(rng.usize(..2), volume, block),
            _ => Step::Readd {
                is_blank: rng.bool(),
                is_closed: rng.bool(),
            },
        }
    }
}

fn changes(rng: &mut fastrand::Rng) -> Vec<Change> {
    (0..rng.usize(1..=3)).map(|_| change(rng)).collect()
}

fn change(rng: &mut fastrand::Rng) -> Change {
    let (volume, block, seed) = (rng.u32(1..=VOLUMES), rng.u64(..BLOCKS as u64), rng.u64(..));
    match rng.u8(..8) {
        0 => Change::Zero {
            volume,
            first: block,
            count: rng.u64(1..=BLOCKS as u64 - block),
        },
        _ => Change::Whole {
            volume,
            block,
            seed,
        },
    }
}
