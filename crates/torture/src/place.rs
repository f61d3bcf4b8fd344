//! Where the files lie: a directory behind Forebay, in each of its forms, or with nothing before it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_harness::{Daemon, Group};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::Result;

const DEADLINE: Duration = Duration::from_secs(120);

/// What stands between the program and the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Nothing.
    Plain,
    /// `forebay mount`.
    Mount,
    /// `forebay mount --writeback-cache`.
    MountWriteback,
    /// `forebay run`.
    Preload,
}

impl Form {
    /// As in the names of rows.
    pub fn name(self) -> &'static str {
        match self {
            Form::Plain => "plain",
            Form::Mount => "mount",
            Form::MountWriteback => "mount_writeback",
            Form::Preload => "preload",
        }
    }

    /// Whether a daemon serves it.
    pub fn is_mounted(self) -> bool {
        matches!(self, Form::Mount | Form::MountWriteback)
    }

    /// What this machine lacks for it.
    pub fn lacks(self) -> Option<&'static str> {
        let can_mount = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
        (self.is_mounted() && !can_mount).then_some("needs root and /dev/fuse to mount")
    }
}

/// A directory with its pool; nothing of it is left afterwards.
#[derive(Debug)]
pub struct Place {
    pub form: Form,
    forebay: PathBuf,
    daemon: Option<Daemon>,
    /// Pool, log and mount point.
    scratch: TempDir,
    data: TempDir,
}

impl Place {
    /// Makes the directory under `parent`, and a pool in memory; serves nothing yet.
    ///
    /// Errors: a directory cannot be made, or `forebay create` fails.
    pub fn new(form: Form, forebay: &Path, parent: &Path, pool_bytes: u64) -> Result<Place> {
        let place = Place {
            form,
            forebay: forebay.to_owned(),
            daemon: None,
            scratch: directory(&memory())?,
            data: directory(parent)?,
        };
        std::fs::create_dir(place.scratch("mount"))?;
        if form != Form::Plain {
            let mut create = place.command("create");
            create
                .arg(place.pool())
                .args(["--size", &pool_bytes.to_string()]);
            forebay_harness::output(&mut create, DEADLINE)?;
        }
        Ok(place)
    }

    /// The command with one of its subcommands.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.forebay);
        // Where it is noted which pool has the newest data of files.
        command.env("XDG_STATE_HOME", self.scratch("state"));
        command.arg(name);
        command
    }

    /// A path for what is not to be covered.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The pool.
    pub fn pool(&self) -> PathBuf {
        self.scratch("pool")
    }

    /// Where the files really are.
    pub fn backing(&self) -> &Path {
        self.data.path()
    }

    /// Where programs use them.
    pub fn files(&self) -> PathBuf {
        match self.form.is_mounted() {
            true => self.scratch("mount"),
            false => self.backing().to_owned(),
        }
    }

    /// A program whose files are those of the place.
    pub fn program(&self, program: &Path) -> Command {
        if self.form != Form::Preload {
            return Command::new(program);
        }
        let mut command = self.command("run");
        command
            .arg("--pool")
            .arg(self.pool())
            .arg("--cover")
            .arg(self.backing().join("**"))
            .arg("--log")
            .arg(self.scratch("log"))
            .arg("--")
            .arg(program);
        command
    }

    /// `forebay mount` of this place.
    pub fn mount_command(&self) -> Command {
        let mut command = self.command("mount");
        command.args([self.backing(), &self.files()]);
        command.arg("--pool").arg(self.pool());
        if self.form == Form::MountWriteback {
            command.arg("--writeback-cache");
        }
        command
    }

    /// Mounts, where this is a mount, and waits until files can be used.
    ///
    /// Errors: the daemon ends instead, or takes too long.
    pub fn start(&mut self) -> Result<()> {
        if !self.form.is_mounted() {
            return Ok(());
        }
        // What it prints tells; of a dead mount the kernel may still show the root.
        let daemon =
            Daemon::start_ready(&mut self.mount_command(), &self.scratch("log"), DEADLINE)?;
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Ends the daemon by SIGTERM, which brings the directory up to date.
    ///
    /// Errors: it fails, or takes too long.
    pub fn stop(&mut self) -> Result<()> {
        match self.daemon.take() {
            Some(daemon) => daemon.end(Signal::TERM),
            None => Ok(()),
        }
    }

    /// The daemon, whose end is the caller's from now on.
    pub fn take_daemon(&mut self) -> Option<Daemon> {
        self.daemon.take()
    }

    /// Kills the daemon, if there is one.
    ///
    /// Errors: the kernel's.
    pub fn kill_daemon(&mut self) -> Result<()> {
        match self.daemon.take() {
            Some(daemon) => daemon.kill(),
            None => Ok(()),
        }
    }

    /// `forebay recover`: the directory is brought to the acknowledged state with nothing mounted.
    ///
    /// Errors: it fails.
    pub fn recover(&self) -> Result<()> {
        if self.form.is_mounted() {
            self.unmount_dead();
        }
        if self.form != Form::Plain {
            let mut recover = self.command("recover");
            forebay_harness::output(recover.arg(self.pool()), DEADLINE)?;
        }
        Ok(())
    }

    /// `forebay recover`, killed after `delay` unless it is done by then.
    ///
    /// Errors: it cannot be started.
    pub fn recover_killed(&self, delay: Duration) -> Result<()> {
        if self.form.is_mounted() {
            self.unmount_dead();
        }
        let mut recover = self.command("recover");
        recover.arg(self.pool()).stdout(Stdio::null());
        let mut group = Group::start(recover.stderr(Stdio::null()))?;
        std::thread::sleep(delay);
        group.kill()
    }

    /// Copies pool and files to a fresh directory below `parent`, to be looked at.
    ///
    /// Errors: they cannot be copied.
    pub fn keep(&self, parent: &Path, name: &str) -> Result<PathBuf> {
        let to = parent.join(name);
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        std::fs::create_dir_all(&to)?;
        let mut copy = std::process::Command::new("cp");
        copy.arg("-a").arg(self.backing()).arg(to.join("files"));
        forebay_harness::output(&mut copy, DEADLINE)?;
        for entry in std::fs::read_dir(self.scratch.path())? {
            let path = entry?.path();
            if path.is_file() {
                std::fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
            }
        }
        Ok(to)
    }

    /// Takes away what a killed daemon left mounted.
    pub fn unmount_dead(&self) {
        // Fails where it has been unmounted before.
        let _ = rustix::mount::unmount(self.files(), rustix::mount::UnmountFlags::DETACH);
    }

    /// The last lines that daemons or libraries logged.
    pub fn log_tail(&self) -> String {
        forebay_harness::tail_of(&self.scratch("log"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.form.is_mounted() {
            // A failure before; the directories are to be removed, not what is mounted there.
            let _ = self.kill_daemon();
            self.unmount_dead();
        }
    }
}

/// A directory in memory where there is one.
pub fn memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    match memory.is_dir() {
        true => memory,
        false => std::env::temp_dir(),
    }
}

/// A directory that programs of other users may pass through.
fn directory(parent: &Path) -> Result<TempDir> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    tempfile::Builder::new()
        .prefix("forebay-torture-")
        .permissions(mode)
        .tempdir_in(parent)
        .map_err(|error| format!("{}: {error}", parent.display()).into())
}
