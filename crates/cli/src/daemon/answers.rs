//! What the daemon answers on its control socket; `docs/using/control-socket.md` lists it for clients.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use forebay::{
    DrainProgress, Pool, RebuildProgress, ReplacementPolicy, ScrubOptions, VerifyPolicy,
};
use forebay_command::Failure;
use forebay_command::disks;
use forebay_command::disks::DiskSettings;
use forebay_command::progress::RebuildReports;
use forebay_serve::control::{Handler, Parameters, Progress};
use forebay_serve::{Refusal, RefusalKind, Request};
use serde_json::{Value, json};

use super::refusals::{core_refusal, refusal, watch};
use super::report;
use super::service::{AttachError, Service};
use crate::config::{Replacement, Tunables, Verify};
use crate::members;
use crate::regions::Owner;
use crate::requests::{
    Attach, Detach, FailMember, Fault, Flush, FrontEnds, GrowVolume, Members, Regions,
    ReplaceMember, Sample, ScrubStart, ScrubStatus, ScrubStop, SetWitness, Stat,
};

/// How often a wait checks that the client is still there.
const CALLED_OFF_INTERVAL: Duration = Duration::from_millis(200);

/// The commands that the daemon knows.
const COMMANDS: &str = "stat, front-ends, sample, attach, detach, flush, set, grow-volume, \
                        members, fail-member, replace-member, set-witness, scrub-start, scrub-stop, scrub-status, regions, fault";

/// Answers for a service while it lasts.
pub struct Answers(pub Weak<Service>);

impl Handler for Answers {
    fn handle(&self, request: &Request, progress: &mut dyn Progress) -> Result<Value, Refusal> {
        // A client that watches must not keep the pool open when the daemon ends.
        if request.command == Sample::COMMAND {
            return sample(&self.0, &request.parameters()?, progress);
        }
        let service = self.0.upgrade().ok_or_else(is_ending)?;
        let is_change = !matches!(
            request.command.as_str(),
            Stat::COMMAND
                | FrontEnds::COMMAND
                | Members::COMMAND
                | ScrubStatus::COMMAND
                | Regions::COMMAND
        );
        let result = answer(&service, request, progress);
        if is_change {
            match &result {
                Ok(_) => tracing::info!(command = request.command, "done"),
                Err(refusal) => tracing::warn!(command = request.command, %refusal, "refused"),
            }
        }
        result
    }
}

fn is_ending() -> Refusal {
    Refusal::new(RefusalKind::Busy, "the daemon is ending")
}

fn answer(
    service: &Arc<Service>,
    request: &Request,
    progress: &mut dyn Progress,
) -> Result<Value, Refusal> {
    match request.command.as_str() {
        Stat::COMMAND => {
            request.parameters::<Stat>()?;
            Ok(report::stat(service))
        }
        FrontEnds::COMMAND => {
            request.parameters::<FrontEnds>()?;
            Ok(json!({"front_ends": disks::report::front_ends(&service.disks)}))
        }
        Attach::COMMAND => attach(service, request.parameters()?),
        Detach::COMMAND => super::detach::detach(service, &request.parameters()?, progress),
        Flush::COMMAND => flush(service, &request.parameters()?, progress),
        Tunables::COMMAND => set(service, &request.parameters()?),
        GrowVolume::COMMAND => grow_volume(service, &request.parameters()?),
        Members::COMMAND => {
            request.parameters::<Members>()?;
            Ok(members::list(&service.pool, &service.given))
        }
        FailMember::COMMAND => {
            let fail: FailMember = request.parameters()?;
            members::fail(&service.pool, &service.given, &fail.member).map_err(refusal)
        }
        ReplaceMember::COMMAND => replace_member(service, &request.parameters()?, progress),
        SetWitness::COMMAND => set_witness(service, &request.parameters()?),
        ScrubStart::COMMAND => scrub_start(service, &request.parameters()?),
        ScrubStop::COMMAND => {
            request.parameters::<ScrubStop>()?;
            Ok(service.scrub.stop(&service.pool))
        }
        ScrubStatus::COMMAND => {
            request.parameters::<ScrubStatus>()?;
            Ok(service.scrub.status(&service.pool))
        }
        Regions::COMMAND => {
            request.parameters::<Regions>()?;
            regions(service).map_err(refusal)
        }
        Fault::COMMAND => super::faults::inject(service, request, progress),
        other => Err(Refusal::new(
            RefusalKind::UnknownCommand,
            format!("the daemon knows {COMMANDS}, not {other}"),
        )),
    }
}

