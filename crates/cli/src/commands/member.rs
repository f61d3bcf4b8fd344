//! `forebay member`: the members of a mirrored pool, through the daemon or, on an idle pool, here.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;

use forebay::Pool;
use forebay_command::progress::{RebuildReports, WorkBar};
use forebay_command::{Failure, output, private_directory, progress};
use forebay_serve::{Client, Request, control_path};
use serde_json::Value;

use crate::arguments::{MemberAction, MemberPool, RebuildArguments};
use crate::commands::attach;
use crate::requests::{FailMember, Members, ReplaceMember, SetWitness};
use crate::{idle_pool, members};

/// Does what was asked.
pub fn run(action: &MemberAction) -> Result<(), Failure> {
    match action {
        MemberAction::List(of) => list(of),
        MemberAction::Fail(options) => fail(&options.of, &options.name),
        MemberAction::Replace(options) => {
            let path = Some(options.path.as_path());
            replace(&options.of, &options.name, path, options.how)
        }
        MemberAction::Readd(options) => replace(&options.of, &options.name, None, options.how),
        MemberAction::Witness(options) => witness(&options.of, options.path.as_deref()),
    }
}

fn list(of: &MemberPool) -> Result<(), Failure> {
    let report = match Client::connect(&control_path(&of.pool))? {
        Some(mut client) => client.request(&Request::of(&Members {}), |_| true)?,
        None => {
            let given = of.paths();
            members::list(&idle_pool::open_private(&given, of.opening)?, &given)
        }
    };
    output::object(&report, of.json);
    match report["pool"].as_str() {
        Some(condition) if condition.starts_with(members::POISONED) => {
            Err(Failure::Failed(format!("the pool is {condition}")))
        }
        Some(condition) if condition != "whole" => Err(Failure::Degraded(format!(
            "the pool is {condition}; {}",
            way_out(&report)
        ))),
        _ => Ok(()),
    }
}

/// What makes a pool whole that is not.
fn way_out(report: &Value) -> &'static str {
    let mut members = report["members"].as_array().into_iter().flatten();
    let is_member_lacking = members.any(|member| member["state"] != "in");
    match (is_member_lacking, report["witness"]["state"] == "missing") {
        (_, false) => "forebay member readd or replace makes it whole",
        (false, true) => "bring the witness back, or name another one with forebay member witness",
        (true, true) => {
            "bring the witness back, or open the pool without it (--without-missing); then forebay member readd or \
             replace makes it whole"
        }
    }
}

fn fail(of: &MemberPool, name: &Path) -> Result<(), Failure> {
    let member = text_of(name)?;
    let report = match Client::connect(&control_path(&of.pool))? {
        Some(mut client) => client.request(&Request::of(&FailMember { member }), |_| true)?,
        None => {
            let given = of.paths();
            let pool = idle_pool::open(&given, of.opening.runtime().background(false))?;
            let failed = members::fail(&pool, &given, &member);
            closed_after(pool, failed)?
        }
    };
    output::object(&report, of.json);
    Ok(())
}

fn witness(of: &MemberPool, path: Option<&Path>) -> Result<(), Failure> {
    let path = path.map(attach::text).transpose()?;
    let report = match Client::connect(&control_path(&of.pool))? {
        Some(mut client) => client.request(&Request::of(&SetWitness { path }), |_| true)?,
        None => {
            let pool = idle_pool::open(&of.paths(), of.opening.runtime().background(false))?;
            let set = members::set_witness(&pool, path.as_deref().map(Path::new));
            closed_after(pool, set)?
        }
    };
    output::object(&report, of.json);
    Ok(())
}

fn replace(
    of: &MemberPool,
    name: &Path,
    path: Option<&Path>,
    how: RebuildArguments,
) -> Result<(), Failure> {
    let member = text_of(name)?;
    let report = match Client::connect(&control_path(&of.pool))? {
        Some(mut client) => {
            let path = path.map(attach::text).transpose()?;
            let request = Request::of(&ReplaceMember {
                member,
                path,
                force: how.force,
                rate: how.rate,
            });
            progress::ask_patiently(&mut client, &request)?
        }
        None => replace_here(of, &member, path, how)?,
    };
    output::object(&report, of.json);
    Ok(())
}

fn replace_here(
    of: &MemberPool,
    name: &str,
    path: Option<&Path>,
    how: RebuildArguments,
) -> Result<Value, Failure> {
    let options = members::rebuild_options(how.force, how.rate)?;
    let is_called_off = progress::called_off_flag()?;
    if let Some(path) = path {
        private_directory::make_for(path)?;
    }
    let given = of.paths();
    let pool = idle_pool::open(&given, of.opening.runtime().background(false))?;
    let (mut bar, mut reports) = (WorkBar::default(), RebuildReports::begin());
    let mut watcher = |progress| {
        if let Some(report) = reports.next(&progress) {
            bar.show(&report);
        }
        match is_called_off.load(Ordering::SeqCst) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let planned = members::plan_rebuild(&pool, &given, name, path);
    let replaced = planned.and_then(|rebuild| rebuild.carry_out(&pool, &options, &mut watcher));
    bar.clear();
    closed_after(pool, replaced)
}

/// Closes the pool, also after a failure: it is right on the members that are in.
fn closed_after(pool: Pool, result: Result<Value, Failure>) -> Result<Value, Failure> {
    let closed = pool.close();
    let report = result?;
    closed?;
    Ok(report)
}

/// A member's number, or its absolute path: the daemon's working directory is another one.
fn text_of(name: &Path) -> Result<String, Failure> {
    match name.to_str() {
        Some(number) if number.parse::<u32>().is_ok() => Ok(number.to_owned()),
        _ => attach::text(name),
    }
}
