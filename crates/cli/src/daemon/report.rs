//! What the daemon says about itself, as JSON: for `stat`, `top` and other clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use forebay::{Pool, ReplacementPolicy, VerifyPolicy};
use forebay_serve::latency::{DeviceSnapshot, RequestSnapshot};
use forebay_serve::nbd::{NbdServer, NbdStats};
use serde_json::{Value, json};

use super::service::{Served, Service, lock};
use super::store::{Core, Store};
use crate::pool_report;
use forebay_command::json_path;
use forebay_command::log_writer;

/// The state of the pool, of every disk, of every front end.
pub fn stat(service: &Service) -> Value {
    let mut report = match &service.store {
        Store::Pool(pool) => pool_report::stat(pool),
        Store::Design(design) => pool_report::design(&*design.engine, &design.backing),
    };
    let served = service.served();
    if let Some(volumes) = report["volumes"].as_array_mut() {
        for volume in volumes {
            let id = volume["id"].as_u64();
            let is_it = |served: &&Arc<Served>| Some(u64::from(id_of(served))) == id;
            if let Some(served) = served.iter().find(is_it) {
                describe(service, served, volume);
                volume["requests"] = requests(&served.meters.snapshot());
            }
        }
    }
    report["front_ends"] = front_ends(service);
    if let Store::Pool(pool) = &service.store {
        report["settings"] = settings(pool);
    }
    report["daemon"] = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_s": service.started.elapsed().as_secs(),
        "log_lines_dropped": log_writer::dropped(),
    });
    report
}

/// One disk.
pub fn volume(service: &Service, served: &Arc<Served>) -> Value {
    let mut report = json!({
        "id": id_of(served),
        "size_bytes": served.disk.size_bytes(),
    });
    json_path::put(&mut report, "backing", Some(&served.backing));
    describe(service, served, &mut report);
    report
}

/// The number of a disk in its store; a design has one disk.
fn id_of(served: &Served) -> u32 {
    match &served.core {
        Core::Volume(volume) => volume.id(),
        Core::Engine(..) => 0,
    }
}

fn describe(service: &Service, served: &Served, report: &mut Value) {
    report["name"] = served.name.clone().into();
    json_path::put(report, "mounted_on", served.mounted_on().as_deref());
    let socket = service.vhost.path_of(&served.name);
    json_path::put(report, "vhost_user_socket", socket.as_deref());
    report["nbd_connections"] = json!(service.exports.connections(&served.name));
}

/// Where the disks can be reached.
pub fn front_ends(service: &Service) -> Value {
    let mut front_ends: Vec<Value> = lock(&service.servers).iter().map(nbd_front_end).collect();
    for served in service.served() {
        if let Some(directory) = served.mounted_on() {
            let front_end = json!({"kind": "fuse", "volume": served.name});
            front_ends.push(json_path::with(front_end, "address", &directory));
        }
    }
    front_ends.extend(service.ublk.report());
    front_ends.extend(service.vhost.report());
    front_ends.into()
}

fn nbd_front_end(server: &NbdServer) -> Value {
    let NbdStats {
        connections_open,
        connections_total,
        connections_refused,
        handshakes_failed,
        accept_errors,
        requests_in_flight,
        reads,
        read_bytes,
        writes,
        written_bytes,
        flushes,
        zeroings,
        others,
        errors,
    } = server.stats();
    json!({
        "kind": "nbd",
        "address": server.address().to_string(),
        "memory_max_bytes": server.memory_max(),
        "connections_open": connections_open,
        "connections_total": connections_total,
        "connections_refused": connections_refused,
        "handshakes_failed": handshakes_failed,
        "accept_errors": accept_errors,
        "requests_in_flight": requests_in_flight,
        "reads": reads,
        "read_bytes": read_bytes,
        "writes": writes,
        "written_bytes": written_bytes,
        "flushes": flushes,
        "zeroings": zeroings,
        "others": others,
        "errors": errors,
    })
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// What can be changed, as it is.
pub fn settings(pool: &Pool) -> Value {
    let tuning = pool.tuning();
    json!({
        "dirty_low_per_mille": tuning.dirty_low_per_mille,
        "dirty_high_per_mille": tuning.dirty_high_per_mille,
        "flush_rate_limit_bytes_per_s": tuning.flush_rate_limit_bytes_per_s,
        "write_back_bytes_per_s": tuning.write_back_bytes_per_s,
        "verify": match pool.verify() {
            VerifyPolicy::Always => "always",
            VerifyPolicy::Never => "never",
        },
        "replacement": match pool.replacement() {
            ReplacementPolicy::Sieve => "sieve",
            ReplacementPolicy::Lru => "lru",
        },
        "defer_journal": on_or_off(tuning.defer_journal),
        "share_duplicates": on_or_off(tuning.share_duplicates),
        "compare_writes": on_or_off(tuning.compare_writes),
    })
}

fn requests(snapshot: &DeviceSnapshot) -> Value {
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

/// Takes samples one after the other: each has the requests since the one before, so that a screen
/// shows recent latencies, not those since the start.
#[derive(Default)]
pub struct Sampler {
    last: Option<(Instant, BTreeMap<String, DeviceSnapshot>)>,
}

impl Sampler {
    /// The next sample: a `stat` whose volumes have `recent` requests, over `interval_ns` (0 in the
    /// first sample).
    pub fn sample(&mut self, service: &Service) -> Value {
        let mut sample = stat(service);
        let now = Instant::now();
        let mut snapshots = BTreeMap::new();
        for served in service.served() {
            snapshots.insert(served.name.clone(), served.meters.snapshot());
        }
        let (then, earlier) = self.last.take().unwrap_or((now, BTreeMap::new()));
        if let Some(volumes) = sample["volumes"].as_array_mut() {
            for volume in volumes {
                let name = volume["name"].as_str().unwrap_or_default();
                let recent = match (snapshots.get(name), earlier.get(name)) {
                    (Some(snapshot), Some(earlier)) => snapshot.since(earlier),
                    _ => DeviceSnapshot::default(),
                };
                volume["recent"] = requests(&recent);
            }
        }
        sample["interval_ns"] = json!((now - then).as_nanos() as u64);
        self.last = Some((now, snapshots));
        sample
    }
}
