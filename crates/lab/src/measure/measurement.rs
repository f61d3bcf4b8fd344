//! What an engine did in a measured run, exact but for the time.

use std::time::Duration;

use crate::EngineStats;
use forebay::Counters;

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
    /// Blocks that were dirty when it began.
    pub dirty_before: u64,
    /// Of it, what was persisted within reads, to bring blocks in.
    pub in_reads: Counters,
    /// Time that the engine took; noisy.
    pub elapsed: Duration,
    /// Processors that others took meanwhile; none if it was too short to tell.
    pub others: Option<f64>,
}

impl Measurement {
    /// Cache lines persisted for each application write, not within reads; for each operation where
    /// none writes.
    #[must_use]
    pub fn lines_per_write(&self) -> f64 {
        ratio(self.on_write_path().lines(), self.units())
    }

    /// Fences for each application write, not within reads.
    #[must_use]
    pub fn fences_per_write(&self) -> f64 {
        ratio(self.on_write_path().fences, self.units())
    }

    /// Bytes persisted, within reads too, for each byte that the application wrote; 0 where it wrote
    /// none.
    #[must_use]
    pub fn nvm_bytes_per_payload_byte(&self) -> f64 {
        ratio(self.done.memory.bytes, self.asked.payload_bytes)
    }

    /// Blocks of 4 KiB written to the disk for each application write; as many more as are dirty at
    /// the end and were not at the beginning, or fewer, so that it does not matter when an engine
    /// writes a batch.
    #[must_use]
    pub fn disk_blocks_per_write(&self) -> f64 {
        self.disk_blocks() / self.units().max(1) as f64
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

    /// Cache lines persisted for each operation, whether it writes or not; not within reads.
    #[must_use]
    pub fn lines_per_operation(&self) -> f64 {
        ratio(self.on_write_path().lines(), self.operations)
    }

    /// Cache lines persisted within reads, for each of the application's reads.
    #[must_use]
    pub fn fill_lines_per_read(&self) -> f64 {
        ratio(self.in_reads.lines(), self.asked.reads)
    }

    /// The same for each operation.
    #[must_use]
    pub fn disk_blocks_per_operation(&self) -> f64 {
        self.disk_blocks() / self.operations.max(1) as f64
    }

    fn disk_blocks(&self) -> f64 {
        let became_dirty = self.done.dirty_blocks as f64 - self.dirty_before as f64;
        (self.done.backing.blocks_written as f64 + became_dirty).max(0.0)
    }

    fn on_write_path(&self) -> Counters {
        self.done.memory - self.in_reads
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
        is_degraded: after.is_degraded,
        write_back_errors: after.write_back_errors - before.write_back_errors,
        memory: after.memory - before.memory,
        backing: after.backing - before.backing,
    }
}
