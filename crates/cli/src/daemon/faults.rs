//! Faults on request, in a pool that was made for tests and in no other.

use std::sync::Arc;
use std::time::Duration;

use forebay_serve::{Refusal, RefusalKind, Request};
use serde_json::{Value, json};

use super::service::Service;

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
    let served = service.disks.find(request.required_text("volume")?)?;
    let faults = || {
        let faults = served.behind.faults.as_ref();
        faults.ok_or_else(|| invalid("this disk was attached without faults"))
    };
    match request.required_text("fault")? {
        "flip-bit" => {
            request.knows_only(&["fault", "volume", "block", "bit"])?;
            let block = request
                .number("block")?
                .ok_or_else(|| invalid("flip-bit needs \"block\", a number"))?;
            let bit = request.number("bit")?.unwrap_or(0);
            let volume = &served.behind.volume;
            pool.flip_bit(volume, block, bit)
                .map_err(|error| invalid(&error.to_string()))?;
            Ok(json!({"flipped": {"volume": served.name, "block": block, "bit": bit}}))
        }
        "fail-backing" => {
            request.knows_only(&["fault", "volume", "reads", "writes", "syncs"])?;
            let faults = faults()?;
            let counts = ["reads", "writes", "syncs"].map(|name| request.number(name));
            let [reads, writes, syncs] = counts;
            let (reads, writes, syncs) = (reads?, writes?, syncs?);
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
        "delay-backing" => {
            request.knows_only(&["fault", "volume", "microseconds"])?;
            let microseconds = request
                .number("microseconds")?
                .filter(|microseconds| *microseconds <= DELAY_US_MAX)
                .ok_or_else(|| invalid("delay-backing needs \"microseconds\", 10000000 at most"))?;
            faults()?.delay_requests(Duration::from_micros(microseconds));
            Ok(json!({"delayed": {"volume": served.name, "microseconds": microseconds}}))
        }
        // Asked for by tests alone.
        "try-forbidden" => Ok(attempts(super::sandbox::try_forbidden())),
        "try-files" => Ok(attempts(super::confinement::try_files())),
        other => Err(invalid(&format!(
            "the faults are flip-bit, fail-backing and delay-backing, not {other}"
        ))),
    }
}
