//! The checkpoint: what the table holds durably, the log need not tell again.
//!
//! One S for all lanes: a lane that forgot earlier than another would let replay of an old record
//! bring back the past. The steps carry the numbers of `docs/commit-and-recovery.md`.

use std::collections::BTreeSet;

use crate::core::Core;
use crate::error::Result;
use crate::lanes::SlotLines;
use crate::layout::{CheckpointLine, LINE_BYTES};
use crate::mutants::{Mutant, mutated};
use crate::sync::Ordering;

impl Core {
    /// Makes everything published so far durable in place, then lets its log space go.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let mut state = forebay_pmem::lock_or_yield(&self.checkpoint);
        self.writable()?;
        // Steps 1 to 3: every record below `positions` has a sequence of at most `sequence`.
        let positions = self.lanes.published_positions();
        let sequence = self.lanes.settle(mutated(Mutant::CheckpointPassesInFlight));
        assert!(sequence >= state.sequence, "S only rises");
        if sequence == state.sequence {
            // Nothing was drawn since; whoever found a lane full raced with the last checkpoint.
            return Ok(());
        }
        if mutated(Mutant::LaneReusedBeforeCheckpoint) {
            self.lanes.advance_tails(&positions);
        }
        // Step 4.
        self.flush_touched();
        if !mutated(Mutant::CheckpointFenceRemoved) {
            // Orders table and in-place lines before the S that makes their records needless. A
            // crash before it leaves the old S and all records since.
            self.fence()?;
        }
        // Step 5. The older of two lines: a torn one leaves the other.
        let line = CheckpointLine {
            life: self.life,
            salt: self.salt.0,
            sequence,
            reserved: [0; 36],
            crc: 0,
        };
        let offset = self.media.geometry.checkpoint_line(state.next_line);
        self.media.main().store(offset, &line.encode());
        self.media.main().flush(offset, LINE_BYTES as usize);
        // Orders S before any reuse of the bytes that it frees.
        self.fence()?;
        state.next_line ^= 1;
        state.sequence = sequence;
        state.count += 1;
        // Step 6.
        self.lanes.advance_tails(&positions);
        Ok(())
    }

    /// Flushes every line of the table and of slots that a published change touched.
    fn flush_touched(&self) {
        if mutated(Mutant::CheckpointFlushSkipped) {
            return;
        }
        let table = self.media.geometry.entry_table;
        for (number, word) in self.table_lines.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // AcqRel: whoever marked a line stored it before.
            let bits = word.swap(0, Ordering::AcqRel);
            for line in crate::groups::numbers(number as u32, bits) {
                self.media
                    .main()
                    .flush(table + u64::from(line) * LINE_BYTES, LINE_BYTES as usize);
            }
        }
        let stored = self.lanes.take_stored();
        if mutated(Mutant::DeltaLinesNotFlushed) {
            return;
        }
        for (slot, line) in distinct_lines(&stored) {
            let offset = line * LINE_BYTES as usize;
            self.media.flush_slot(slot, offset, LINE_BYTES as usize);
        }
    }
}

/// Each touched line of each slot once.
fn distinct_lines(stored: &[SlotLines]) -> BTreeSet<(u32, usize)> {
    let line = LINE_BYTES as usize;
    let mut lines = BTreeSet::new();
    for SlotLines { slot, offset, len } in stored {
        let (offset, len) = (*offset as usize, *len as usize);
        for number in offset / line..(offset + len).div_ceil(line) {
            lines.insert((*slot, number));
        }
    }
    lines
}
