//! `forebay dax`: the mapped regions of a pool, with the daemon's word where one serves it.

use std::ops::Range;
use std::time::{Duration, Instant};

use forebay_command::{Failure, output, size};
use forebay_dax::{CreateOptions, DaxRegion, OpenOptions};
use forebay_serve::{Client, ClientError, RefusalKind, Request, control_path};
use serde_json::{Value, json};

use crate::arguments::{
    DaxAcceptOptions, DaxAction, DaxCreateOptions, DaxPoolArguments, DaxRebuildOptions,
    DaxRegionOptions,
};
use crate::regions::{self, Owner};
use crate::requests::Regions;

/// Periods of the keeper that it is given to seal a region, and the least time.
const SEAL_PERIODS: f64 = 4.0;
const SEAL_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is asked whether it has.
const SEAL_LOOK: Duration = Duration::from_millis(50);

/// Does what was asked.
pub fn run(action: &DaxAction) -> Result<(), Failure> {
    match action {
        DaxAction::Create(options) => create(options),
        DaxAction::List(of) => list(of),
        DaxAction::Open(options) => open(options),
        DaxAction::Seal(options) => seal(options),
        DaxAction::Verify(options) => verify(options),
        DaxAction::Accept(options) => accept(options),
        DaxAction::Rebuild(options) => rebuild(options),
    }
}

/// The pool's regions: as the daemon says, or as they lie beside an idle pool.
fn report(of: &DaxPoolArguments) -> Result<(Owner, Value), Failure> {
    match Client::connect(&control_path(&of.pool))? {
        Some(mut client) => match client.request(&Request::of(&Regions {}), |_| true) {
            Ok(report) => Ok((Owner::from_report(&report)?, report)),
            // A mount keeps no regions.
            Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::UnknownCommand => {
                unkept(of)
            }
            Err(error) => Err(error.into()),
        },
        None => unkept(of),
    }
}

/// The regions as they lie beside the pool.
fn unkept(of: &DaxPoolArguments) -> Result<(Owner, Value), Failure> {
    let owner = Owner::beside(&of.paths(), of.trust)?;
    let report = owner.report(&[])?;
    Ok((owner, report))
}

/// The region of this name, in a report.
fn region_in<'r>(report: &'r Value, name: &str) -> Option<&'r Value> {
    let regions = report["regions"].as_array()?;
    regions.iter().find(|region| region["name"] == name)
}

fn create(options: &DaxCreateOptions) -> Result<(), Failure> {
    let (owner, before) = report(&options.of)?;
    let asked = CreateOptions::new(options.size).width(options.width);
    let created =
        DaxRegion::create(&owner.pool(), &options.name, &asked).map_err(regions::failure)?;
    if let Some(period_ms) = before["period_ms"].as_f64() {
        wait_for_keeping(&options.of, &options.name, patience(period_ms))?;
    }
    let paths: Vec<_> = created
        .paths
        .iter()
        .map(|path| path.to_string_lossy())
        .collect();
    if options.of.json {
        let report = json!({
            "name": options.name,
            "size_bytes": created.size_bytes,
            "width": created.width,
            "paths": paths,
            "survives": created.survives,
        });
        output::object(&report, true);
        return Ok(());
    }
    output::line(&format!(
        "created {}: {} that programs map at {}",
        options.name,
        size::shown(created.size_bytes),
        paths[..created.width as usize].join(", ")
    ));
    output::line(&created.survives);
    output::line("mapped regions are for trials so far: keep no only copy of anything in one");
    if created.width > 1 {
        output::line(
            "its bytes are spread over several files: programs open it by the library, in Rust or C",
        );
    }
    Ok(())
}

fn list(of: &DaxPoolArguments) -> Result<(), Failure> {
    let (_, report) = report(of)?;
    output::object(&json!({"regions": report["regions"]}), of.json);
    let all = report["regions"].as_array().into_iter().flatten();
    let bad = all.filter(|region| region["faults"] != json!([]));
    let bad: Vec<_> = bad.filter_map(|region| region["name"].as_str()).collect();
    match bad.is_empty() {
        true => Ok(()),
        false => Err(Failure::Damaged(format!(
            "of {} not everything is there; bring the files back, or forebay dax rebuild makes anew what can be had",
            bad.join(", ")
        ))),
    }
}

/// Opens a region, and leaves it so: what is stored then is compared when it is sealed.
fn open(options: &DaxRegionOptions) -> Result<(), Failure> {
    let (owner, report) = report(&options.of)?;
    if report["period_ms"].is_number() {
        output::note(
            "a daemon serves the pool, and opens its regions by itself when a program does",
        );
    }
    let opened = DaxRegion::open(&owner.pool(), &options.name, &OpenOptions::default());
    let region = opened.map_err(regions::failure)?;
    let report = json!({
        "name": options.name,
        "state": region.status().state.to_string(),
        "generation": region.status().generation,
    });
    // Not closed, which would seal it.
    drop(region);
    output::object(&report, options.of.json);
    Ok(())
}

