//! What an engine did in a measured run, exact but for the time.

use std::time::Duration;

use forebay::{BackingCounters, EngineStats};

use crate::workload::Operation;

/// Totals of a run, and the papers' ratios of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurement {
    /// Application operations.
    pub operations: u64,
    /// What they were, summed.
    pub asked: Operation,
    /// What the engine did for them: differences for what counts, the last state for what stands.
    pub done: EngineStats,
    /// Time that the engine took; noisy.
    pub elapsed: Duration,
}

impl Measurement {
    /// Cache lines persisted for each application write; for each operation where none writes.
    #[must_use]
    pub fn lines_per_write(&self) -> f64 {
        ratio(self.done.memory.lines(), self.units())
    }

    /// Fences for each application write.
    #[must_use]
    pub fn fences_per_write(&self) -> f64 {
        ratio(self.done.memory.fences, self.units())
    }

    /// Bytes persisted for each byte that the application wrote; 0 where it wrote none.
    #[must_use]
    pub fn nvm_bytes_per_payload_byte(&self) -> f64 {
        ratio(self.done.memory.bytes, self.asked.payload_bytes)
    }

    /// Blocks of 4 KiB written to the disk for each application write.
    #[must_use]
    pub fn disk_blocks_per_write(&self) -> f64 {
        ratio(self.done.backing.blocks_written, self.units())
    }

    /// Of the blocks read and committed, the part that was cached.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        let done = &self.done;
        let accesses = done.read_hits + done.read_misses + done.blocks_committed;
        ratio(done.read_hits + done.write_hits, accesses)
    }

    /// Of the blocks committed, the part that was cached.
    #[must_use]
    pub fn write_hit_ratio(&self) -> f64 {
        ratio(self.done.write_hits, self.done.blocks_committed)
    }

    /// Operations a second.
    #[must_use]
    pub fn ops_per_s(&self) -> f64 {
        self.per_s(self.operations)
    }

    /// Application writes a second.
    #[must_use]
    pub fn writes_per_s(&self) -> f64 {
        self.per_s(self.asked.writes)
    }

    /// Blocks of a transaction, on average.
    #[must_use]
    pub fn blocks_per_transaction(&self) -> f64 {
        ratio(self.done.blocks_committed, self.done.commits)
    }

    /// Cache lines persisted for each operation, whether it writes or not.
    #[must_use]
    pub fn lines_per_operation(&self) -> f64 {
        ratio(self.done.memory.lines(), self.operations)
    }

    /// Blocks written to the disk for each operation.
    #[must_use]
    pub fn disk_blocks_per_operation(&self) -> f64 {
        ratio(self.done.backing.blocks_written, self.operations)
    }

    fn units(&self) -> u64 {
        match self.asked.writes {
            0 => self.operations,
            writes => writes,
        }
    }

    fn per_s(&self, count: u64) -> f64 {
        match self.elapsed.as_secs_f64() {
            0.0 => 0.0,
            seconds => count as f64 / seconds,
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

/// What happened between two looks at an engine.
pub(super) fn difference(before: &EngineStats, after: &EngineStats) -> EngineStats {
    EngineStats {
        slots: after.slots,
        cached_blocks: after.cached_blocks,
        dirty_blocks: after.dirty_blocks,
        commits: after.commits - before.commits,
        blocks_committed: after.blocks_committed - before.blocks_committed,
        write_hits: after.write_hits - before.write_hits,
        read_hits: after.read_hits - before.read_hits,
        read_misses: after.read_misses - before.read_misses,
        evictions: after.evictions - before.evictions,
        memory: after.memory - before.memory,
        backing: BackingCounters {
            reads: after.backing.reads - before.backing.reads,
            bytes_read: after.backing.bytes_read - before.backing.bytes_read,
            writes: after.backing.writes - before.backing.writes,
            bytes_written: after.backing.bytes_written - before.backing.bytes_written,
            blocks_written: after.backing.blocks_written - before.backing.blocks_written,
            zeroings: after.backing.zeroings - before.backing.zeroings,
            syncs: after.backing.syncs - before.backing.syncs,
        },
    }
}
