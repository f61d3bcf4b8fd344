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
    let (server, socket) = redis::start(session)?;
    // The server is what the place is for; its clients are not.
    let mut command = Command::new(&session.context.own);
    command
        .args(["worker", "ycsb", "--store", "redis", "--at"])
        .arg(&socket);
    let printed = session.output(with_plan(command, session, CLIENTS, WORKLOADS))?;
    server.end(Signal::TERM)?;
    Outcome::from_json(&printed)
}

/// RocksDB, in the process of its clients.
///
/// Errors: as of [`run_redis`].
pub fn run_rocksdb(session: &Session<'_>) -> Result<Outcome> {
    run_library(session, &ROCKSDB, CLIENTS, WORKLOADS)
}

/// WiredTiger, in the process of its clients.
///
/// Errors: as of [`run_redis`].
pub fn run_wiredtiger(session: &Session<'_>) -> Result<Outcome> {
    run_library(session, &WIREDTIGER, CLIENTS, WORKLOADS)
}

/// One client of WiredTiger that only updates.
///
/// Errors: as of [`run_redis`].
pub fn run_wiredtiger_puts(session: &Session<'_>) -> Result<Outcome> {
    let mut outcome = run_library(session, &WIREDTIGER, 1, "u")?;
    for row in &mut outcome.rows {
        row.name = row.name.replace("ycsb_wiredtiger_u", "wiredtiger_put");
    }
    Ok(outcome)
}

fn run_library(
    session: &Session<'_>,
    source: &Source,
    clients: usize,
    workloads: &str,
) -> Result<Outcome> {
    let mut command = session.command(&session.context.own);
    command
        .args(["worker", "ycsb", "--store", source.name, "--at"])
        .arg(session.data().join("store"))
        .arg("--library")
        .arg(source.library(session)?);
    let printed = session.output(with_plan(command, session, clients, workloads))?;
    Outcome::from_json(&printed)
}

fn with_plan(
    mut command: Command,
    session: &Session<'_>,
    clients: usize,
    workloads: &str,
) -> Command {
    let pace = &session.context.pace;
    command
        .args(["--records", &pace.records.to_string()])
        .args(["--seconds", &(pace.seconds * 0.5).to_string()])
        .args(["--clients", &clients.to_string()])
        .args(["--workloads", workloads]);
    command
}
