//! What a round is about: blocks that were picked, and what came of them.

use forebay::{Error, Result};

use crate::shared::InFlight;

/// What a round is to do about a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// So many of the coldest blocks are to go, whatever they are.
    Coldest(usize),
    /// So many of the coldest clean blocks are to go.
    ColdestClean(usize),
    /// So many dirty blocks are to be clean, the coldest first.
    Clean(usize),
}

/// How a picked block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The disk had it before.
    Clean,
    /// The disk lacks it.
    Dirty,
    /// The disk has, durably, what it was when it was copied out.
    OnDisk,
}

impl Standing {
    /// Before the round has written anything.
    pub(crate) fn before(is_dirty: bool) -> Standing {
        match is_dirty {
            true => Standing::Dirty,
            false => Standing::Clean,
        }
    }
}

/// A block of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picked {
    /// Its number on the disk.
    pub(crate) block: u64,
    /// Where the engine has it.
    pub(crate) place: u32,
    /// Where its bytes lay in the region when it was picked.
    pub(crate) offset: u64,
    /// Of the pool's number the engine knows the meaning.
    pub(crate) pool: usize,
    /// It is to go.
    pub(crate) leaves: bool,
    pub(crate) standing: Standing,
}

/// Dirty blocks that a flush takes together, and where it goes on: none at the end.
pub(crate) struct Portion {
    pub(crate) picked: Vec<Picked>,
    pub(crate) next: Option<u64>,
}

impl Portion {
    /// Begins a round, and claims for it the first of dirty blocks with their positions, so many at most.
    pub(crate) fn claimed(
        dirty: Vec<(u64, Picked)>,
        blocks_max: usize,
        in_flight: &mut InFlight,
    ) -> Portion {
        in_flight.begin_round();
        let portion = Portion::first(dirty, blocks_max);
        for one in &portion.picked {
            in_flight.claim(one.block);
        }
        portion
    }

    /// Of dirty blocks with their positions the first, so many at most.
    fn first(mut dirty: Vec<(u64, Picked)>, blocks_max: usize) -> Portion {
        let position = |one: &(u64, Picked)| one.0;
        if dirty.len() > blocks_max {
            // What is behind them need not be in order.
            dirty.select_nth_unstable_by_key(blocks_max, position);
        }
        let next = dirty.get(blocks_max).map(position);
        dirty.truncate(blocks_max);
        Portion {
            picked: dirty.into_iter().map(|(_, picked)| picked).collect(),
            next,
        }
    }
}

/// Of picked blocks that were claimed: which have been given other bytes since, or another place.
pub(crate) fn have_changed(picked: &[Picked], in_flight: &InFlight) -> Vec<bool> {
    let changed = picked.iter().map(|one| in_flight.has_changed(one.block));
    changed.collect()
}

/// What came of picked blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Blocks that went, or are clean now.
    pub(crate) done: u64,
    /// Blocks that would be, if no thread had changed them.
    pub(crate) changed: u64,
}

/// What came of a round or of several, and their first error of the disk or of a block that could not be copied out.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) settled: Settled,
    pub(super) error: Option<Error>,
    /// The disk refused a write or a sync.
    pub(super) has_disk_failed: bool,
}

impl Outcome {
    /// Whether there is less to do now, or would be if no thread had changed anything.
    pub(super) fn has_progressed(&self) -> bool {
        self.settled.done + self.settled.changed > 0
    }

    /// The error.
    pub(super) fn into_result(self) -> Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    pub(super) fn note(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// Adds what came of the next round.
    pub(super) fn add(&mut self, next: Outcome) {
        self.settled.done += next.settled.done;
        self.settled.changed += next.settled.changed;
        self.has_disk_failed |= next.has_disk_failed;
        if let Some(error) = next.error {
            self.note(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_pass_every_block_once_in_order() {
        let picked = |block| Picked {
            block,
            place: 0,
            offset: 0,
            pool: 0,
            leaves: false,
            standing: Standing::Dirty,
        };
        let blocks = [7, 3, 9, 1, 5];
        let (mut from, mut passed) = (Some(0), Vec::new());
        while let Some(first) = from {
            let rest = blocks.iter().filter(|block| **block >= first);
            let portion = Portion::first(rest.map(|&block| (block, picked(block))).collect(), 2);
            assert!(portion.picked.len() <= 2);
            let mut numbers: Vec<u64> = portion.picked.iter().map(|one| one.block).collect();
            numbers.sort_unstable();
            passed.extend(numbers);
            from = portion.next;
        }
        assert_eq!(passed, [1, 3, 5, 7, 9]);
    }
}