fn seal(options: &DaxRegionOptions) -> Result<(), Failure> {
    let (of, name) = (&options.of, options.name.as_str());
    let (owner, report) = report(of)?;
    let sealed = match report["period_ms"].as_f64() {
        Some(period_ms) if region_in(&report, name).is_some() => {
            wait_for_seal(of, name, patience(period_ms))?
        }
        _ => {
            let sealed = forebay_dax::seal(&owner.pool(), name).map_err(regions::failure)?;
            regions::sealed_report(name, &sealed)
        }
    };
    output::object(&sealed, of.json);
    Ok(())
}

/// How long a daemon with this period is waited for.
fn patience(period_ms: f64) -> Duration {
    Duration::from_secs_f64(period_ms * SEAL_PERIODS / 1e3).max(SEAL_PATIENCE)
}

/// Waits until the daemon has found a new region: what is stored before that is unverified later.
fn wait_for_keeping(of: &DaxPoolArguments, name: &str, patience: Duration) -> Result<(), Failure> {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        let (_, report) = report(of)?;
        let keeper = region_in(&report, name).map(|region| &region["keeper"]);
        if keeper.is_some_and(|keeper| keeper["leased"] == true || keeper["trouble"].is_string()) {
            return Ok(());
        }
        std::thread::sleep(SEAL_LOOK);
    }
    output::note("the daemon does not keep the region yet: forebay dax list says when it does");
    Ok(())
}

/// Waits until the daemon has sealed a region, as it does when no program has it open.
fn wait_for_seal(of: &DaxPoolArguments, name: &str, patience: Duration) -> Result<Value, Failure> {
    let until = Instant::now() + patience;
    loop {
        let (_, report) = report(of)?;
        let region = region_in(&report, name).cloned().unwrap_or_default();
        if region["state"] == "sealed" {
            return Ok(region);
        }
        if Instant::now() > until {
            let why = region["keeper"]["trouble"]
                .as_str()
                .map_or_else(|| String::from("a program may have it open"), str::to_owned);
            return Err(Failure::InUse(format!(
                "region {name} is {} still, and the daemon seals it when no program has it open: {why}",
                region["state"].as_str().unwrap_or("open")
            )));
        }
        std::thread::sleep(SEAL_LOOK);
    }
}

fn verify(options: &DaxRegionOptions) -> Result<(), Failure> {
    let (owner, _) = report(&options.of)?;
    let opened = DaxRegion::open(&owner.pool(), &options.name, &OpenOptions::default());
    let region = opened.map_err(regions::failure)?;
    let verified = region.verify(0..region.len()).map_err(regions::failure)?;
    let mut report = json!({
        "name": options.name,
        "looked_at": verified.looked_at,
        "skipped_as_written": verified.skipped_as_written,
        "repaired": verified.repaired,
        "damaged": verified.damaged,
        "unverified": runs(&verified.unverified),
        "lost": runs(&verified.lost),
    });
    if verified.damaged.is_empty() {
        let sealed = region.close().map_err(regions::failure)?;
        report["state"] = "sealed".into();
        report["unverified_pages"] = sealed.unverified_pages.into();
        report["lost_pages"] = sealed.lost_pages.into();
        output::object(&report, options.of.json);
        return Ok(());
    }
    output::object(&report, options.of.json);
    Err(Failure::Damaged(format!(
        "{} pages of {} are damaged and their rows do not give them; store them anew from a copy",
        verified.damaged.len(),
        options.name
    )))
}

/// Ranges of bytes, as JSON.
fn runs(ranges: &[Range<u64>]) -> Value {
    let run = |range: &Range<u64>| json!({"offset": range.start, "bytes": range.end - range.start});
    ranges.iter().map(run).collect()
}

fn accept(options: &DaxAcceptOptions) -> Result<(), Failure> {
    let DaxRegionOptions { of, name } = &options.region;
    let (owner, _) = report(of)?;
    let opened = DaxRegion::open(&owner.pool(), name, &OpenOptions::default());
    let region = opened.map_err(regions::failure)?;
    let range = match (options.offset, options.bytes) {
        (Some(offset), Some(bytes)) => offset..offset.saturating_add(bytes),
        _ => 0..region.len(),
    };
    let accepted = region.accept(range).map_err(regions::failure)?;
    let sealed = region.close().map_err(regions::failure)?;
    let mut report = regions::sealed_report(name, &sealed);
    report["accepted_pages"] = accepted.into();
    output::object(&report, of.json);
    Ok(())
}

fn rebuild(options: &DaxRebuildOptions) -> Result<(), Failure> {
    let (owner, _) = report(&options.of)?;
    let how = OpenOptions::default()
        .without_missing(true)
        .accept_loss(options.accept_loss);
    let opened = DaxRegion::open(&owner.pool(), &options.name, &how);
    let sealed = opened
        .and_then(DaxRegion::close)
        .map_err(regions::failure)?;
    output::object(
        &regions::sealed_report(&options.name, &sealed),
        options.of.json,
    );
    Ok(())
}
