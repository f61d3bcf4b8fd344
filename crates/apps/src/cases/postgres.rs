//! PostgreSQL under `pgbench`, its own TPC-B-like transactions, everything durable at commit.
//!
//! The database is made once and copied into each place.

use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_harness::{Daemon, Result};
use rustix::process::Signal;

use crate::account::Account;
use crate::cases::tools::{copy, number_after};
use crate::context::program;
use crate::outcome::Outcome;
use crate::place::Session;

const CLIENTS: u32 = 4;
const USER: &str = "postgres";

/// Transactions of four clients.
pub fn run(session: &Session<'_>) -> Result<Outcome> {
    let account = Account::named(USER)?;
    let original = session.context.workshop.path().join("postgres");
    if !original.exists() {
        make(session, &account, &original)?;
    }
    let data = session.data().join("cluster");
    copy(session, &original, &data)?;
    let server = start(session, &account, &data)?;
    let mut command = client(session, "pgbench")?;
    let clients = CLIENTS.to_string();
    let seconds = session.context.pace.seconds.ceil().to_string();
    command.args(["-n", "-c", &clients, "-T", &seconds, "postgres"]);
    let printed = session.measuring(|| session.output(command))?;
    server.end(Signal::INT)?;
    let rate = number_after(&printed, "tps =")?;
    Ok(Outcome::rate("postgres_pgbench", rate, "transactions/s"))
}

fn make(session: &Session<'_>, account: &Account, original: &Path) -> Result<()> {
    let draft = session.scratch("draft");
    std::fs::create_dir(&draft)?;
    account.give(&draft)?;
    let mut command = Command::new(program("initdb")?);
    // It is not the making that must survive a crash.
    command
        .args(["-N", "-A", "trust", "-U", USER, "-D"])
        .arg(&draft);
    session.output(account.as_user(command))?;
    let server = start(session, account, &draft)?;
    let scale = if session.context.pace.is_quick {
        "1"
    } else {
        "10"
    };
    let mut command = client(session, "pgbench")?;
    command.args(["-i", "-q", "-s", scale, "postgres"]);
    session.output(command)?;
    server.end(Signal::INT)?;
    copy(session, &draft, original)
}

fn start(session: &Session<'_>, account: &Account, data: &Path) -> Result<Daemon> {
    let sockets = sockets(session);
    if !sockets.exists() {
        std::fs::create_dir(&sockets)?;
        account.give(&sockets)?;
    }
    let mut command = Command::new(program("postgres")?);
    command
        .arg("-D")
        .arg(data)
        .arg("-k")
        .arg(&sockets)
        .args(["-c", "listen_addresses="]);
    let command = account.as_user(command);
    let is_ready = || {
        let asked = client(session, "pg_isready").map(|mut command| command.output());
        matches!(asked, Ok(Ok(answer)) if answer.status.success())
    };
    session.start(command, is_ready)
}

fn client(session: &Session<'_>, name: &str) -> Result<Command> {
    let mut command = Command::new(program(name)?);
    command.arg("-h").arg(sockets(session)).args(["-U", USER]);
    Ok(command)
}

fn sockets(session: &Session<'_>) -> PathBuf {
    session.scratch("postgres-sockets")
}
