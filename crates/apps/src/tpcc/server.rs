//! A MariaDB of our own: its folders, socket and settings, and nothing of the system's service. Each commit is
//! durable before it is acknowledged, as is MariaDB's default.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_harness::{Daemon, Result, TestEnv};
use mysql::{Conn, OptsBuilder};
use rustix::process::Signal;

use crate::account::Account;
use crate::context::program;

const USER: &str = "mysql";
const START_DEADLINE: Duration = Duration::from_secs(120);
const INSTALL_DEADLINE: Duration = Duration::from_secs(240);
/// A server that says nothing for so long is stuck.
const ANSWER_DEADLINE: Duration = Duration::from_secs(180);
/// Statements that a connection keeps parsed: all that the transactions have.
const STATEMENTS: usize = 128;
/// Users, and whoever checks.
const CONNECTIONS: u32 = 128;
/// InnoDB's log, as long however large the buffer pool is.
pub const LOG_BYTES: u64 = 8 << 20;

/// A server that runs; ended, by force if need be, when it is dropped.
#[derive(Debug)]
pub struct Server {
    daemon: Daemon,
    socket: PathBuf,
}

impl Server {
    /// Makes an empty database system in the folder `data`.
    pub fn install(env: &TestEnv, data: &Path) -> Result<()> {
        let account = Account::named(USER)?;
        std::fs::create_dir(data)?;
        account.give(data)?;
        let mut command = Command::new(program("mariadb-install-db")?);
        command
            .args(["--no-defaults", "--skip-test-db", "--user", USER])
            .arg("--auth-root-authentication-method=normal")
            .arg(format!("--innodb-log-file-size={LOG_BYTES}"))
            .arg(format!("--datadir={}", data.display()));
        env.output(&mut command, INSTALL_DEADLINE).map(drop)
    }

    /// Starts a server on the folder `data`, with so much memory for pages.
    pub fn start(env: &TestEnv, data: &Path, buffer_pool_bytes: u64) -> Result<Server> {
        let account = Account::named(USER)?;
        let folder = env.path("server");
        if !folder.exists() {
            std::fs::create_dir(&folder)?;
            account.give(&folder)?;
        }
        let socket = folder.join("socket");
        let mut command = Command::new(program("mariadbd")?);
        command
            .args(["--no-defaults", "--skip-networking", "--user", USER])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", folder.join("pid").display()))
            .arg(format!("--max-connections={CONNECTIONS}"))
            .arg(format!("--innodb-buffer-pool-size={buffer_pool_bytes}"))
            .arg(format!("--innodb-log-file-size={LOG_BYTES}"))
            // ext4 has no direct I/O in data=journal; it would fall back without a word.
            .arg("--innodb-flush-method=fsync")
            // Or pages that were in memory at the end are read at the start, while we measure.
            .args([
                "--innodb-buffer-pool-dump-at-shutdown=OFF",
                "--innodb-buffer-pool-load-at-startup=OFF",
            ])
            .args([
                "--innodb-stats-auto-recalc=OFF",
                "--innodb-flush-log-at-trx-commit=1",
            ]);
        let mut server = Server {
            daemon: Daemon::start(&mut command, &env.log())?,
            socket,
        };
        let socket = server.socket.clone();
        server
            .daemon
            .wait_until(START_DEADLINE, || connect(&socket, None).is_ok())?;
        Ok(server)
    }

    /// A connection, to the database of that name if one is given.
    pub fn connect(&self, database: Option<&str>) -> Result<Conn> {
        connect(&self.socket, database)
    }

    /// Ends it in order.
    pub fn end(self) -> Result<()> {
        self.daemon.end(Signal::TERM)
    }

    /// Ends it at once: what it acknowledged is in its log.
    pub fn kill(self) -> Result<()> {
        self.daemon.kill()
    }
}

fn connect(socket: &Path, database: Option<&str>) -> Result<Conn> {
    let options = OptsBuilder::new()
        .socket(Some(socket.to_string_lossy()))
        .user(Some("root"))
        .db_name(database)
        .read_timeout(Some(ANSWER_DEADLINE))
        .stmt_cache_size(STATEMENTS);
    Ok(Conn::new(options)?)
}
