//! What a pool counts of its work: a shard for each thread, so that no two write to one line.

use forebay_pmem::{THREAD_SHARDS, thread_shard};

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
        #[non_exhaustive]
        pub struct TallySums { $($(#[$meta])* pub $name: u64),+ }
    };
}

/// One read in so many is verified where not all are.
const SAMPLED_READS: u64 = 16;

impl Tally<'_> {
    /// Whether this thread's next read is among those that are verified where not all are.
    #[inline]
    pub(crate) fn is_read_sampled(&self) -> bool {
        self.shard
            .read_hits
            .load(Ordering::Relaxed)
            .is_multiple_of(SAMPLED_READS)
    }

    /// A transaction of whole blocks.
    #[inline]
    pub(crate) fn whole_blocks_committed(&self, blocks: u64, payload_bytes: u64) {
        let shard = self.shard;
        let cells = [&shard.commits, &shard.blocks_written, &shard.payload_bytes];
        for (cell, n) in cells.into_iter().zip([1, blocks, payload_bytes]) {
            if self.is_own {
                cell.store(cell.load(Ordering::Relaxed) + n, Ordering::Relaxed);
            } else {
                cell.fetch_add(n, Ordering::Relaxed);
            }
        }
    }
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
    /// Of the misses, those of long runs that were not to be brought in.
    passed_by,
    /// Of the misses, those that had been read ahead.
    read_ahead,
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
    /// Copies on a member of a mirror that were not right and were made so.
    repaired,
    /// Copies that were not right once, and were when they were looked at again.
    transient,
    /// Copies on a member of a mirror that were not right after they had been written again, twice.
    unrepaired,
    /// Blocks of a mirror that were committed anew, since a copy took no write or was on a page that the medium lost.
    moved,
    /// Times a block that the backing lacks was found without a copy that is right: by a read, a write-back or a
    /// scrub.
    lost,
);
