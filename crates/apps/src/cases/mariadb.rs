//! MariaDB under `sysbench`, each transaction durable at commit (`innodb_flush_log_at_trx_commit=1`, the
//! default).
//!
//! The database is made once and copied into each place.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_harness::{Daemon, Result};
use rustix::process::Signal;

use crate::account::Account;
use crate::cases::tools::copy;
use crate::context::program;
use crate::outcome::Outcome;
use crate::place::Session;

const THREADS: u32 = 4;
const USER: &str = "mysql";

/// Transactions that only write, of four clients.
pub fn run(session: &Session<'_>) -> Result<Outcome> {
    let account = Account::named(USER)?;
    let original = session.context.workshop.path().join("mariadb");
    if !original.exists() {
        make(session, &account, &original)?;
    }
    let data = session.data().join("mariadb");
    copy(session, &original, &data)?;
    let server = start(session, &account, &data)?;
    let mut command = sysbench(session)?;
    let seconds = session.context.pace.seconds.ceil();
    command
        .arg(format!("--time={seconds}"))
        .arg(format!("--threads={THREADS}"))
        .arg("run");
    let printed = session.output(command)?;
    server.end(Signal::TERM)?;
    let rate = transactions_per_second(&printed)?;
    Ok(Outcome::rate("mariadb_sysbench", rate, "transactions/s"))
}

fn make(session: &Session<'_>, account: &Account, original: &Path) -> Result<()> {
    let draft = session.scratch("draft");
    std::fs::create_dir(&draft)?;
    account.give(&draft)?;
    let mut command = Command::new(program("mariadb-install-db")?);
    command
        .args(["--no-defaults", "--skip-test-db", "--user", USER])
        .arg("--auth-root-authentication-method=normal")
        .arg(format!("--datadir={}", draft.display()));
    session.output(command)?;
    let server = start(session, account, &draft)?;
    let mut command = Command::new(program("mariadb-admin")?);
    command.arg("--no-defaults").arg("-S").arg(socket(session));
    command.args(["-u", "root", "create", "sbtest"]);
    session.output(command)?;
    let mut command = sysbench(session)?;
    command.arg("prepare");
    session.output(command)?;
    server.end(Signal::TERM)?;
    copy(session, &draft, original)
}

fn start(session: &Session<'_>, account: &Account, data: &Path) -> Result<Daemon> {
    let socket = socket(session);
    if let Some(folder) = socket.parent().filter(|folder| !folder.exists()) {
        std::fs::create_dir(folder)?;
        account.give(folder)?;
    }
    let mut command = Command::new(program("mariadbd")?);
    command
        .args(["--no-defaults", "--skip-networking", "--user", USER])
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--socket={}", socket.display()))
        .arg(format!("--pid-file={}", data.join("pid").display()));
    session.start(command, || UnixStream::connect(&socket).is_ok())
}

fn socket(session: &Session<'_>) -> PathBuf {
    session.scratch("mariadb-socket").join("socket")
}

fn sysbench(session: &Session<'_>) -> Result<Command> {
    let rows = if session.context.pace.is_quick {
        1000
    } else {
        10_000
    };
    let mut command = Command::new(program("sysbench")?);
    command
        .args(["oltp_write_only", "--db-driver=mysql", "--mysql-user=root"])
        .arg(format!("--mysql-socket={}", socket(session).display()))
        .arg(format!("--table-size={rows}"))
        .arg("--tables=2");
    Ok(command)
}

/// From a line like `transactions:  1234   (617.00 per sec.)`.
fn transactions_per_second(printed: &str) -> Result<f64> {
    let line = printed
        .lines()
        .find(|line| line.trim_start().starts_with("transactions:"));
    let rate = line.and_then(|line| line.split_once('(')?.1.split_once(' '));
    rate.and_then(|(rate, _)| rate.parse().ok())
        .ok_or_else(|| format!("sysbench printed no rate:\n{printed}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_the_brackets() {
        let printed = "SQL statistics:\n    transactions:    2468   (1234.00 per sec.)\n";
        assert_eq!(transactions_per_second(printed).expect("a rate"), 1234.0);
        assert!(transactions_per_second("none").is_err());
    }
}
