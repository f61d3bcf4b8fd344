//! What may be read: the states after each transaction, in the order in which they joined.
//!
//! Some were acknowledged as written and not as durable yet: readers and a kill see them, and a power cut leaves a prefix of them.

use super::disk::Bytes;
use super::rows::Rows;
use super::script::{BLOCKS, Change, VOLUMES};
use crate::content::noise;
use forebay_log::PAGE_BYTES;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The blocks of all volumes.
pub type Blocks = Vec<Bytes>;

/// Where a block is among those of all volumes.
pub fn place(volume: u32, block: u64) -> usize {
    (volume as usize - 1) * BLOCKS + block as usize
}

/// States, oldest first: before the first transaction that is not acknowledged, and after it and each that follows.
#[derive(Clone)]
pub struct Oracle {
    states: VecDeque<Blocks>,
    /// So many of the oldest transactions that are not durable are written.
    written: usize,
    /// What the volume table may say.
    pub rows: Rows,
    /// Blocks that a transaction zeroed, in this incarnation or an earlier one.
    zeroed: BTreeSet<usize>,
}

impl Oracle {
    /// Nothing is under way.
    pub fn new(blocks: Blocks, rows: Rows) -> Oracle {
        assert_eq!(blocks.len(), BLOCKS * VOLUMES as usize);
        Oracle {
            states: VecDeque::from([blocks]),
            written: 0,
            rows,
            zeroed: BTreeSet::new(),
        }
    }

    /// The same in the incarnation after that of another one.
    pub fn after(mut self, earlier: &Oracle) -> Oracle {
        self.zeroed = earlier.zeroed.clone();
        self
    }

    /// Whether a transaction ever zeroed the block.
    pub fn was_zeroed(&self, place: usize) -> bool {
        self.zeroed.contains(&place)
    }

    /// A transaction has joined.
    pub fn join(&mut self, changes: &[Change]) {
        let mut blocks = self.newest().clone();
        for change in changes {
            if let Change::Zero {
                volume,
                first,
                count,
            } = *change
            {
                let first = place(volume, first);
                self.zeroed.extend(first..first + count as usize);
            }
            apply(&mut blocks, change);
        }
        self.states.push_back(blocks);
    }

    /// The oldest one under way is acknowledged as written.
    pub fn note_written(&mut self) {
        self.written += 1;
        assert!(
            self.written < self.states.len(),
            "only what has joined is written"
        );
    }

    /// The oldest one that is not durable is acknowledged as durable.
    pub fn acknowledge(&mut self) {
        self.states.pop_front();
        self.written = self.written.saturating_sub(1);
        assert!(
            !self.states.is_empty(),
            "only what has joined is acknowledged"
        );
    }

    /// What readers see: everything acknowledged.
    pub fn published(&self) -> &Blocks {
        &self.states[self.written]
    }

    /// The state with everything that has joined.
    pub fn newest(&self) -> &Blocks {
        self.states.back().expect("there is one")
    }

    /// Somebody changes a block behind the pool's back, while nothing is under way.
    pub fn change(&mut self, place: usize, bytes: &Bytes) {
        for state in &mut self.states {
            state[place] = bytes.clone();
        }
    }

    /// Which of the states was found; the error names a block that is in none. What was only written is there if crashes `keep_written`.
    pub fn find(&self, found: &[Bytes], keep_written: bool) -> Result<Blocks, String> {
        let least = match keep_written {
            true => self.written,
            false => 0,
        };
        let mut legal = self.states.range(least..);
        if let Some(state) = legal.clone().find(|state| **state == found) {
            return Ok(state.clone());
        }
        let states = legal.len();
        let is_in_none =
            |(place, bytes): &(usize, &Bytes)| !legal.any(|state| state[*place] == **bytes);
        let wrong = found.iter().enumerate().find(is_in_none);
        Err(match wrong {
            Some((place, _)) => format!("block {place} is as in none of {states} states"),
            None => format!("the blocks are of different states, of {states}"),
        })
    }
}

fn apply(blocks: &mut Blocks, change: &Change) {
    match *change {
        Change::Whole {
            volume,
            block,
            seed,
        } => blocks[place(volume, block)] = Arc::new(noise(seed, PAGE_BYTES)),
        Change::Part {
            volume,
            block,
            offset,
            len,
            seed,
        } => {
            let old = &mut blocks[place(volume, block)];
            let mut bytes = old.to_vec();
            bytes[offset..offset + len].copy_from_slice(&noise(seed, len));
            *old = Arc::new(bytes);
        }
        Change::Append {
            volume,
            block,
            offset,
            len,
            seed,
        } => {
            let old = &mut blocks[place(volume, block)];
            let mut bytes = old[..offset].to_vec();
            bytes.extend(noise(seed, len));
            bytes.resize(PAGE_BYTES, 0);
            *old = Arc::new(bytes);
        }
        Change::Zero {
            volume,
            first,
            count,
        } => {
            let first = place(volume, first);
            blocks[first..first + count as usize].fill(Arc::new(vec![0; PAGE_BYTES]));
        }
    }
}