fn attach(service: &Arc<Service>, attach: Attach) -> Result<Value, Refusal> {
    let settings = DiskSettings {
        backing: PathBuf::from(attach.backing),
        name: attach.name,
        fuse: attach.fuse.map(PathBuf::from),
        ublk: attach.ublk,
        vhost_user: attach.vhost_user.map(PathBuf::from),
    };
    let _changing = service.change()?;
    let has_nbd = !service.disks.servers.lock().is_empty();
    if !settings.has_front_end() && !has_nbd {
        return Err(Refusal::new(
            RefusalKind::Invalid,
            "the daemon listens for no NBD clients, so that no program could reach the disk; name a \
             directory with --fuse or a socket with --vhost-user, or ask for --ublk",
        ));
    }
    match service.attach(&settings, attach.accept_stale) {
        Ok(served) => Ok(report::volume(service, &served)),
        Err(AttachError::Refused(failure)) => Err(refusal(failure)),
        Err(AttachError::HalfDone(failure, served)) => {
            let undone = service.undo(&served);
            let mut refusal = refusal(failure);
            if let Err(failure) = undone {
                let name = &served.name;
                let note = format!(
                    "; {name} stays attached ({failure}): take it away with forebay detach"
                );
                refusal.message.push_str(&note);
            }
            Err(refusal)
        }
    }
}

fn flush(
    service: &Arc<Service>,
    flush: &Flush,
    progress: &mut dyn Progress,
) -> Result<Value, Refusal> {
    let served = match &flush.volume {
        Some(name) => vec![service.disks.find(name)?],
        None => service.disks.served(),
    };
    for served in served {
        let mut watcher = |drain: &DrainProgress| watch(progress, drain);
        for volume in served.behind.volumes() {
            let flushed = volume.flush_watched(&mut watcher);
            flushed.map_err(core_refusal)?;
        }
    }
    Ok(json!({"flushed": true}))
}

/// Puts settings in force.
pub fn tune(pool: &Pool, tunables: &Tunables) -> Result<(), Refusal> {
    let invalid = |error: forebay::Error| Refusal::new(RefusalKind::Invalid, error.to_string());
    let now = pool.tuning();
    if tunables.dirty_low.is_some() || tunables.dirty_high.is_some() {
        let per_mille = |percent: u8| u32::from(percent) * 10;
        let low = tunables
            .dirty_low
            .map_or(now.dirty_low_per_mille, per_mille);
        let high = tunables
            .dirty_high
            .map_or(now.dirty_high_per_mille, per_mille);
        pool.set_watermarks(low, high).map_err(invalid)?;
    }
    if let Some(bytes_per_s) = tunables.flush_rate {
        pool.set_flush_rate_limit(bytes_per_s);
    }
    if let Some(verify) = tunables.verify {
        pool.set_verify(verify_policy(verify));
    }
    if let Some(replacement) = tunables.replacement {
        pool.set_replacement(replacement_policy(replacement));
    }
    if let Some(defers) = tunables.defer_journal {
        pool.set_defer_journal(defers.is_on());
    }
    if let Some(shares) = tunables.share_duplicates {
        pool.set_share_duplicates(shares.is_on());
    }
    if let Some(compares) = tunables.compare_writes {
        pool.set_compare_writes(compares.is_on());
    }
    if let Some(cutoff_bytes) = tunables.sequential_cutoff {
        pool.set_sequential_cutoff(cutoff_bytes);
    }
    if let Some(bytes) = tunables.read_ahead {
        pool.set_read_ahead(bytes);
    }
    Ok(())
}

/// The cache's name for it.
pub fn verify_policy(verify: Verify) -> VerifyPolicy {
    match verify {
        Verify::Always => VerifyPolicy::Always,
        Verify::Sampled => VerifyPolicy::Sampled,
        Verify::Scrub => VerifyPolicy::Scrub,
        Verify::Never => VerifyPolicy::Never,
    }
}

/// The cache's name for it.
pub fn replacement_policy(replacement: Replacement) -> ReplacementPolicy {
    match replacement {
        Replacement::Sieve => ReplacementPolicy::Sieve,
        Replacement::Lru => ReplacementPolicy::Lru,
    }
}

fn set(service: &Arc<Service>, tunables: &Tunables) -> Result<Value, Refusal> {
    let _changing = service.change()?;
    tune(&service.pool, tunables)?;
    Ok(report::settings(&service.pool))
}

