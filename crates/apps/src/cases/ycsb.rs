//! The core workloads of YCSB over Redis, RocksDB and WiredTiger, each update durable before it returns.

use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;

use forebay_harness::Result;
use rustix::process::Signal;

use crate::cases::redis;
use crate::context::program;
use crate::outcome::Outcome;
use crate::place::Session;
use crate::worker::{Kind, Task, ycsb};

/// Those that insert come last, so that the others have the same records everywhere.
const WORKLOADS: &str = "abcfde";
/// Half updates, and updates alone: what the paper shows of shards.
const SHARD_WORKLOADS: &str = "au";
/// The store's part and the clients' part of the processors.
const CLIENTS: usize = 2;

/// A store's C file, and the package of the library that it is linked with.
fn source(kind: Kind) -> Option<(&'static str, &'static str)> {
    match kind {
        Kind::Redis => None,
        Kind::Rocksdb => Some((include_str!("../../stores/rocksdb.c"), "librocksdb-dev")),
        Kind::Wiredtiger => Some((
            include_str!("../../stores/wiredtiger.c"),
            "libwiredtiger-dev",
        )),
    }
}

/// Compiles a store's C file, once a run. None for a server.
fn library(session: &Session<'_>, kind: Kind) -> Result<Option<PathBuf>> {
    let Some((text, package)) = source(kind) else {
        return Ok(None);
    };
    let (workshop, name) = (session.context.workshop.path(), kind.name());
    let library = workshop.join(format!("libstore_{name}.so"));
    if library.exists() {
        return Ok(Some(library));
    }
    let file = workshop.join(format!("{name}.c"));
    std::fs::write(&file, text)?;
    let header = include_str!("../../stores/store.h");
    std::fs::write(workshop.join("store.h"), header)?;
    let mut command = Command::new(program("cc")?);
    command
        .args(["-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"])
        .args([&library, &file])
        .arg(format!("-l{name}"));
    session.output(command).map_err(|error| {
        format!("{error}\n(`scripts/setup.sh apps` installs {package} where it is missing)")
    })?;
    Ok(Some(library))
}

/// All workloads over one store. Redis is a server of its own; the others are in the process of their clients.
///
/// Errors: a program is missing or fails, or something else than what was written is read.
pub fn whole(session: &Session<'_>, kind: Kind) -> Result<Outcome> {
    run(session, kind, 0..1, plan(session, CLIENTS, WORKLOADS))
}

/// One client of WiredTiger that only updates.
pub fn wiredtiger_puts(session: &Session<'_>) -> Result<Outcome> {
    let outcome = run(session, Kind::Wiredtiger, 0..1, plan(session, 1, "u"))?;
    Ok(outcome.renamed(|name| name.replace("ycsb_wiredtiger_u", "wiredtiger_put")))
}

/// One shard, then more, each with a client of its own: servers, or databases of one process.
pub fn shards(session: &Session<'_>, kind: Kind) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut first = 0;
    for count in session.context.pace.thread_counts() {
        let mut plan = plan(session, 1, SHARD_WORKLOADS);
        plan.seconds *= 0.5;
        let measured = run(session, kind, first..first + count, plan)?;
        outcome = outcome.and(measured.renamed(|name| format!("{name}_shards{count}")));
        first += count;
    }
    Ok(outcome)
}

/// What `clients` of each shard are to do.
fn plan(session: &Session<'_>, clients: usize, workloads: &str) -> ycsb::Plan {
    let pace = &session.context.pace;
    ycsb::Plan {
        store: Kind::Redis,
        at: Vec::new(),
        library: None,
        records: pace.records,
        seconds: pace.seconds * 0.5,
        clients,
        workloads: workloads.into(),
    }
}

/// The shards of these numbers at once.
fn run(
    session: &Session<'_>,
    kind: Kind,
    numbers: Range<usize>,
    mut plan: ycsb::Plan,
) -> Result<Outcome> {
    plan.store = kind;
    plan.library = library(session, kind)?;
    if kind != Kind::Redis {
        let at = |number| session.data().join(format!("store-{number}"));
        plan.at = numbers.map(at).collect();
        return session.measure(&Task::Ycsb(plan));
    }
    let started = numbers.map(|number| redis::start(session, number));
    let (servers, sockets): (Vec<_>, Vec<_>) =
        started.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    plan.at = sockets;
    // The servers are what the place is for; their clients are not.
    let command = Task::Ycsb(plan).given_to(Command::new(&session.context.own))?;
    let outcome = Outcome::from_json(&session.output(command)?);
    for server in servers {
        server.end(Signal::TERM)?;
    }
    outcome
}
