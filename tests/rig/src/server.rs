//! Servers of a guest's disks: the daemon `forebay`, and `qemu-storage-daemon` to compare with.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use forebay_harness::Daemon as Server;

use crate::Result;

const START_LIMIT: Duration = Duration::from_secs(60);
/// Some commands wait until everything is written back.
const RUN_LIMIT: Duration = Duration::from_secs(3600);

/// How the daemon is started; it can be, again and again.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The command `forebay`, or `forebay-lab`.
    pub forebay: PathBuf,
    /// Where it logs.
    pub log: PathBuf,
}

impl Daemon {
    /// The command with some arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.forebay);
        command.args(arguments);
        command
    }

    /// Runs the command to its end; returns what it printed.
    pub fn run(&self, command: &mut Command) -> Result<String> {
        forebay_harness::output(command, RUN_LIMIT)
    }

    /// `forebay create`: makes a mapped pool that may be broken on purpose, also on a plain file.
    pub fn create_pool(&self, pool: &Path, size_bytes: u64) -> Result<()> {
        let mut command = self.command(&[
            "create",
            "--test",
            "--medium",
            "page",
            "--size",
            &size_bytes.to_string(),
        ]);
        self.run(command.arg(pool)).map(drop)
    }

    /// The daemon of the published designs, `forebay-lab`, which lies beside the command `forebay`.
    #[must_use]
    pub fn of_designs(&self) -> Daemon {
        Daemon {
            forebay: self.forebay.with_file_name("forebay-lab"),
            log: self.log.clone(),
        }
    }

    /// `forebay-lab create`: makes the cache of a published design, of the disk `backing`. This is the
    /// daemon of designs.
    pub fn create_design(
        &self,
        engine: &str,
        region: &Path,
        size_bytes: u64,
        backing: &Path,
    ) -> Result<()> {
        let size = size_bytes.to_string();
        let mut command = self.command(&["create", "--engine", engine, "--size", &size]);
        // A region made anew; what the one before left in its own is not missed.
        let command = command.arg(region).arg("--accept-stale");
        let command = command.arg("--backing").arg(backing);
        self.run(command).map(drop)
    }

    /// `serve` with `arguments`; returns when it is ready.
    pub fn serve<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Result<Server> {
        let mut command = self.command(&["serve"]);
        command.args(arguments);
        Server::start_ready(&mut command, &self.log, START_LIMIT)
    }
}

/// `qemu-storage-daemon`, which serves a raw file.
#[derive(Debug)]
pub struct QemuStorageDaemon;

impl QemuStorageDaemon {
    /// Serves `file` on a vhost-user-blk socket. Its disk calls itself write-through and loses what
    /// it did not flush all the same: tell the guest `write back` in `/sys/block/vda/queue/write_cache`.
    pub fn serve(file: &Path, socket: &Path, log: &Path) -> Result<Server> {
        let mut command = Command::new("qemu-storage-daemon");
        command
            .arg("--blockdev")
            .arg(format!(
                "driver=file,node-name=disk,filename={}",
                file.display()
            ))
            .arg("--export")
            .arg(format!(
                "type=vhost-user-blk,id=export,node-name=disk,writable=on,\
                 addr.type=unix,addr.path={}",
                socket.display()
            ));
        let mut server = Server::start(&mut command, log)?;
        server.wait_until(START_LIMIT, || socket.exists())?;
        Ok(server)
    }
}