fn grow_volume(service: &Arc<Service>, grow: &GrowVolume) -> Result<Value, Refusal> {
    let _changing = service.change()?;
    let served = service.disks.find(&grow.volume)?;
    let volume = &served.behind.volume;
    let before_bytes = volume.size_bytes();
    let size_bytes = service.pool.grow_volume(volume).map_err(core_refusal)?;
    Ok(json!({
        "volume": served.name,
        "size_bytes": size_bytes,
        "grown_bytes": size_bytes - before_bytes,
    }))
}

/// The mapped regions; those of a pool that can have none are an error that says why.
fn regions(service: &Service) -> Result<Value, Failure> {
    match service.regions.lock().as_ref() {
        Some(regions) => regions.list(),
        None => Owner::of(&service.pool, &service.given)?.report(&[]),
    }
}

fn scrub_start(service: &Service, start: &ScrubStart) -> Result<Value, Refusal> {
    if start.rate == Some(0) {
        let message = "\"rate\" of scrub-start is 0; leave it out for no limit";
        return Err(Refusal::new(RefusalKind::Invalid, message));
    }
    let options = ScrubOptions::default()
        .rate_bytes_s(start.rate)
        .resume(!start.restart);
    service.scrub.start(&service.pool, options)
}

fn replace_member(
    service: &Service,
    replace: &ReplaceMember,
    progress: &mut dyn Progress,
) -> Result<Value, Refusal> {
    let path = replace.path.as_deref().map(Path::new);
    if let Some(path) = path.filter(|path| !path.is_absolute()) {
        let message = format!("\"path\" of replace-member is {path:?}; it is an absolute path");
        return Err(Refusal::new(RefusalKind::Invalid, message));
    }
    let options = members::rebuild_options(replace.force, replace.rate).map_err(refusal)?;
    let _rebuilding = service.rebuild()?;
    let planned = members::plan_rebuild(&service.pool, &service.given, &replace.member, path);
    let rebuild = planned.map_err(refusal)?;
    service.check_confined(&rebuild.path).map_err(refusal)?;
    let mut reports = RebuildReports::begin();
    let mut watcher = |rebuild: RebuildProgress| {
        let told = reports.next(&rebuild).map(|told| progress.report(told));
        match matches!(told, Some(Err(_))) || service.is_ending() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let rebuilt = rebuild.carry_out(&service.pool, &options, &mut watcher);
    rebuilt.map_err(refusal)
}

fn set_witness(service: &Service, set: &SetWitness) -> Result<Value, Refusal> {
    let path = set.path.as_deref().map(Path::new);
    if let Some(path) = path.filter(|path| !path.is_absolute()) {
        let message = format!("\"path\" of set-witness is {path:?}; it is an absolute path");
        return Err(Refusal::new(RefusalKind::Invalid, message));
    }
    // No member leaves or joins by another request meanwhile.
    let _rebuilding = service.rebuild()?;
    if let Some(path) = path {
        service.check_confined(path).map_err(refusal)?;
    }
    members::set_witness(&service.pool, path).map_err(refusal)
}

/// Samples for a screen: one at once, then one an interval, until the client goes away or has
/// `count` of them.
fn sample(
    service: &Weak<Service>,
    request: &Sample,
    progress: &mut dyn Progress,
) -> Result<Value, Refusal> {
    let interval = request.interval_ms.unwrap_or(1000);
    if !(100..=60_000).contains(&interval) {
        return Err(Refusal::new(
            RefusalKind::Invalid,
            format!("\"interval_ms\" is {interval}; it is from 100 to 60000"),
        ));
    }
    let count = request.count.unwrap_or(u64::MAX);
    let mut sampler = report::Sampler::default();
    for number in 0..count {
        if number > 0 {
            rest(progress, Duration::from_millis(interval))?;
        }
        let service = service.upgrade().ok_or_else(is_ending)?;
        let sample = sampler.sample(&service);
        drop(service);
        progress.report(sample)?;
    }
    Ok(json!({"samples": count}))
}

/// Waits, as long as the client waits for the outcome.
fn rest(progress: &dyn Progress, time: Duration) -> Result<(), Refusal> {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        if progress.is_called_off() {
            return Err(Refusal::new(
                RefusalKind::Cancelled,
                "called off by the side that asked",
            ));
        }
        std::thread::sleep(left.min(CALLED_OFF_INTERVAL));
    }
}
