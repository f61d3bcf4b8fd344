//! What a pool has done and how it stands.

use std::path::PathBuf;
use std::time::Duration;

use forebay_pmem::{THREAD_SHARDS, thread_shard};

use crate::api::pool::Pool;
use crate::engine::core::Core;
use crate::options::{ReplacementPolicy, VerifyPolicy};
use crate::recovery::RecoveryReport;
use crate::sync::{AtomicU64, Ordering};

macro_rules! tallies {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => {
        #[repr(align(128))]
        #[derive(Default)]
        struct Shard { $($name: AtomicU64),+ }

        /// Counts of what was done, cheap enough to be always on: a thread adds to its own shard
        /// without locked operations, which would keep its next reads from starting early.
        pub(crate) struct Tallies { shards: Box<[Shard]> }

        impl Default for Tallies {
            fn default() -> Tallies {
                Tallies { shards: (0..THREAD_SHARDS).map(|_| Shard::default()).collect() }
            }
        }

        /// One thread's shard.
        pub(crate) struct Tally<'a> { shard: &'a Shard, is_own: bool }

        impl Tally<'_> {
            $(
                #[inline]
                pub(crate) fn $name(&self, n: u64) {
                    let cell = &self.shard.$name;
                    if self.is_own {
                        cell.store(cell.load(Ordering::Relaxed) + n, Ordering::Relaxed);
                    } else {
                        cell.fetch_add(n, Ordering::Relaxed);
                    }
                }
            )+
        }

        impl Tallies {
            /// This thread's shard.
            #[inline]
            pub(crate) fn mine(&self) -> Tally<'_> {
                let (shard, is_own) = thread_shard();
                Tally { shard: &self.shards[shard], is_own }
            }
            /// All threads' counts.
            pub(crate) fn sums(&self) -> TallySums {
                TallySums { $($name: self.shards.iter().map(|s| s.$name.load(Ordering::Relaxed)).sum()),+ }
            }
        }

        /// What happened since the pool was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TallySums { $($(#[$meta])* pub $name: u64),+ }
    };
}

tallies!(
    /// Transactions committed.
    commits,
    /// Bytes callers wrote in them.
    payload_bytes,
    /// Blocks written whole.
    blocks_written,
    /// Blocks changed in place by deltas.
    deltas_written,
    /// Of those, blocks that were written whole and compared.
    deltas_found,
    /// Blocks that were written whole and share the slot of an equal one.
    blocks_shared,
    /// Blocks that were written whole and are stored packed.
    blocks_packed,
    /// Appends to partial blocks.
    appends_written,
    /// Blocks zeroed or discarded.
    blocks_zeroed,
    /// Block reads that the pool served.
    read_hits,
    /// Block reads that went to the backing.
    read_misses,
    /// Blocks brought in by misses.
    fills,
    /// Blocks evicted.
    evictions,
    /// Blocks written back.
    write_backs,
    /// Contiguous runs those writes were merged into.
    write_back_runs,
    /// Overwrites of journal blocks that write-back had left for last: each saved the disk a block.
    journal_overwritten,
    /// Journal blocks that were written back all the same.
    journal_written,
    /// Writes or syncs of a backing that failed.
    write_back_errors,
    /// Clean blocks whose cached copy was bad and that were fetched again.
    healed,
    /// Reads refused because the only copy is bad.
    corrupt,
    /// Times a writer had to wait for space.
    throttled,
    /// Times a writer was slowed because it outran the backing.
    paced,
    /// How long that took in all, in microseconds.
    paced_us,
);

/// One volume, as `Pool::stats` tells it.
#[derive(Clone, Debug)]
pub struct VolumeStats {
    /// The volume's id.
    pub id: u32,
    /// Its backing.
    pub path: PathBuf,
    /// Its size.
    pub size_bytes: u64,
    /// Whether a backing is attached now.
    pub attached: bool,
    /// Whether the backing refuses writes at present, or has not answered for longer than
    /// [`RuntimeOptions::answer_deadline`](crate::RuntimeOptions::answer_deadline); dirty data stays in
    /// the pool.
    pub degraded: bool,
    /// The backing's last error while it is degraded, or what it does not answer.
    pub last_error: Option<String>,
    /// How often writes or syncs began to fail since the backing was attached.
    pub failures: u64,
    /// The error with which they last began to, also when that is over.
    pub last_failure: Option<String>,
    /// What the backing was asked longest ago of what it has not answered.
    pub waiting_for: Option<crate::backing::BackingWait>,
    /// What the backing did.
    pub backing: crate::backing::BackingCounters,
    /// How bytes travel to it.
    pub transport: String,
}

