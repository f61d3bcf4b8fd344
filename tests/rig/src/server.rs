//! Servers of a guest's disks: the daemon `forebay`, and `qemu-storage-daemon` to compare with.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::Result;
use crate::interrupt::wait_for;

const START_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(60);

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    process: Child,
    /// Nobody may have it write to a closed pipe.
    _stdout: Option<ChildStdout>,
}

impl Server {
    /// Starts `command` in a process group of its own; what it logs is appended to `log`.
    ///
    /// # Errors
    /// There is no such program.
    fn start(command: &mut Command, log: &Path) -> Result<Server> {
        let log = File::options().create(true).append(true).open(log)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let process = command
            .stdin(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        Ok(Server {
            process,
            _stdout: None,
        })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Processor time its threads have used so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn processor_time(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let first = text.split(' ').next().unwrap_or_default();
            nanoseconds += first.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Sends a signal and waits for the end.
    ///
    /// # Errors
    /// It does not end within a minute.
    pub fn end(mut self, signal: Signal) -> Result<ExitStatus> {
        kill_process(Pid::from_child(&self.process), signal)?;
        let process = &mut self.process;
        let ended = wait_for(END_LIMIT, || Ok(process.try_wait()?))?;
        ended.ok_or_else(|| format!("it did not end after {signal:?}").into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How the daemon is started; it can be, again and again.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The command `forebay`.
    pub forebay: PathBuf,
    /// Where it logs.
    pub log: PathBuf,
}

impl Daemon {
    /// The command with some arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.forebay);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs the command to its end; returns what it printed.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, command: &mut Command) -> Result<String> {
        let output = command.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{command:?}: {}: {said}", output.status).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// `forebay create`: makes a pool that may be broken on purpose.
    ///
    /// # Errors
    /// It fails.
    pub fn create_pool(&self, pool: &Path, size_bytes: u64) -> Result<()> {
        let mut command = self.command(&["create", "--test", "--size", &size_bytes.to_string()]);
        self.run(command.arg(pool)).map(drop)
    }

    /// `forebay create --engine`: makes the cache of a published design, of the disk `backing`.
    ///
    /// # Errors
    /// It fails.
    pub fn create_design(
        &self,
        engine: &str,
        region: &Path,
        size_bytes: u64,
        backing: &Path,
    ) -> Result<()> {
        let size = size_bytes.to_string();
        let mut command = self.command(&["create", "--engine", engine, "--size", &size]);
        let command = command.arg(region).arg("--backing").arg(backing);
        self.run(command).map(drop)
    }

    /// `forebay serve` with `arguments`; returns when it is ready.
    ///
    /// # Errors
    /// It ends instead, or takes a minute; with the end of its log.
    pub fn serve<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Result<Server> {
        let mut command = self.command(&["serve"]);
        command.args(arguments).stdout(Stdio::piped());
        let mut server = Server::start(&mut command, &self.log)?;
        let stdout = server
            .process
            .stdout
            .take()
            .ok_or("a daemon without output")?;
        let (ready, became_ready) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout);
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if line.trim_end() == "ready" {
                    // Fails only where nobody waits any more.
                    let _ = ready.send(lines.into_inner());
                    return;
                }
                line.clear();
            }
        });
        let stdout = wait_for(START_LIMIT, || match became_ready.try_recv() {
            Ok(stdout) => Ok(Some(stdout)),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(mpsc::TryRecvError::Disconnected) => Err("the daemon ended".into()),
        });
        match stdout {
            Ok(Some(stdout)) => server._stdout = Some(stdout),
            Ok(None) => return Err(self.not_ready("it takes a minute")),
            Err(error) => return Err(self.not_ready(&error.to_string())),
        }
        Ok(server)
    }

    fn not_ready(&self, why: &str) -> crate::Failure {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n");
        format!("the daemon is not ready: {why}; its log:\n{tail}").into()
    }
}

/// `qemu-storage-daemon`, which serves a raw file.
#[derive(Debug)]
pub struct QemuStorageDaemon;

impl QemuStorageDaemon {
    /// Serves `file` on a vhost-user-blk socket. Its disk calls itself write-through and loses what
    /// it did not flush all the same: tell the guest `write back` in `/sys/block/vda/queue/write_cache`.
    ///
    /// # Errors
    /// It does not make the socket.
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
            ))
            .stdout(Stdio::null());
        let mut server = Server::start(&mut command, log)?;
        let process = &mut server.process;
        let made = wait_for(START_LIMIT, || {
            if let Some(status) = process.try_wait()? {
                return Err(format!("qemu-storage-daemon: {status}").into());
            }
            Ok(socket.exists().then_some(()))
        })?;
        made.ok_or("qemu-storage-daemon makes no socket")?;
        Ok(server)
    }
}
