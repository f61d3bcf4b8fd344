//! How a pool on an SSD stands and what it did, in the form that all pools have.

use forebay_log::{Log, PAGE_BYTES};

use super::pool::SsdPool;
use crate::api::pool::MemberState;
use crate::api::stats::{SsdStats, Stats, VolumeStats};
use crate::api::tuning::Tuning;
use crate::sync::Ordering;

/// Bytes of DRAM that the table takes for each of its places, of which a quarter stay free.
const ENTRY_BYTES: u64 = 16;

/// Bytes of DRAM that a pool of so many blocks takes while it is open.
pub(crate) fn dram_bytes(blocks: u64) -> u64 {
    (blocks + blocks.div_ceil(3)) * ENTRY_BYTES
}

impl SsdPool {
    pub(crate) fn stats(&self) -> Stats {
        let shared = self.shared();
        let usual = shared.options.answer_deadline;
        let known = shared.known();
        let volumes = known
            .iter()
            .map(|known| VolumeStats::of(&known.state, usual));
        let members = self.members();
        let mut stats = Stats {
            block_bytes: PAGE_BYTES as u32,
            members: members.len() as u32,
            members_out: members
                .iter()
                .filter(|one| one.state != MemberState::In)
                .count() as u32,
            verify: self.verify(),
            replacement: self.replacement(),
            uptime: self.opened_at().elapsed(),
            waiting_writers: shared.work.waiting_writers(),
            recovery: self.recovery_report().clone(),
            totals: shared.tallies.sums(),
            volumes: volumes.collect(),
            ..Stats::default()
        };
        stats.degraded_volumes = stats.volumes.iter().filter(|one| one.degraded).count() as u64;
        match shared.log() {
            Ok(log) => {
                fill(&mut stats, &log);
                if let Some(ssd) = &mut stats.ssd {
                    ssd.flush_cost = self.flush_cost();
                }
            }
            Err(_) => stats.poisoned = true,
        }
        stats
    }

    pub(crate) fn tuning(&self) -> Tuning {
        let settings = &self.shared().settings;
        Tuning {
            dirty_low_per_mille: settings.dirty_low_per_mille.load(Ordering::Relaxed),
            dirty_high_per_mille: settings.dirty_high_per_mille.load(Ordering::Relaxed),
            flush_rate_limit_bytes_per_s: self.shared().flush_rate(),
            defer_journal: false,
            write_back_bytes_per_s: 0,
            share_duplicates: false,
            compare_writes: false,
            sequential_cutoff_bytes: 0,
            read_ahead_bytes: 0,
        }
    }
}

/// What the log says.
fn fill(stats: &mut Stats, log: &Log) {
    let (room, device, tallies) = (log.room(), log.device().counters(), log.tallies());
    let (segments, segment_bytes) = log.segments();
    stats.slots = log.blocks_max() as u64;
    stats.entries = stats.slots;
    stats.cached_blocks = log.cached_blocks() as u64;
    stats.free_slots = stats.slots.saturating_sub(stats.cached_blocks);
    stats.free_entries = stats.free_slots;
    stats.dirty_blocks = room.dirty_blocks;
    stats.dirty_per_mille = room.dirty_blocks * 1000 / stats.slots.max(1);
    stats.member_bytes = log.device().pages() * PAGE_BYTES as u64;
    stats.incarnation = log.incarnation();
    stats.sequence = log.last_sequence();
    stats.poisoned = log.why_poisoned().is_some();
    stats.dram_bytes = dram_bytes(stats.slots) + log.recent_bytes_max() as u64;
    stats.ssd = Some(SsdStats {
        groups: tallies.groups,
        commits: tallies.commits,
        blocks: tallies.blocks,
        waits: tallies.waits,
        flushes: device.flushes,
        pages_written: device.pages_written,
        pages_read: device.pages_read,
        segments,
        segment_bytes,
        free_segments: room.free_segments,
        carried_blocks: tallies.carried,
        recycled_segments: tallies.recycled,
        flush_cost: None,
    });
}