/// How a pool stands.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks the pool can hold.
    pub slots: u64,
    /// Blocks' room that is free.
    pub free_slots: u64,
    /// Places of the entry table: every cached block takes one, a zeroed block nothing else.
    pub entries: u64,
    /// Places of the entry table that are free.
    pub free_entries: u64,
    /// Blocks cached.
    pub cached_blocks: u64,
    /// Blocks that the backing does not have yet.
    pub dirty_blocks: u64,
    /// The same as a share of the slots, per mille: what the watermarks are compared with.
    pub dirty_per_mille: u64,
    /// Dirty blocks that a backing is being given at this moment.
    pub writing_blocks: u64,
    /// Blocks of the journals of file systems that were found on the volumes.
    pub journal_blocks: u64,
    /// Dirty blocks of these that write-back leaves for last.
    pub journal_held_blocks: u64,
    /// Writers that wait for a free block at this moment.
    pub waiting_writers: u64,
    /// Holders of slots beyond each one's first: blocks that share one, or are packed on one.
    pub shared_slots: u64,
    /// Whole blocks share the slots of equal ones.
    pub share_duplicates: bool,
    /// Whole blocks are compared with what is cached.
    pub compare_writes: bool,
    /// Volumes whose backing refuses writes at present.
    pub degraded_volumes: u64,
    /// Share of the log that awaits a checkpoint, in per mille.
    pub log_used_per_mille: u64,
    /// The same of each lane.
    pub lanes_used_per_mille: Vec<u64>,
    /// Files or devices that the pool consists of.
    pub members: u32,
    /// Bytes of each of them.
    pub member_bytes: u64,
    /// Bytes of each lane's log.
    pub lane_bytes: u64,
    /// Commits take two fences, and recovery believes commit words only.
    pub strict: bool,
    /// When reads verify.
    pub verify: VerifyPolicy,
    /// Which blocks are evicted.
    pub replacement: ReplacementPolicy,
    /// How long the pool has been open; the totals are since then.
    pub uptime: Duration,
    /// Checkpoints since the pool was opened.
    pub checkpoints: u64,
    /// How often this pool was opened.
    pub incarnation: u64,
    /// The last sequence drawn.
    pub sequence: u64,
    /// A fence failed; writes are refused.
    pub poisoned: bool,
    /// Bytes of DRAM held by the structures that grow with the pool.
    pub dram_bytes: u64,
    /// Of that, what belongs to the look at blocks' content.
    pub content_dram_bytes: u64,
    /// What recovery did when the pool was opened.
    pub recovery: RecoveryReport,
    /// What happened since.
    pub totals: TallySums,
    /// The volumes.
    pub volumes: Vec<VolumeStats>,
}

impl Pool {
    /// How the pool stands and what it did. Cheap: nothing is locked for longer than a look.
    pub fn stats(&self) -> Stats {
        let core = self.core();
        let geometry = &core.media.geometry;
        let (slots, entries) = (u64::from(geometry.slots()), u64::from(geometry.entries));
        let cached_blocks = core.replacement.len() as u64;
        let dirty_blocks = core.dirty_count.load(Ordering::Relaxed);
        let volumes = core.volume_stats();
        Stats {
            block_bytes: geometry.block_bytes,
            slots,
            free_slots: core.slots.free_count(),
            entries,
            free_entries: entries.saturating_sub(cached_blocks),
            cached_blocks,
            dirty_blocks,
            dirty_per_mille: dirty_blocks * 1000 / slots,
            writing_blocks: core.write_back.writing_blocks.load(Ordering::Relaxed) as u64,
            journal_blocks: core.write_back.held.journal_blocks.load(Ordering::Relaxed),
            journal_held_blocks: core.write_back.held.held_blocks.load(Ordering::Relaxed),
            waiting_writers: core.write_back.throttled_writers.load(Ordering::Relaxed) as u64,
            shared_slots: core.content.references.shared(),
            share_duplicates: core.content.shares_duplicates(),
            compare_writes: core.content.compares_writes(),
            degraded_volumes: volumes.iter().filter(|volume| volume.degraded).count() as u64,
            log_used_per_mille: core.lanes.used_per_mille(),
            lanes_used_per_mille: core.lanes.each_used_per_mille(),
            members: geometry.members,
            member_bytes: geometry.member_bytes,
            lane_bytes: geometry.lane_bytes,
            strict: core.strict,
            verify: self.verify(),
            replacement: self.replacement(),
            uptime: self.opened_at.elapsed(),
            checkpoints: core.checkpoints(),
            incarnation: core.incarnation,
            sequence: core.lanes.last_sequence(),
            poisoned: core.poisoned.load(Ordering::Relaxed),
            dram_bytes: core.dram_bytes(),
            content_dram_bytes: core.content.dram_bytes(),
            recovery: self.recovery.clone(),
            totals: core.tallies.sums(),
            volumes,
        }
    }
}

impl Core {
    fn volume_stats(&self) -> Vec<VolumeStats> {
        let volumes = self.volumes.read().unwrap_or_else(|e| e.into_inner());
        let known = volumes.iter().flatten();
        known
            .map(|volume| volume.stats(self.options.answer_deadline))
            .collect()
    }

    fn checkpoints(&self) -> u64 {
        let state = self.checkpoint.lock();
        state.unwrap_or_else(|e| e.into_inner()).count
    }
}
