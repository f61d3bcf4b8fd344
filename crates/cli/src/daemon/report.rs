//! What the daemon says about itself, as JSON: for `stat`, `top` and other clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use forebay::Pool;
use forebay_command::disks::report::{daemon, describe, front_ends, requests};
use forebay_command::json_path;
use forebay_serve::latency::DeviceSnapshot;
use serde_json::{Value, json};

use super::service::{Served, Service};
use crate::pool_report;

/// The state of the pool, of every disk, of every front end.
pub fn stat(service: &Service) -> Value {
    let mut report = pool_report::stat(&service.pool, &service.given);
    let served = service.disks.served();
    if let Some(volumes) = report["volumes"].as_array_mut() {
        for volume in volumes {
            let id = volume["id"].as_u64();
            let is_it = |served: &&Arc<Served>| Some(u64::from(served.behind.volume.id())) == id;
            if let Some(served) = served.iter().find(is_it) {
                describe(&service.disks, served, volume);
                volume["requests"] = requests(&served.meters.snapshot());
            }
        }
    }
    if let Some(behind) = &service.behind {
        report["behind"] = pool_report::stat(&behind.pool, std::slice::from_ref(&behind.given));
    }
    report["regions"] = match service.regions.lock().as_ref() {
        Some(regions) => regions.stat(),
        None => json!([]),
    };
    report["front_ends"] = front_ends(&service.disks);
    report["settings"] = settings(&service.pool);
    report["daemon"] = daemon(service.disks.started);
    report
}

/// One disk.
pub fn volume(service: &Service, served: &Arc<Served>) -> Value {
    let mut report = json!({
        "id": served.behind.volume.id(),
        "size_bytes": served.disk.size_bytes(),
    });
    json_path::put(&mut report, "backing", Some(&served.backing));
    describe(&service.disks, served, &mut report);
    report
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
        "verify": pool.verify().to_string(),
        "replacement": pool.replacement().to_string(),
        "defer_journal": on_or_off(tuning.defer_journal),
        "share_duplicates": on_or_off(tuning.share_duplicates),
        "compare_writes": on_or_off(tuning.compare_writes),
        "sequential_cutoff_bytes": tuning.sequential_cutoff_bytes,
        "read_ahead_bytes": tuning.read_ahead_bytes,
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
        for served in service.disks.served() {
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
