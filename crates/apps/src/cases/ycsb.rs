//! The core workloads of YCSB over Redis, RocksDB and WiredTiger, each update durable before it returns.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use crate::Result;
use crate::cases::redis;
use crate::context::program;
use crate::outcome::Outcome;
use crate::place::Session;

/// Those that insert come last, so that the others have the same records everywhere.
const WORKLOADS: &str = "abcfde";
/// Half updates, and updates alone: what the paper shows of shards.
const SHARD_WORKLOADS: &str = "au";
/// The store's part and the clients' part of the processors.
const CLIENTS: usize = 2;

/// How each store's C file is called, what it is, and the library that it is linked with.
const ROCKSDB: Source = Source {
    name: "rocksdb",
    text: include_str!("../../stores/rocksdb.c"),
    package: "librocksdb-dev",
};
const WIREDTIGER: Source = Source {
    name: "wiredtiger",
    text: include_str!("../../stores/wiredtiger.c"),
    package: "libwiredtiger-dev",
};

struct Source {
    name: &'static str,
    text: &'static str,
    package: &'static str,
}

impl Source {
    /// Compiles it, once a run.
    fn library(&self, session: &Session<'_>) -> Result<PathBuf> {
        let workshop = session.context.workshop.path();
        let library = workshop.join(format!("libstore_{}.so", self.name));
        if library.exists() {
            return Ok(library);
        }
        let file = workshop.join(format!("{}.c", self.name));
        std::fs::write(&file, self.text)?;
        std::fs::write(
            workshop.join("store.h"),
            include_str!("../../stores/store.h"),
        )?;
        let mut command = Command::new(program("cc")?);
        command
            .args(["-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&file)
            .arg(format!("-l{}", self.name));
        session.output(command).map_err(|error| {
            let package = self.package;
            format!("{error}\n(`scripts/setup.sh apps` installs {package} where it is missing)")
        })?;
        Ok(library)
    }
}

/// Redis; its server is started first.
///
/// Errors: a program is missing or fails, or something else than what was written is read.
pub fn run_redis(session: &Session<'_>) -> Result<Outcome> {
    let plan = Plan::whole(session, CLIENTS, WORKLOADS);
    run_servers(session, &plan, 1)
}

/// Redis, as many servers as shards.
///
/// Errors: as of [`run_redis`].
pub fn run_redis_shards(session: &Session<'_>) -> Result<Outcome> {
    each_count(session, |count, plan| run_servers(session, plan, count))
}

fn run_servers(session: &Session<'_>, plan: &Plan, count: usize) -> Result<Outcome> {
    let numbers = plan.first..plan.first + count;
    let started = numbers.map(|number| redis::start(session, number));
    let (servers, sockets): (Vec<_>, Vec<_>) =
        started.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    // The servers are what the place is for; their clients are not.
    let mut command = Command::new(&session.context.own);
    command.args(["worker", "ycsb", "--store", "redis"]);
    let printed = session.output(plan.given_to(command, &sockets))?;
    for server in servers {
        server.end(Signal::TERM)?;
    }
    Outcome::from_json(&printed)
}

/// RocksDB, in the process of its clients.
///
/// Errors: as of [`run_redis`].
pub fn run_rocksdb(session: &Session<'_>) -> Result<Outcome> {
    let plan = Plan::whole(session, CLIENTS, WORKLOADS);
    run_library(session, &ROCKSDB, &plan, 1)
}

/// As many databases as shards, in one process.
///
/// Errors: as of [`run_redis`].
pub fn run_rocksdb_shards(session: &Session<'_>) -> Result<Outcome> {
    each_count(session, |count, plan| {
        run_library(session, &ROCKSDB, plan, count)
    })
}

/// WiredTiger, in the process of its clients.
///
/// Errors: as of [`run_redis`].
pub fn run_wiredtiger(session: &Session<'_>) -> Result<Outcome> {
    let plan = Plan::whole(session, CLIENTS, WORKLOADS);
    run_library(session, &WIREDTIGER, &plan, 1)
}

/// As many databases as shards, in one process.
///
/// Errors: as of [`run_redis`].
pub fn run_wiredtiger_shards(session: &Session<'_>) -> Result<Outcome> {
    each_count(session, |count, plan| {
        run_library(session, &WIREDTIGER, plan, count)
    })
}

/// One client of WiredTiger that only updates.
///
/// Errors: as of [`run_redis`].
pub fn run_wiredtiger_puts(session: &Session<'_>) -> Result<Outcome> {
    let plan = Plan::whole(session, 1, "u");
    let outcome = run_library(session, &WIREDTIGER, &plan, 1)?;
    Ok(outcome.renamed(|name| name.replace("ycsb_wiredtiger_u", "wiredtiger_put")))
}

fn run_library(
    session: &Session<'_>,
    source: &Source,
    plan: &Plan,
    count: usize,
) -> Result<Outcome> {
    let mut command = session.command(&session.context.own)?;
    command
        .args(["worker", "ycsb", "--store", source.name, "--library"])
        .arg(source.library(session)?);
    let numbers = plan.first..plan.first + count;
    let stores: Vec<PathBuf> = numbers
        .map(|number| session.data().join(format!("store-{number}")))
        .collect();
    let printed = session.output(plan.given_to(command, &stores))?;
    Outcome::from_json(&printed)
}

/// One shard, then more, each with a client of its own.
fn each_count(
    session: &Session<'_>,
    mut run: impl FnMut(usize, &Plan) -> Result<Outcome>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut first = 0;
    for count in session.context.pace.thread_counts() {
        let mut plan = Plan::whole(session, 1, SHARD_WORKLOADS);
        plan.first = first;
        plan.seconds *= 0.5;
        let measured = run(count, &plan)?;
        outcome = outcome.and(measured.renamed(|name| format!("{name}_shards{count}")));
        first += count;
    }
    Ok(outcome)
}

/// What clients are to do.
struct Plan {
    /// Of each shard.
    clients: usize,
    /// Their letters.
    workloads: &'static str,
    /// For each of them.
    seconds: f64,
    /// Of each shard.
    records: u64,
    /// Shards before had smaller numbers.
    first: usize,
}

impl Plan {
    fn whole(session: &Session<'_>, clients: usize, workloads: &'static str) -> Plan {
        let pace = &session.context.pace;
        Plan {
            clients,
            workloads,
            seconds: pace.seconds * 0.5,
            records: pace.records,
            first: 0,
        }
    }

    fn given_to(&self, mut command: Command, shards: &[PathBuf]) -> Command {
        command
            .args(["--records", &self.records.to_string()])
            .args(["--seconds", &self.seconds.to_string()])
            .args(["--clients", &self.clients.to_string()])
            .args(["--workloads", self.workloads]);
        for shard in shards {
            command.arg("--at").arg(shard);
        }
        command
    }
}
