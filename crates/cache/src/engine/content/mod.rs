//! Less than a block: what a whole-block write need not store.
//!
//! A block whose bytes the pool holds already shares their slot (the "role switch" of Tinca §4.4
//! and Spindle §3.3, by content instead of by knowing the journal); one that is zero for the most
//! part, or differs little from another block, is stored packed; one that differs little from what
//! is cached of it changes in place. Nothing is trusted but the bytes: the tables here only say where
//! to look.

mod reduce;
mod tables;

use crate::engine::Engine;
use crate::policy::candidates::Sketch;
use tables::NOTED_PERIOD;

pub(crate) use reduce::{Finding, ProbeResult, Reduced};
pub(crate) use tables::Content;

impl Engine {
    /// Remembers where a block is that was just published, for others like it: each while probes for
    /// duplicates pay, otherwise a few. Which ones depends on their content, so that a probe of any of those
    /// finds its duplicate.
    #[inline(always)]
    pub(crate) fn note_block(
        &self,
        crc: u32,
        index: u32,
        sketch: Option<Sketch>,
        finds_duplicates: bool,
    ) {
        let content = &self.content;
        let is_noted = finds_duplicates || crc.is_multiple_of(NOTED_PERIOD);
        if is_noted && self.media().has_checksums() && content.is_on() {
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
        let engine = pool.memory().expect("in memory").pipeline().engine();
        let tables =
            engine.content.candidates.dram_bytes() + engine.table.references().dram_bytes();
        assert_eq!(pool.stats().content_dram_bytes, tables);
    }
}
