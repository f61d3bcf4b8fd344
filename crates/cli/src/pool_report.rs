//! What a pool says about itself, as JSON: one place for `stat`, `info` and the control socket.

use std::path::PathBuf;

use forebay::{Pool, SsdStats, Stats, TallySums, VolumeStats};
use forebay_command::disks::report::{backing, memory};
use forebay_command::json_path;
use serde_json::{Value, json};

use crate::members;

/// How a pool that was opened by these paths stands, and what it did since.
pub fn stat(pool: &Pool, given: &[PathBuf]) -> Value {
    let stats = pool.stats();
    let counters = pool.counters();
    let members = members::of(pool, given);
    let mut report = json!({
        "engine": "forebay",
        "medium": medium_word(&stats),
        "incarnation": stats.incarnation,
        "poisoned": stats.poisoned,
        "block_bytes": stats.block_bytes,
        "slots": stats.slots,
        "free_slots": stats.free_slots,
        "retired_slots": stats.retired_slots,
        "media_errors": stats.media_errors,
        "entries": stats.entries,
        "free_entries": stats.free_entries,
        "cached_blocks": stats.cached_blocks,
        "dirty_blocks": stats.dirty_blocks,
        "dirty_per_mille": stats.dirty_per_mille,
        "writing_blocks": stats.writing_blocks,
        "journal_blocks": stats.journal_blocks,
        "journal_deferred_blocks": stats.journal_deferred_blocks,
        "waiting_writers": stats.waiting_writers,
        "shared_slots": stats.shared_slots,
        "degraded_volumes": stats.degraded_volumes,
        "log_used_per_mille": stats.log_used_per_mille,
        "lanes_used_per_mille": stats.lanes_used_per_mille,
        "members": stats.members,
        "member_list": members::reports(&members),
        "redundancy": members::redundancy_word(pool.redundancy()),
        "member_bytes": stats.member_bytes,
        "lane_bytes": stats.lane_bytes,
        "strict": stats.strict,
        "unverified_s": stats.unverified.map(|unverified| unverified.as_secs()),
        "checkpoints": stats.checkpoints,
        "sequence": stats.sequence,
        "dram_bytes": stats.dram_bytes,
        "counters": memory(&counters),
        "totals": totals(&stats.totals),
        "volumes": stats.volumes.iter().map(volume).collect::<Vec<_>>(),
    });
    if let Some(of_log) = &stats.ssd {
        report["ssd"] = ssd(of_log);
    }
    if pool.redundancy().is_mirrored() {
        report["witness"] = members::witness_report(pool);
    }
    if let Some(condition) = members::condition(pool, &members) {
        report["pool"] = condition.into();
    }
    report
}

/// What a pool lies on, in a word.
pub fn medium_word(stats: &Stats) -> &'static str {
    match stats.ssd {
        Some(_) => "ssd",
        None => "memory",
    }
}

/// What the log of a pool on an SSD did.
fn ssd(ssd: &SsdStats) -> Value {
    let per_group = |count: u64| (ssd.groups > 0).then(|| count as f64 / ssd.groups as f64);
    json!({
        "groups": ssd.groups,
        "commits": ssd.commits,
        "commits_per_group": per_group(ssd.commits),
        "blocks": ssd.blocks,
        "waits": ssd.waits,
        "flushes": ssd.flushes,
        "pages_written": ssd.pages_written,
        "pages_read": ssd.pages_read,
        "segments": ssd.segments,
        "segment_bytes": ssd.segment_bytes,
        "free_segments": ssd.free_segments,
        "carried_blocks": ssd.carried_blocks,
        "recycled_segments": ssd.recycled_segments,
    })
}

fn totals(totals: &TallySums) -> Value {
    json!({
            "commits": totals.commits,
            "payload_bytes": totals.payload_bytes,
            "blocks_written": totals.blocks_written,
            "deltas_written": totals.deltas_written,
            "deltas_found": totals.deltas_found,
            "blocks_shared": totals.blocks_shared,
            "blocks_packed": totals.blocks_packed,
            "appends_written": totals.appends_written,
            "blocks_zeroed": totals.blocks_zeroed,
            "read_hits": totals.read_hits,
            "read_misses": totals.read_misses,
            "fills": totals.fills,
            "passed_by": totals.passed_by,
            "read_ahead": totals.read_ahead,
            "evictions": totals.evictions,
            "write_backs": totals.write_backs,
            "write_back_runs": totals.write_back_runs,
            "journal_overwritten": totals.journal_overwritten,
            "journal_written": totals.journal_written,
            "write_back_errors": totals.write_back_errors,
            "healed": totals.healed,
            "corrupt": totals.corrupt,
            "repaired": totals.repaired,
            "transient": totals.transient,
            "unrepaired": totals.unrepaired,
            "moved": totals.moved,
            "lost": totals.lost,
            "throttled": totals.throttled,
            "paced": totals.paced,
            "paced_us": totals.paced_us,
    })
}

fn volume(volume: &VolumeStats) -> Value {
    let report = json!({
        "id": volume.id,
        "size_bytes": volume.size_bytes,
        "attached": volume.attached,
        "degraded": volume.degraded,
        "last_error": volume.last_error,
        "failures": volume.failures,
        "last_failure": volume.last_failure,
        "waiting_for": volume.waiting_for.map(|wait| json!({
            "request": wait.request,
            "ms": wait.elapsed.as_millis() as u64,
        })),
        "transport": volume.transport,
        "backing": backing(&volume.backing),
    });
    json_path::with(report, "path", &volume.path)
}

/// What recovery found and did when the pool was opened.
pub fn recovery(pool: &Pool) -> Value {
    let report = pool.recovery_report();
    json!({
        "incarnation": report.incarnation,
        "checkpoint_sequence": report.checkpoint_sequence,
        "records": report.records,
        "records_proven": report.records_proven,
        "records_tested": report.records_tested,
        "records_dropped": report.records_dropped,
        "deltas_applied": report.deltas_applied,
        "blocks": report.blocks,
        "dirty_blocks": report.dirty_blocks,
        "torn_entries": report.torn_entries,
        "damage": report.damage,
        "took_ms": report.took.as_secs_f64() * 1e3,
    })
}
