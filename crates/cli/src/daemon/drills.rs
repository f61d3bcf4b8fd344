//! Drills of a member of a test pool, while it is served.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::internals::{Drill, DrillKind as Kind, DrillStrike};
use forebay_command::json_path;
use forebay_serve::control::Progress;
use forebay_serve::{Refusal, RefusalKind};
use serde_json::{Value, json};

use super::refusals::core_refusal;
use super::service::Service;
use crate::drills::{Area, DrillKind, Inject};
use crate::members;

/// How long a drill waits for a write, unless it is said.
const WAIT_S: u64 = 10;
/// An hour is longer than anyone looks on.
const WAIT_S_MAX: u64 = 3600;

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Invalid, message)
}

/// Has a member do what a drill says. The pool is one for tests.
pub(super) fn inject(
    service: &Arc<Service>,
    inject: &Inject,
    progress: &mut dyn Progress,
) -> Result<Value, Refusal> {
    let kind = match inject.kind {
        DrillKind::BitFlip => Kind::BitFlip,
        DrillKind::LostWrite => Kind::LostWrite,
        DrillKind::MisdirectedWrite => Kind::MisdirectedWrite,
        DrillKind::MisdirectedRead => Kind::MisdirectedRead,
        DrillKind::TornLine => Kind::TornLine,
        DrillKind::Poison => Kind::Poison,
        DrillKind::DeadMember => Kind::DeadMember,
        DrillKind::StaleMember => {
            return Err(invalid(
                "a member becomes stale while no daemon serves the pool; end this one, and keep a copy of the member",
            ));
        }
    };
    let block = match (&inject.volume, inject.block) {
        (None, None) => None,
        (Some(name), Some(block)) => {
            let volume = &service.disks.find(name)?.behind.volume;
            if block >= volume.blocks() {
                return Err(invalid(format!(
                    "\"block\" of fault is {block}; {name} has {} blocks",
                    volume.blocks()
                )));
            }
            Some((volume.id(), block))
        }
        _ => return Err(invalid("\"volume\" and \"block\" of fault go together")),
    };
    let wait_s = inject.wait.unwrap_or(WAIT_S);
    if !(1..=WAIT_S_MAX).contains(&wait_s) {
        return Err(invalid(format!(
            "\"wait\" of fault is {wait_s}; it is from 1 to {WAIT_S_MAX} seconds"
        )));
    }
    let area = inject.area.unwrap_or(Area::Slot);
    let drill = Drill {
        kind,
        member: inject.member,
        area: area.medium_area(),
        block,
        seed: inject.seed,
    };
    let until = Instant::now() + Duration::from_secs(wait_s);
    let mut is_told = false;
    let mut go_on = || {
        let waiting = json!({"stage": "waiting", "for": "a write"});
        let is_alone = !is_told && progress.report(waiting).is_err();
        is_told = true;
        let is_over = is_alone || progress.is_called_off() || service.is_ending();
        match is_over || Instant::now() >= until {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let struck = service.pool.inject(&drill, &mut go_on);
    let struck = struck.map_err(|error| match error.kind() {
        forebay::ErrorKind::Options(message) => invalid(message.clone()),
        _ => core_refusal(error),
    })?;
    match struck {
        Some(struck) => Ok(report(service, inject.kind, area, &struck)),
        None if progress.is_called_off() => Err(Refusal::new(
            RefusalKind::Cancelled,
            "called off; nothing was changed",
        )),
        None => Err(Refusal::new(
            RefusalKind::Failed,
            format!("nothing was written there within {wait_s} s, so that nothing was changed"),
        )),
    }
}

fn report(service: &Arc<Service>, kind: DrillKind, area: Area, struck: &DrillStrike) -> Value {
    let mut injected = json!({"kind": kind.name(), "member": struck.member});
    let members = members::of(&service.pool, &service.given);
    let member = members.iter().find(|member| member.number == struck.member);
    json_path::put(
        &mut injected,
        "path",
        member.and_then(|member| member.path.as_deref()),
    );
    if kind != DrillKind::DeadMember {
        injected["area"] = area.name().into();
        injected["offset"] = struck.offset.into();
        injected["bytes"] = struck.bytes.into();
    }
    if let Some(bit) = struck.bit {
        injected["bit"] = bit.into();
    }
    if let Some(offset) = struck.other_offset {
        injected["other_offset"] = offset.into();
    }
    if let Some((volume, block)) = struck.block {
        let disks = service.disks.served();
        let disk = disks.iter().find(|disk| disk.behind.volume.id() == volume);
        injected["volume"] = disk.map(|disk| disk.name.as_str()).into();
        injected["block"] = block.into();
    }
    if kind != DrillKind::DeadMember {
        injected["seed"] = struck.seed.into();
    }
    json!({"injected": injected})
}
