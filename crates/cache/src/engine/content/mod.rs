//! Less than a block: what a whole-block write need not store.
//!
//! A block whose bytes the pool holds already shares their slot (the "role switch" of Tinca §4.4
//! and Spindle §3.3, by content instead of by knowing the journal); one that is zero for the most
//! part, or differs little from another block, is stored packed; one that differs little from what
//! is cached of it changes in place. Nothing is trusted but the bytes: the tables here only say where
//! to look.

mod reduce;

use crate::engine::Engine;
use crate::options::RuntimeOptions;
use crate::sync::{AtomicBool, Ordering};

use crate::policy::candidates::{Candidates, Sketch};
use crate::policy::predictor::{Predictor, Sought};

pub(crate) use reduce::{Finding, Reduced};

/// Where probes do not pay, one block in this many is remembered: a store to a random line is not free.
const NOTED_PERIOD: u32 = 8;

/// What the pool knows of its blocks' content, in DRAM.
pub(crate) struct Content {
    candidates: Candidates,
    predictor: Predictor,
    /// The bits of a CRC that count when equal blocks are looked for: all, but for tests.
    duplicate_mask: u32,
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

    /// Whether a block with this CRC is remembered: each while probes pay, otherwise a few. Which ones
    /// depends on their content, so that a probe of any of those finds its duplicate.
    #[inline]
    fn is_noted(&self, crc: u32) -> bool {
        self.is_on()
            && (crc.is_multiple_of(NOTED_PERIOD) || self.predictor.has_credit(Sought::Duplicates))
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

impl Engine {
    /// Remembers where a block is that was just published, for others like it.
    #[inline]
    pub(crate) fn note_block(&self, crc: u32, index: u32, sketch: Option<Sketch>) {
        if self.media().has_checksums() && self.content.is_noted(crc) {
            let content = &self.content;
            content
                .candidates
                .note_duplicate(crc & content.duplicate_mask, index);
        }
        if let Some(sketch) = sketch {
            self.content.candidates.note_similar(sketch, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Pool, PoolOptions, Region};

    #[test]
    fn the_holders_of_slots_were_counted_in_a_second_table() {
        let mut options = PoolOptions::default();
        options.format.block_bytes = 128;
        options.format.unit_bytes = 256;
        options.runtime.background = false;
        let pool = Pool::create_on(vec![Region::shadow(1 << 20)], &options).expect("create");
        let engine = pool.pipeline().engine();
        let tables =
            engine.content.candidates.dram_bytes() + engine.table.references().dram_bytes();
        assert_eq!(pool.stats().content_dram_bytes, tables);
    }
}
