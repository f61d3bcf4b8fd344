//! What the cleaner does to a UBJ: it checkpoints the oldest transactions, several at a time, and evicts clean blocks.
//!
//! C1 and C2 of [`checkpoint`](super::checkpoint) hold here as they do there. A block that is written again while its
//! older version is on its way to the disk leaves that one out of date: its entry goes with its transaction, and
//! the newer version's stays. Buffers of transactions are freed by rounds alone, so what a round copies out does
//! not change.

use std::collections::HashSet;
use std::ops::Range;

use forebay::{Region, Result};

use super::Ubj;
use super::state::{Buffer, State};
use crate::cleaner::{Cleanable, Cleaner, Goal, Level, Picked, Portion, Settled, Standing};
use crate::mutants::{Mutant, mutated};
use crate::shared::{Disk, ReadThrough, check_alive};

impl State {
    /// Buffers that are to go, and how many of the oldest transactions are checkpointed for a goal.
    fn candidates(&self, goal: Goal) -> (HashSet<u32>, usize) {
        let is_clean = |slot: &u32| matches!(self.buffer(*slot), Buffer::Clean { .. });
        match goal {
            Goal::Coldest(buffers) => {
                let leaving: HashSet<u32> = self.coldest().take(buffers).collect();
                let transactions = self.transactions_of(&leaving);
                (leaving, transactions)
            }
            Goal::ColdestClean(_) if !self.has_clean() => (HashSet::new(), 0),
            Goal::ColdestClean(buffers) => {
                let clean = self.coldest().filter(is_clean);
                (clean.take(buffers).collect(), 0)
            }
            Goal::Clean(buffers) => {
                let mut rest = buffers;
                let oldest = self.transactions().take_while(|transaction| {
                    let is_needed = rest > 0;
                    rest = rest.saturating_sub(transaction.slots.len());
                    is_needed
                });
                (HashSet::new(), oldest.count())
            }
        }
    }

    /// How many of the oldest transactions have among them all of these buffers that are in any.
    fn transactions_of(&self, buffers: &HashSet<u32>) -> usize {
        let is_clean = |slot: &&u32| matches!(self.buffer(**slot), Buffer::Clean { .. });
        let mut rest = buffers.len() - buffers.iter().filter(is_clean).count();
        let oldest = self.transactions().take_while(|transaction| {
            let is_needed = rest > 0;
            let slots = transaction.slots.iter();
            rest -= slots.filter(|slot| buffers.contains(slot)).count();
            is_needed
        });
        oldest.count()
    }

    /// The block that a buffer holds, and how that stands; of what is out of date it does not matter.
    fn standing(&self, slot: u32) -> (u64, Standing) {
        match self.buffer(slot) {
            Buffer::Frozen { block } => (block, Standing::Dirty),
            Buffer::Clean { block } => (block, Standing::Clean),
            Buffer::OutOfDate | Buffer::Free => (0, Standing::Clean),
        }
    }
}

impl Ubj {
    fn picked(&self, state: &State, (pool, place): (usize, u32), leaves: bool) -> Picked {
        let (block, standing) = state.standing(place);
        Picked {
            block,
            place,
            offset: self.layout.buffer(place),
            pool,
            leaves,
            standing,
        }
    }
}

impl Cleanable for Ubj {
    const REWRITE_IGNORED: Mutant = Mutant::UbjCleanerIgnoresRewrite;
    const CLEAN_BEFORE_SYNC: Mutant = Mutant::UbjCleanerBeforeSync;

    fn cleaner(&self) -> &Cleaner {
        self.cleaner.as_ref().expect("it has one")
    }

    fn disk(&self) -> &Disk {
        &self.disk
    }

    fn levels(&self) -> Vec<Level> {
        vec![self.lock().level()]
    }

    fn region(&self) -> &Region {
        &self.region
    }

