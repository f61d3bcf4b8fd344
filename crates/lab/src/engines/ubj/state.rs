//! The buffer cache in DRAM: what every buffer is, where each block's newest version is, and the
//! committed transactions that wait for their checkpoint.

use std::collections::{HashMap, VecDeque};

use crate::EngineStats;
use crate::cleaner::Level;
use crate::shared::InFlight;
use forebay::unstable::replace::Links;

/// What a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// Nothing; its entry is durably free.
    Free,
    /// The block as the disk has it; its entry is durably free, so it may be overwritten.
    Clean { block: u64 },
    /// The block as a committed transaction left it, newer than the disk's.
    Frozen { block: u64 },
    /// The block as a committed transaction left it, before a later one wrote it again.
    OutOfDate,
}

/// The buffers that one committed transaction froze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub(super) slots: Vec<u32>,
}

/// All of it. Every buffer but the free ones is in the LRU list; those that are frozen or out of date
/// are each in one transaction.
pub(super) struct State {
    /// Of the last committed transaction.
    pub(super) sequence: u64,
    buffers: Vec<Buffer>,
    /// Where the newest version of a block is.
    places: HashMap<u64, u32>,
    /// The lowest one last, so that transactions get neighbours.
    free: Vec<u32>,
    /// The oldest one first.
    transactions: VecDeque<Committed>,
    /// Transactions that have been checkpointed since the engine was opened.
    pub(super) unfrozen: u64,
    lru: Links,
    frozen_blocks: u64,
    clean_blocks: u64,
    /// Reads of the disk.
    pub(super) in_flight: InFlight,
    /// How many of the oldest transactions the round in progress checkpoints.
    pub(super) under_checkpoint: usize,
    /// The counts that the engine keeps itself; the rest is filled in when asked for.
    pub(super) stats: EngineStats,
}

impl State {
    /// An empty cache.
    pub(super) fn new(slots: u32) -> State {
        State {
            sequence: 0,
            buffers: vec![Buffer::Free; slots as usize],
            places: HashMap::new(),
            free: (0..slots).rev().collect(),
            transactions: VecDeque::new(),
            unfrozen: 0,
            lru: Links::new(slots as usize),
            frozen_blocks: 0,
            clean_blocks: 0,
            in_flight: InFlight::default(),
            under_checkpoint: 0,
            stats: EngineStats {
                slots: u64::from(slots),
                ..EngineStats::default()
            },
        }
    }

    pub(super) fn buffer(&self, slot: u32) -> Buffer {
        self.buffers[slot as usize]
    }

    /// Where a block's newest version is.
    pub(super) fn place_of(&self, block: u64) -> Option<u32> {
        self.places.get(&block).copied()
    }

    pub(super) fn free_slots(&self) -> usize {
        self.free.len()
    }

    pub(super) fn cached_blocks(&self) -> u64 {
        self.places.len() as u64
    }

    pub(super) fn frozen_blocks(&self) -> u64 {
        self.frozen_blocks
    }

    /// How the buffers stand. Those that are out of date need a checkpoint, too.
    pub(super) fn level(&self) -> Level {
        let (slots, free) = (self.buffers.len() as u64, self.free.len() as u64);
        Level {
            slots,
            free,
            dirty: slots - free - self.clean_blocks,
            free_least: 1,
        }
    }

    /// Whether any buffer is clean.
    pub(super) fn has_clean(&self) -> bool {
        self.clean_blocks > 0
    }

    /// Buffers in use, the one that was used longest ago first.
    pub(super) fn coldest(&self) -> impl Iterator<Item = u32> + '_ {
        self.lru.oldest_first()
    }

    pub(super) fn transactions(&self) -> impl Iterator<Item = &Committed> {
        self.transactions.iter()
    }

    /// The buffer that was used longest ago.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.lru.oldest_first().next()
    }

    /// Notes that a buffer was used.
    pub(super) fn touch(&mut self, slot: u32) {
        debug_assert_ne!(self.buffer(slot), Buffer::Free);
        self.lru.touch(slot);
    }

    /// Takes a free buffer, which the caller gives content.
    pub(super) fn take_free(&mut self) -> u32 {
        self.free.pop().expect("room was made before")
    }

    /// Forgets a clean block, whose buffer the caller overwrites.
    pub(super) fn take_clean(&mut self, slot: u32) {
        let Buffer::Clean { block } = self.buffer(slot) else {
            panic!("only a clean buffer may be overwritten");
        };
        self.places.remove(&block);
        self.lru.remove(slot);
        self.buffers[slot as usize] = Buffer::Free;
        self.clean_blocks -= 1;
    }

    /// Forgets a clean block and frees its buffer.
    pub(super) fn evict(&mut self, slot: u32) {
        self.take_clean(slot);
        self.free.push(slot);
        self.stats.evictions += 1;
    }

    /// A taken buffer now holds a block as the disk has it.
    pub(super) fn fill(&mut self, slot: u32, block: u64) {
        assert!(self.places.insert(block, slot).is_none(), "a miss");
        self.buffers[slot as usize] = Buffer::Clean { block };
        self.clean_blocks += 1;
        self.lru.touch(slot);
    }

    /// A transaction is committed: it froze these blocks in these taken buffers.
    pub(super) fn freeze(&mut self, sequence: u64, frozen: impl Iterator<Item = (u64, u32)>) {
        assert!(sequence > self.sequence, "sequences only rise");
        self.sequence = sequence;
        let mut slots = Vec::new();
        for (block, slot) in frozen {
            assert_eq!(self.buffer(slot), Buffer::Free, "the buffer was taken");
            match self.places.insert(block, slot) {
                Some(older) => {
                    assert_eq!(
                        self.buffer(older),
                        Buffer::Frozen { block },
                        "or overwritten"
                    );
                    self.buffers[older as usize] = Buffer::OutOfDate;
                }
                None => self.frozen_blocks += 1,
            }
            self.buffers[slot as usize] = Buffer::Frozen { block };
            self.lru.touch(slot);
            slots.push(slot);
        }
        self.transactions.push_back(Committed { slots });
    }

    /// The oldest transaction is checkpointed, and its entries are durably free: its blocks are
    /// clean, and what was out of date is gone.
    pub(super) fn unfreeze_oldest(&mut self) {
        let transaction = self.transactions.pop_front();
        self.unfrozen += 1;
        for slot in transaction.expect("a transaction waits").slots {
            match self.buffer(slot) {
                Buffer::Frozen { block } => {
                    assert_eq!(self.place_of(block), Some(slot), "the newest version");
                    self.buffers[slot as usize] = Buffer::Clean { block };
                    self.frozen_blocks -= 1;
                    self.clean_blocks += 1;
                }
                Buffer::OutOfDate => {
                    self.buffers[slot as usize] = Buffer::Free;
                    self.lru.remove(slot);
                    self.free.push(slot);
                }
                other => panic!("a transaction waits with a buffer that is {other:?}"),
            }
        }
    }

    /// Takes a buffer out of the free ones, wherever it stands: recovery found it used.
    pub(super) fn retain_free(&mut self, mut is_free: impl FnMut(u32) -> bool) {
        self.free.retain(|&slot| is_free(slot));
    }
}
