//! What the engine knows of its blocks' content.

use crate::options::RuntimeOptions;
use crate::policy::candidates::Candidates;
use crate::policy::predictor::{Predictor, Sought};
use crate::sync::{AtomicBool, Ordering};

/// Where probes do not pay, one block in this many is remembered: a store to a random line is not free.
pub(super) const NOTED_PERIOD: u32 = 8;

/// What the pool knows of its blocks' content, in DRAM.
pub(crate) struct Content {
    pub(super) candidates: Candidates,
    pub(super) predictor: Predictor,
    /// The bits of a CRC that count when equal blocks are looked for: all, but for tests.
    pub(super) duplicate_mask: u32,
    share_duplicates: AtomicBool,
    compare_writes: AtomicBool,
}

impl Content {
    pub(crate) fn new(slots: u32, options: &RuntimeOptions) -> Content {
        Content {
            candidates: Candidates::new(slots),
            predictor: Predictor::new(options.always_compare),
            duplicate_mask: crate::repeatable::duplicate_mask(),
            share_duplicates: AtomicBool::new(options.share_duplicates),
            compare_writes: AtomicBool::new(options.compare_writes),
        }
    }

    /// Prefetches the tables that will note a block with this CRC.
    #[inline]
    pub(crate) fn prefetch(&self, crc: u32) {
        if crc.is_multiple_of(NOTED_PERIOD) && self.is_on() {
            self.candidates.prefetch_duplicate(crc);
        }
    }

    /// Whether probes for duplicates have paid lately.
    #[inline]
    pub(crate) fn finds_duplicates(&self) -> bool {
        self.predictor.has_credit(Sought::Duplicates)
    }

    /// Whether whole blocks are probed before they are written.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.shares_duplicates() || self.compares_writes()
    }
    #[inline]
    pub(crate) fn shares_duplicates(&self) -> bool {
        self.share_duplicates.load(Ordering::Relaxed)
    }
    #[inline]
    pub(crate) fn compares_writes(&self) -> bool {
        self.compare_writes.load(Ordering::Relaxed)
    }
    /// Whether blocks lately differed little from what was cached of them.
    #[inline]
    pub(crate) fn expects_changes(&self) -> bool {
        self.compares_writes() && self.predictor.has_credit(Sought::Changes)
    }
    pub(crate) fn set_share_duplicates(&self, on: bool) {
        self.share_duplicates.store(on, Ordering::Relaxed);
    }
    pub(crate) fn set_compare_writes(&self, on: bool) {
        self.compare_writes.store(on, Ordering::Relaxed);
    }

    /// Bytes of DRAM.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.candidates.dram_bytes()
    }
}
