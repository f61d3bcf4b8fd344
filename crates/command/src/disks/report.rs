//! What a daemon says of its disks and front ends, as JSON.

use std::time::Instant;

use forebay::{BackingCounters, Counters};
use forebay_serve::latency::{DeviceSnapshot, RequestSnapshot};
use forebay_serve::nbd::{NbdServer, NbdStats};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Disks, Served};
use crate::{json_path, log_writer};

/// Adds to a report of a disk what it is called and where it can be reached.
pub fn describe<T>(disks: &Disks<T>, served: &Served<T>, report: &mut Value) {
    report["name"] = served.name.clone().into();
    json_path::put(report, "mounted_on", served.mounted_on().as_deref());
    let socket = disks.vhost.path_of(&served.name);
    json_path::put(report, "vhost_user_socket", socket.as_deref());
    report["nbd_connections"] = json!(disks.exports.connections(&served.name));
}

/// Where the disks can be reached.
pub fn front_ends<T>(disks: &Disks<T>) -> Value {
    let mut front_ends: Vec<Value> = disks.servers.lock().iter().map(nbd_front_end).collect();
    for served in disks.served() {
        if let Some(directory) = served.mounted_on() {
            let front_end = json!({"kind": "fuse", "volume": served.name});
            front_ends.push(json_path::with(front_end, "address", &directory));
        }
    }
    front_ends.extend(disks.ublk.report());
    front_ends.extend(disks.vhost.report());
    front_ends.into()
}

#[derive(Serialize)]
struct NbdFrontEnd {
    kind: &'static str,
    address: String,
    memory_max_bytes: u64,
    #[serde(flatten)]
    stats: NbdStats,
}

fn nbd_front_end(server: &NbdServer) -> Value {
    json!(NbdFrontEnd {
        kind: "nbd",
        address: server.address().to_string(),
        memory_max_bytes: server.memory_max(),
        stats: server.stats(),
    })
}

/// How many requests a disk had, and how long they took.
pub fn requests(snapshot: &DeviceSnapshot) -> Value {
    json!({
        "read": kind(&snapshot.read),
        "write": kind(&snapshot.write),
        "flush": kind(&snapshot.flush),
        "discard": kind(&snapshot.discard),
    })
}

fn kind(snapshot: &RequestSnapshot) -> Value {
    let summary = snapshot.latencies.summary();
    json!({
        "count": summary.count,
        "bytes": snapshot.bytes,
        "errors": snapshot.errors,
        "mean_ns": summary.mean_ns,
        "p50_ns": summary.p50_ns,
        "p99_ns": summary.p99_ns,
        "p999_ns": summary.p999_ns,
        "max_ns": summary.max_ns,
    })
}

/// What a persistent memory was given.
pub fn memory(counters: &Counters) -> Value {
    json!({
        "lines_flushed": counters.lines_flushed,
        "lines_streamed": counters.lines_streamed,
        "fences": counters.fences,
        "bytes": counters.bytes,
    })
}

/// What a backing was given.
pub fn backing(counters: &BackingCounters) -> Value {
    json!({
        "reads": counters.reads,
        "bytes_read": counters.bytes_read,
        "writes": counters.writes,
        "bytes_written": counters.bytes_written,
        "blocks_written": counters.blocks_written,
        "zeroings": counters.zeroings,
        "syncs": counters.syncs,
    })
}

/// The process itself, which serves since `started`.
pub fn daemon(started: Instant) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_s": started.elapsed().as_secs(),
        "log_lines_dropped": log_writer::dropped(),
    })
}
