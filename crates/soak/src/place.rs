//! A directory with a pool, backings, a mount point and sockets; nothing of it is left afterwards.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Result;

/// Names of the volumes; the last one comes and goes, the one before is mounted, too.
pub const VOLUMES: [&str; 4] = ["alpha", "beta", "mounted", "guest"];
/// Which of them is mounted.
pub const MOUNTED: usize = 2;
/// Which of them comes and goes.
pub const GUEST: usize = 3;

const START_DEADLINE: Duration = Duration::from_secs(60);
const END_DEADLINE: Duration = Duration::from_secs(60);
/// Given to the daemon; it is in use by a mount for moments only.
const SHUTDOWN_DEADLINE_S: u64 = 3;

/// The directory.
#[derive(Debug)]
pub struct Place {
    directory: tempfile::TempDir,
    backings: tempfile::TempDir,
    forebay: PathBuf,
    /// Whether the mounted volume is.
    pub has_fuse: bool,
}

impl Place {
    /// Makes a pool and backings.
    ///
    /// Errors: a directory cannot be written, or `forebay create` fails.
    pub fn new(
        forebay: PathBuf,
        backings: &Path,
        pool_bytes: u64,
        volume_bytes: u64,
    ) -> Result<Place> {
        let memory = Path::new("/dev/shm");
        let directory = match memory.is_dir() {
            true => tempfile::Builder::new()
                .prefix("forebay-soak-")
                .tempdir_in(memory)?,
            false => tempfile::Builder::new().prefix("forebay-soak-").tempdir()?,
        };
        let backings = tempfile::Builder::new()
            .prefix("forebay-soak-")
            .tempdir_in(backings)?;
        let can_mount = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
        let place = Place {
            directory,
            backings,
            forebay,
            has_fuse: can_mount,
        };
        std::fs::create_dir(place.path("mount"))?;
        for name in VOLUMES {
            File::create(place.backing(name))?.set_len(volume_bytes)?;
        }
        place.write_config()?;
        let created = place
            .command(&["create"])
            .arg(place.path("pool"))
            .args(["--test", "--size", &pool_bytes.to_string()])
            .output()?;
        if !created.status.success() {
            let said = String::from_utf8_lossy(&created.stderr).into_owned();
            return Err(format!("forebay create: {}: {said}", created.status).into());
        }
        Ok(place)
    }

    fn write_config(&self) -> Result<()> {
        let mut text = format!(
            "pool = [\"pool\"]\nnbd = [\"unix:nbd\"]\nshutdown-deadline = {SHUTDOWN_DEADLINE_S}\n"
        );
        for (index, name) in VOLUMES.iter().enumerate() {
            let backing = self.backing(name);
            text += &format!("[[volume]]\nname = \"{name}\"\nbacking = {backing:?}\n");
            if index == MOUNTED && self.has_fuse {
                text += "fuse = \"mount\"\n";
            }
        }
        Ok(std::fs::write(self.path("config.toml"), text)?)
    }

    /// Something in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file behind a volume.
    pub fn backing(&self, volume: &str) -> PathBuf {
        self.backings.path().join(volume)
    }

    /// The NBD socket.
    pub fn nbd(&self) -> PathBuf {
        self.path("nbd")
    }

    /// The control socket.
    pub fn control(&self) -> PathBuf {
        self.path("pool.sock")
    }

    /// The command, in a process group of its own: Ctrl-C is ours to handle.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.forebay);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    /// The end of what daemons have logged.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// All that daemons have logged.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.path("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Starts a daemon and waits until it is ready.
    ///
    /// Errors: it ends instead, or takes a minute.
    pub fn start(&self) -> Result<Daemon> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))?;
        let mut process = self
            .command(&["serve", "--config"])
            .arg(self.path("config.toml"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.forebay.display()))?;
        let stdout = process.stdout.take().ok_or("a daemon without output")?;
        let mut daemon = Daemon {
            process,
            _stdout: None,
        };
        let (ready, became_ready) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout);
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if line.trim_end() == "ready" {
                    // Nobody else may have the daemon write to a closed pipe.
                    let _ = ready.send(lines.into_inner());
                    return;
                }
                line.clear();
            }
        });
        match became_ready.recv_timeout(START_DEADLINE) {
            Ok(stdout) => daemon._stdout = Some(stdout),
            Err(error) => {
                let tail = self.log_tail();
                return Err(format!("the daemon is not ready: {error}; its log:\n{tail}").into());
            }
        }
        Ok(daemon)
    }

    /// Calls `each` with the pieces of a backing, as they are in the file.
    ///
    /// Errors: the file cannot be read.
    pub fn read_backing(&self, volume: &str, mut each: impl FnMut(u64, &[u8])) -> Result<()> {
        let path = self.backing(volume);
        let named = |error| format!("{}: {error}", path.display());
        let mut file = File::open(&path).map_err(named)?;
        let mut piece = vec![0; 1 << 20];
        let mut offset = 0;
        loop {
            let count = file.read(&mut piece).map_err(named)?;
            if count == 0 {
                return Ok(());
            }
            // A short read would cut a sector.
            file.read_exact_at(&mut piece[..count], offset)
                .map_err(named)?;
            each(offset, &piece[..count]);
            offset += count as u64;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.has_fuse {
            // Quiet where nothing is mounted any more.
            let _ = Command::new("umount")
                .args(["-l", "-q"])
                .arg(self.path("mount"))
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// A running daemon; killed when it is dropped.
#[derive(Debug)]
pub struct Daemon {
    process: Child,
    _stdout: Option<ChildStdout>,
}

impl Daemon {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Sends a signal and waits for the end.
    ///
    /// Errors: it does not end within a minute.
    pub fn end(mut self, signal: Signal) -> Result<ExitStatus> {
        kill_process(Pid::from_child(&self.process), signal)?;
        wait(&mut self.process, END_DEADLINE)?
            .ok_or_else(|| format!("the daemon did not end after {signal:?}").into())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for a process; `None` if it takes longer than that.
///
/// Errors: it is not ours.
pub fn wait(process: &mut Child, deadline: Duration) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    while began.elapsed() < deadline {
        if let Some(status) = process.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(None)
}