    fn pick(&self, goals: &[(usize, Goal)]) -> Vec<Picked> {
        let mut state = self.lock();
        let &[(pool, goal)] = goals else {
            assert!(goals.is_empty(), "there is one pool");
            return Vec::new();
        };
        let (leaving, transactions) = state.candidates(goal);
        state.under_checkpoint = transactions;
        let oldest = state.transactions().take(transactions);
        let mut slots: HashSet<u32> = oldest
            .flat_map(|committed| &committed.slots)
            .copied()
            .collect();
        slots.extend(&leaving);
        let picked = slots.into_iter();
        let picked = picked.map(|slot| self.picked(&state, (pool, slot), leaving.contains(&slot)));
        picked.collect()
    }

    /// The transactions, in the order of their commits.
    fn dirty_positions(&self) -> Range<u64> {
        let state = self.lock();
        state.unfrozen..state.unfrozen + state.transactions().count() as u64
    }

    /// Transactions that have so many buffers among them, or one that has more. Those before them are checkpointed, or cannot be,
    /// and then none of these can either, though the disk gets them.
    fn pick_dirty(&self, positions: Range<u64>, blocks_max: usize) -> Portion {
        let mut state = self.lock();
        let first = positions.start.max(state.unfrozen);
        let waiting = (first..positions.end)
            .zip(state.transactions().skip((first - state.unfrozen) as usize));
        let (mut slots, mut next) = (Vec::new(), None);
        for (position, committed) in waiting {
            if !slots.is_empty() && slots.len() + committed.slots.len() > blocks_max {
                next = Some(position);
                break;
            }
            slots.extend(&committed.slots);
        }
        let end = next.unwrap_or(positions.end).max(first);
        let picked = slots.into_iter();
        let picked = picked.map(|slot| self.picked(&state, (0, slot), false));
        let picked = picked.collect();
        state.under_checkpoint = (end - state.unfrozen) as usize;
        Portion { picked, next }
    }

    /// None has: buffers of transactions are freed by rounds alone.
    fn have_changed(&self, picked: &[Picked]) -> Vec<bool> {
        vec![false; picked.len()]
    }

    fn copy_newest(&self, picked: &Picked, out: &mut [u8]) -> Result<()> {
        self.read_frozen(picked.place, picked.block, out)
    }

    fn settle(&self, picked: &[Picked]) -> Result<Settled> {
        let mut state = self.lock();
        check_alive(&self.region)?;
        let on_disk = picked.iter().filter(|one| one.standing == Standing::OnDisk);
        let on_disk: HashSet<u32> = on_disk.map(|one| one.place).collect();
        let under_checkpoint = std::mem::take(&mut state.under_checkpoint);
        let is_passed = |slot: &u32| match state.buffer(*slot) {
            Buffer::OutOfDate => true,
            _ => on_disk.contains(slot),
        };
        let oldest = state.transactions().take(under_checkpoint);
        let passed = oldest.take_while(|committed| committed.slots.iter().all(is_passed));
        let transactions = passed.count();
        let slots = state.transactions().take(transactions);
        let slots = slots.flat_map(|committed| &committed.slots);
        let (out_of_date, mut frozen): (Vec<u32>, Vec<u32>) =
            slots.partition(|&&slot| state.buffer(slot) == Buffer::OutOfDate);
        let mut settled = Settled {
            done: (out_of_date.len() + frozen.len()) as u64,
            changed: 0,
        };
        if mutated(Self::REWRITE_IGNORED) {
            let rewritten = picked.iter().filter(|one| out_of_date.contains(&one.place));
            frozen.extend(rewritten.filter_map(|one| state.place_of(one.block)));
        }
        if !out_of_date.is_empty() {
            // C2: durable before the entries of the versions that made them out of date go.
            self.free_entries(&out_of_date)?;
        }
        if !frozen.is_empty() {
            // C1: the disk has them durably.
            self.free_entries(&frozen)?;
        }
        for _ in 0..transactions {
            state.unfreeze_oldest();
        }
        for one in picked.iter().filter(|one| one.leaves) {
            if state.buffer(one.place) == (Buffer::Clean { block: one.block }) {
                state.evict(one.place);
                settled.done += 1;
            }
        }
        Ok(settled)
    }
}
