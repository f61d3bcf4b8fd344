//! What a pool has done and how it stands.

use std::path::PathBuf;
use std::time::Duration;

use crate::api::pool::MemoryPool;
use crate::background::volume_state::VolumeState;
use crate::options::{ReplacementPolicy, VerifyPolicy};
use crate::recovery::RecoveryReport;
use crate::sync::Ordering;
use crate::tallies::TallySums;

/// One volume, as `MemoryPool::stats` tells it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VolumeStats {
    /// The volume's id.
    pub id: u32,
    /// Its backing.
    pub path: PathBuf,
    /// Its size in bytes.
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

/// What the log of a pool on an SSD has done since it was opened, and how much room it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SsdStats {
    /// Groups: transactions that became durable by one write.
    pub groups: u64,
    /// Transactions in them, also the pool's own.
    pub commits: u64,
    /// Blocks in them.
    pub blocks: u64,
    /// Leaders of groups that waited for company.
    pub waits: u64,
    /// Flushes of the device, each write that was made durable among them.
    pub flushes: u64,
    /// Pages of 4 KiB written.
    pub pages_written: u64,
    /// Pages of 4 KiB read.
    pub pages_read: u64,
    /// Segments of the ring.
    pub segments: u64,
    /// Bytes of one.
    pub segment_bytes: u64,
    /// Segments that may be written before the oldest is reused.
    pub free_segments: u64,
    /// Blocks that were carried forward from the oldest segment.
    pub carried_blocks: u64,
    /// Segments reused.
    pub recycled_segments: u64,
    /// What a durable write of two pages took when the pool was made; none of one that was opened.
    pub flush_cost: Option<Duration>,
}

/// How a pool stands. Other threads go on while it is gathered: numbers of one call may differ by what they did
/// meanwhile.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks the pool can hold.
    pub slots: u64,
    /// Blocks' room that is free.
    pub free_slots: u64,
    /// Blocks' room that is not used any more, since a copy there would keep nothing.
    pub retired_slots: u64,
    /// Pages on which the medium of a member failed since the pool was opened.
    pub media_errors: u64,
    /// Places of the entry table: every cached block takes one, a zeroed block nothing else.
    pub entries: u64,
    /// Places of the entry table that are free.
    pub free_entries: u64,
    /// Blocks cached.
    pub cached_blocks: u64,
    /// Blocks that the backing does not have yet.
    pub dirty_blocks: u64,
    /// Dirty blocks as a share of the slots, per mille: what the watermarks are compared with.
    pub dirty_per_mille: u64,
    /// Dirty blocks that a backing is being given at this moment.
    pub writing_blocks: u64,
    /// Blocks of the journals of file systems that were found on the volumes.
    pub journal_blocks: u64,
    /// Dirty blocks of these that write-back leaves for last.
    pub journal_deferred_blocks: u64,
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
    /// Share of each lane's log that waits for a checkpoint, per mille.
    pub lanes_used_per_mille: Vec<u64>,
    /// Files or devices that the pool consists of.
    pub members: u32,
    /// Of these, members of a mirrored pool that are out: it goes on without them.
    pub members_out: u32,
    /// Bytes of each of them.
    pub member_bytes: u64,
    /// Bytes of each lane's log.
    pub lane_bytes: u64,
    /// Commits take two fences, and recovery believes commit words only.
    pub strict: bool,
    /// When reads verify.
    pub verify: VerifyPolicy,
    /// No block has gone for longer without being verified or written: how long ago the last whole scrub began. `None` if
    /// there was none.
    pub unverified: Option<Duration>,
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
    /// Of that, what belongs to the search for blocks with like content.
    pub content_dram_bytes: u64,
    /// What recovery did when the pool was opened.
    pub recovery: RecoveryReport,
    /// What happened since.
    pub totals: TallySums,
    /// The log of a pool on an SSD; of another one none.
    pub ssd: Option<SsdStats>,
    /// The volumes.
    pub volumes: Vec<VolumeStats>,
}

impl MemoryPool {
    /// How the pool stands and what it did. Cheap: nothing is locked for longer than a look.
    pub fn stats(&self) -> Stats {
        let pipeline = self.pipeline();
        let (engine, table) = (pipeline.engine(), pipeline.table());
        let (write_back, log) = (pipeline.write_back(), engine.log());
        let geometry = &engine.media().geometry;
        let (slots, entries) = (u64::from(geometry.room()), u64::from(geometry.entries));
        let cached_blocks = engine.replacement().len() as u64;
        let dirty_blocks = table.states().dirty_count();
        let is_out = |number: &u32| !engine.media().standing(*number).0;
        let usual = pipeline.options().answer_deadline;
        let volumes = pipeline.volumes();
        let volumes = volumes.iter().map(|volume| VolumeStats::of(volume, usual));
        let volumes: Vec<VolumeStats> = volumes.collect();
        Stats {
            block_bytes: geometry.block_bytes,
            slots,
            free_slots: table.slots().free_count(),
            retired_slots: table.slots().retired_count(),
            media_errors: engine.media().lost_page_count(),
            entries,
            free_entries: entries.saturating_sub(cached_blocks),
            cached_blocks,
            dirty_blocks,
            dirty_per_mille: dirty_blocks * 1000 / slots,
            writing_blocks: write_back.writing_blocks(),
            journal_blocks: write_back.journal().blocks(),
            journal_deferred_blocks: table.states().deferred_count(),
            waiting_writers: write_back.throttled_writers(),
            shared_slots: table.references().shared(),
            share_duplicates: engine.content().shares_duplicates(),
            compare_writes: engine.content().compares_writes(),
            degraded_volumes: volumes.iter().filter(|volume| volume.degraded).count() as u64,
            log_used_per_mille: log.lanes().used_per_mille(),
            lanes_used_per_mille: log.lanes().each_used_per_mille(),
            members: geometry.members,
            members_out: (0..geometry.members).filter(is_out).count() as u32,
            member_bytes: geometry.member_bytes,
            lane_bytes: geometry.lane_bytes,
            strict: log.is_strict(),
            verify: self.verify(),
            unverified: self.unverified(),
            replacement: self.replacement(),
            uptime: self.opened_at.elapsed(),
            checkpoints: engine.checkpoints(),
            incarnation: log.incarnation(),
            sequence: log.lanes().last_sequence(),
            poisoned: engine.is_poisoned(),
            dram_bytes: engine.dram_bytes(),
            content_dram_bytes: engine.content_dram_bytes(),
            recovery: self.recovery.clone(),
            totals: engine.tallies().sums(),
            ssd: None,
            volumes,
        }
    }
}

impl VolumeStats {
    /// How a volume stands; `usual` is how long its backing may take to answer.
    pub(crate) fn of(volume: &VolumeState, usual: Duration) -> VolumeStats {
        let backing = volume.backing.get();
        let trouble = volume.trouble(usual);
        let (failures, last_failure) = volume.health.failures();
        VolumeStats {
            id: volume.id,
            path: volume.path.clone(),
            size_bytes: volume.size_bytes.load(Ordering::Relaxed),
            attached: backing.is_some(),
            degraded: trouble.is_some(),
            last_error: trouble,
            failures,
            last_failure: last_failure.map(|last| volume.named(last)),
            waiting_for: volume.waits_for(),
            backing: backing.map(|b| b.counters()).unwrap_or_default(),
            transport: backing.map(|b| b.transport()).unwrap_or_default(),
        }
    }
}
