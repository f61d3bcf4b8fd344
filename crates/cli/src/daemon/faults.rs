//! Faults on request, in a pool that was made for tests and in no other.

use std::sync::Arc;
use std::time::Duration;

use forebay::FaultyStore;
use forebay_serve::control::Progress;
use forebay_serve::{Refusal, RefusalKind, Request};
use serde_json::{Value, json};

use super::service::{PoolDisk, Service};
use crate::requests::Fault;

/// Longer than any disk takes, and still short enough to wait for an end.
const DELAY_US_MAX: u64 = 10_000_000;

fn attempts(met: Vec<(&'static str, Option<i32>)>) -> Value {
    let met = met.into_iter();
    let met: serde_json::Map<_, _> = met
        .map(|(attempt, errno)| (attempt.to_owned(), json!(errno)))
        .collect();
    json!({"errno": met})
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Invalid, message)
}

/// Breaks what the request names.
pub fn inject(
    service: &Arc<Service>,
    request: &Request,
    progress: &mut dyn Progress,
) -> Result<Value, Refusal> {
    let pool = &service.pool;
    if !pool.is_test() {
        return Err(invalid(
            "this pool holds real data; faults are for pools made with forebay create --test",
        ));
    }
    let find = |volume: &str| service.disks.find(volume);
    match request.parameters()? {
        Fault::Inject(drill) => super::drills::inject(service, &drill, progress),
        Fault::FlipBit { volume, block, bit } => {
            let served = find(&volume)?;
            pool.flip_bit(&served.behind.volume, block, bit)
                .map_err(|error| invalid(error.to_string()))?;
            Ok(json!({"flipped": {"volume": served.name, "block": block, "bit": bit}}))
        }
        Fault::FailBacking {
            volume,
            reads,
            writes,
            syncs,
        } => {
            let served = find(&volume)?;
            let faults = faults_of(&served.behind)?;
            if let Some(count) = reads {
                faults.fail_reads(count);
            }
            if let Some(count) = writes {
                faults.fail_writes(count);
            }
            if let Some(count) = syncs {
                faults.fail_syncs(count);
            }
            Ok(json!({"failing": {"reads": reads, "writes": writes, "syncs": syncs}}))
        }
        Fault::DelayBacking {
            volume,
            microseconds,
        } => {
            if microseconds > DELAY_US_MAX {
                return Err(invalid(format!(
                    "\"microseconds\" of fault is {microseconds}; it is {DELAY_US_MAX} at most"
                )));
            }
            let served = find(&volume)?;
            faults_of(&served.behind)?.delay_requests(Duration::from_micros(microseconds));
            Ok(json!({"delayed": {"volume": served.name, "microseconds": microseconds}}))
        }
        Fault::TryForbidden { volume } => {
            find(&volume).map(|_| attempts(super::sandbox::try_forbidden()))
        }
        Fault::TryFiles { volume } => {
            find(&volume).map(|_| attempts(super::confinement::try_files()))
        }
    }
}

fn faults_of(disk: &PoolDisk) -> Result<&FaultyStore, Refusal> {
    let faults = disk.faults.as_deref();
    faults.ok_or_else(|| invalid("this disk was attached without faults"))
}
