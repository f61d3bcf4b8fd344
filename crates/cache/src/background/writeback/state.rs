//! What the pipeline keeps between rounds, and what rounds work with.

use std::sync::Mutex;

use crate::background::journal::{DeferredBlocks, DeferredJournal};
use crate::backing::AlignedBuffer;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// What the pipeline keeps between rounds.
pub(crate) struct WriteBack {
    /// Held throughout a round.
    pub(super) round_state: Mutex<RoundState>,
    /// Writers that wait for space.
    pub(in crate::background) throttled_writers: AtomicUsize,
    /// Blocks that a backing is being given just now, for reports.
    pub(super) writing_blocks: AtomicUsize,
    /// State of the journals.
    pub(in crate::background) journal: DeferredJournal,
    /// Whether a backing prefers long rounds.
    pub(super) has_long_rounds: AtomicBool,
}

impl WriteBack {
    /// Nothing was written back yet.
    pub(crate) fn new(defer_journal: bool) -> WriteBack {
        WriteBack {
            round_state: Mutex::default(),
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
