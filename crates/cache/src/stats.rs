//! What a pool has done and how it stands.

use std::path::PathBuf;

use forebay_pmem::{THREAD_SHARDS, thread_shard};

use crate::core::Core;
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
            fn sum(&self) -> TallySums {
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
    /// Whether the backing refuses writes at present; dirty data stays in the pool.
    pub degraded: bool,
    /// The backing's last error while it is degraded.
    pub last_error: Option<String>,
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
    /// Blocks cached.
    pub cached_blocks: u64,
    /// Blocks that the backing does not have yet.
    pub dirty_blocks: u64,
    /// Share of the log that awaits a checkpoint, in per mille.
    pub log_used_per_mille: u64,
    /// Checkpoints since the pool was opened.
    pub checkpoints: u64,
    /// How often this pool was opened.
    pub life: u64,
    /// The last sequence drawn.
    pub sequence: u64,
    /// A fence failed; writes are refused.
    pub poisoned: bool,
    /// Bytes of DRAM held by the structures that grow with the pool.
    pub dram_bytes: u64,
    /// What recovery did when the pool was opened.
    pub recovery: crate::recovery::RecoveryReport,
    /// What happened since.
    pub totals: TallySums,
    /// The volumes.
    pub volumes: Vec<VolumeStats>,
}

impl Core {
    pub(crate) fn stats(&self, recovery: &crate::recovery::RecoveryReport) -> Stats {
        let volumes = self.volumes.read().unwrap_or_else(|e| e.into_inner());
        Stats {
            block_bytes: self.media.geometry.block_bytes,
            slots: u64::from(self.media.geometry.slots()),
            free_slots: self.slots.free_count(),
            cached_blocks: self.replacement.len() as u64,
            dirty_blocks: self.dirty_count.load(Ordering::Relaxed),
            log_used_per_mille: self.lanes.used_per_mille(),
            checkpoints: self
                .checkpoint
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .count,
            life: self.life,
            sequence: self.lanes.last_sequence(),
            poisoned: self.poisoned.load(Ordering::Relaxed),
            dram_bytes: self.dram_bytes(),
            recovery: recovery.clone(),
            totals: self.tallies.sum(),
            volumes: volumes
                .iter()
                .flatten()
                .map(|volume| volume.stats())
                .collect(),
        }
    }
}
