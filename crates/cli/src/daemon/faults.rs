//! Faults on request, in a pool that was made for tests and in no other.

use std::sync::Arc;
use std::time::Duration;

use forebay_serve::{Refusal, RefusalKind, Request};
use serde_json::{Value, json};

use super::service::Service;
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

/// Breaks what the request names.
pub fn inject(service: &Arc<Service>, request: &Request) -> Result<Value, Refusal> {
    let invalid = |message: &str| Refusal::new(RefusalKind::Invalid, message);
    let pool = &service.pool;
    if !pool.is_test() {
        return Err(invalid(
            "this pool holds real data; faults are for pools made with forebay create --test",
        ));
    }
    let fault: Fault = request.parameters()?;
    let served = service.disks.find(fault.volume())?;
    let faults = || {
        let faults = served.behind.faults.as_ref();
        faults.ok_or_else(|| invalid("this disk was attached without faults"))
    };
    match fault {
        Fault::FlipBit { block, bit, .. } => {
            let volume = &served.behind.volume;
            pool.flip_bit(volume, block, bit)
                .map_err(|error| invalid(&error.to_string()))?;
            Ok(json!({"flipped": {"volume": served.name, "block": block, "bit": bit}}))
        }
        Fault::FailBacking {
            reads,
            writes,
            syncs,
            ..
        } => {
            let faults = faults()?;
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
        Fault::DelayBacking { microseconds, .. } => {
            if microseconds > DELAY_US_MAX {
                return Err(invalid(&format!(
                    "\"microseconds\" of fault is {microseconds}; it is {DELAY_US_MAX} at most"
                )));
            }
            faults()?.delay_requests(Duration::from_micros(microseconds));
            Ok(json!({"delayed": {"volume": served.name, "microseconds": microseconds}}))
        }
        Fault::TryForbidden { .. } => Ok(attempts(super::sandbox::try_forbidden())),
        Fault::TryFiles { .. } => Ok(attempts(super::confinement::try_files())),
    }
}
