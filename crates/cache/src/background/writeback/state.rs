//! What the pipeline keeps between rounds, and what rounds work with.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use crate::background::journal::{DeferredBlocks, DeferredJournal};
use crate::backing::AlignedBuffer;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What the pipeline keeps between rounds.
pub(crate) struct WriteBack {
    /// Held while a round writes, and until it is retired but where rounds are long.
    pub(super) round_state: Mutex<RoundState>,
    /// Held while a round is synced and retired; taken by one that has the other lock.
    sync: Mutex<SyncState>,
    syncs_ended: AtomicU64,
    /// Writers that wait for space.
    pub(in crate::background) throttled_writers: AtomicUsize,
    /// Blocks that a backing is being given just now, for reports.
    writing_blocks: AtomicUsize,
    /// State of the journals.
    pub(in crate::background) journal: DeferredJournal,
    /// Whether a backing prefers long rounds.
    has_long_rounds: AtomicBool,
}

/// What is known of the rounds that were synced.
#[derive(Default)]
pub(super) struct SyncState {
    /// When the last one was retired.
    pub(super) ended_at: Option<Instant>,
}

impl WriteBack {
    /// Nothing was written back yet.
    pub(crate) fn new(defer_journal: bool) -> WriteBack {
        WriteBack {
            round_state: Mutex::default(),
            sync: Mutex::default(),
            syncs_ended: AtomicU64::new(0),
            throttled_writers: AtomicUsize::new(0),
            writing_blocks: AtomicUsize::new(0),
            journal: DeferredJournal::new(defer_journal),
            has_long_rounds: AtomicBool::new(false),
        }
    }

    /// A backing prefers long rounds.
    pub(crate) fn prefer_long_rounds(&self) {
        self.has_long_rounds.store(true, Ordering::Relaxed);
    }
    /// Whether one does; a round may then write while the one before is synced.
    pub(crate) fn has_long_rounds(&self) -> bool {
        self.has_long_rounds.load(Ordering::Relaxed)
    }
    /// Waits for a round that writes.
    pub(super) fn lock_round(&self) -> MutexGuard<'_, RoundState> {
        forebay_pmem::lock_or_yield(&self.round_state)
    }
    /// Waits for a round that is synced. The caller has the other lock.
    pub(super) fn lock_sync(&self) -> MutexGuard<'_, SyncState> {
        // Held across a sync, during which a checker may switch threads.
        forebay_pmem::lock_or_yield(&self.sync)
    }
    pub(super) fn note_writing(&self, blocks: usize) {
        self.writing_blocks.fetch_add(blocks, Ordering::Relaxed);
    }
    pub(super) fn note_written(&self, blocks: usize) {
        self.writing_blocks.fetch_sub(blocks, Ordering::Relaxed);
    }
    pub(super) fn note_synced(&self) {
        self.syncs_ended.fetch_add(1, Ordering::Relaxed);
    }
    /// How many syncs of rounds have ended.
    pub(super) fn syncs_ended(&self) -> u64 {
        self.syncs_ended.load(Ordering::Relaxed)
    }
    /// Writers that wait for space.
    pub(crate) fn throttled_writers(&self) -> u64 {
        self.throttled_writers.load(Ordering::Relaxed) as u64
    }
    /// Blocks that a backing is being given just now.
    pub(crate) fn writing_blocks(&self) -> u64 {
        self.writing_blocks.load(Ordering::Relaxed) as u64
    }
    /// The journals of the volumes.
    pub(crate) fn journal(&self) -> &DeferredJournal {
        &self.journal
    }
}

/// What rounds work with.
#[derive(Default)]
pub(crate) struct RoundState {
    /// Where blocks are copied to; made by the first round.
    pub(super) buffer: Option<AlignedBuffer>,
    /// Dirty entries off the queue, those of the next round last.
    pub(super) backlog: Vec<u32>,
    /// Journal blocks that are left for last.
    pub(super) deferred: DeferredBlocks,
}
